"""docs/OPERATIONS.md says what the service does. Its metrics: supervision/test_metrics.py."""

import re
from signal import Signals

import yaml

from manyhands.shared.logs import FIRST_FIELDS
from manyhands.worker.process.fork_safety import SIGNALS
from manyhands.worker.supervision.emf import NAMESPACE, StageLine, emf_line
from manyhands.worker.supervision.status import ChildState
from tests.support.compose import MONITORING, ROOT
from tests.unit.deploy.test_probes import pages

GUIDE = (ROOT / "docs" / "OPERATIONS.md").read_text()
ALERTS = yaml.safe_load((MONITORING.parent / "prometheus" / "alerts.yml").read_text())


def first_cells(heading: str) -> list[str]:
    """What is in backticks or capitals at the start of each row of the tables under a heading."""
    _, _, text = GUIDE.partition(f"\n## {heading}\n")
    section = re.split(r"\n## ", text)[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"(?<=`)[^`,]+(?=`)|\bSIG\w+", row)]


def test_every_page_is_listed():
    assert {name for name in first_cells("Endpoints") if name.startswith("/")} == pages()


def test_every_state_of_a_child_is_explained():
    listed = [name for name in first_cells("Endpoints") if not name.startswith("/")]
    assert listed == [state.value for state in ChildState]


def test_every_alert_of_workers_and_crawls_is_explained():
    groups = [one for one in ALERTS["groups"] if one["name"] != "manyhands"]
    assert first_cells("What to alert on") == [
        rule["alert"] for group in groups for rule in group["rules"]
    ]


def test_every_signal_is_explained():
    assert {Signals[name] for name in first_cells("Signals")} == set(SIGNALS)


def test_the_fields_of_a_log_line_are_explained_in_their_order():
    assert first_cells("Logs") == [*FIRST_FIELDS, "service", "process_type", "process_id", "pid"]


def test_what_cloudwatch_is_told_is_explained():
    line = emf_line(StageLine("a", "b", 1, 1, 1.0), 1_700_000_000)
    metrics = set(re.findall(r'"Name":"(\w+)"', line))
    assert set(first_cells("CloudWatch")) == metrics
    assert f"`{NAMESPACE}`" in GUIDE

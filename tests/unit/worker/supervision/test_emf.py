"""Lines for CloudWatch: as its specification wants them, and what is in them."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from manyhands.worker.process.figures import STAGE_JOBS
from manyhands.worker.service.families import filled
from manyhands.worker.service.link import FIGURES_S, Figures, Sample
from manyhands.worker.supervision.cloudwatch import stage_lines, write_stage_lines
from manyhands.worker.supervision.emf import StageLine, emf_line
from manyhands.worker.supervision.metrics import ServiceMetrics
from tests.support.service_status import child, service, stage, turn
from tests.support.virtual_time import run_in_virtual_time

SCHEMA = json.loads(Path(__file__).with_name("emf.schema.json").read_text())
AT = 1_700_000_000.5
LINE = StageLine("fetch", "crawler", 1200, 480, 1234.56789)


def document(line: StageLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(emf_line(line, AT))
    return found


def check(found: dict[str, Any]) -> None:
    """By the schema, and what a schema cannot say: that all that is referred to is there."""
    jsonschema.validate(found, SCHEMA)
    for directive in found["_aws"]["CloudWatchMetrics"]:
        for name in {name for names in directive["Dimensions"] for name in names}:
            assert isinstance(found[name], str)
        for metric in directive["Metrics"]:
            assert isinstance(found[metric["Name"]], int | float)


def test_a_line_is_as_the_specification_wants_it():
    check(document(LINE))


def test_a_line_is_one_line():
    assert "\n" not in emf_line(StageLine("a\nb", "c", 1, 1, 1.0), AT)


def test_a_line_says_what_waits_what_runs_and_how_fast():
    found = document(LINE)
    assert found["_aws"]["Timestamp"] == 1_700_000_000_500
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "CommonCrawlWorker"
    assert ["Stage"] in directive["Dimensions"]
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "QueueDepth": "Count",
        "ActiveWorkers": "Count",
        "JobsPerSecond": "Count/Second",
    }
    assert (found["Stage"], found["process_type"]) == ("fetch", "crawler")
    assert (found["QueueDepth"], found["ActiveWorkers"]) == (1200, 480)
    assert found["JobsPerSecond"] == 1234.568


def test_a_depth_that_nobody_knows_is_no_depth():
    found = document(StageLine("fetch", "fetch", None, 3, 0.0))
    check(found)
    assert "QueueDepth" not in found
    assert "QueueDepth" not in json.dumps(found)


def test_a_name_longer_than_cloudwatch_takes_is_cut():
    check(document(StageLine("x" * 5000, "y" * 5000, 0, 0, 0.0)))


@pytest.mark.parametrize(
    "path",
    [
        ("_aws", "CloudWatchMetrics", 0, "Namespace"),
        ("_aws", "CloudWatchMetrics", 0, "Dimensions"),
        ("_aws", "Timestamp"),
        ("Stage",),
        ("ActiveWorkers",),
    ],
)
def test_the_check_misses_nothing_that_is_missing(path):
    found: Any = document(LINE)
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    with pytest.raises((jsonschema.ValidationError, KeyError)):
        check(found)


def stage_jobs(count: int) -> Figures:
    return Figures([filled(STAGE_JOBS, [Sample(["fetch"], count)])])


STATUS = service(
    child("fetch-0", stages=[stage("fetch", "fetch.00")], turns=[turn("fetch", 20)]),
    child("fetch-1", stages=[stage("fetch", "fetch.00")], turns=[turn("fetch", 30)]),
    queues={"fetch.00": 7},
)


def test_a_stage_has_one_line_for_all_its_processes():
    times = iter([0.0, 0.0, 5.0, 5.0])
    metrics = ServiceMetrics(lambda: next(times))
    for count in (0, 1000):
        metrics.keep("fetch", "fetch-0", 1, stage_jobs(count))
        metrics.keep("fetch", "fetch-1", 1, stage_jobs(count * 2))
    assert list(stage_lines(STATUS, metrics)) == [StageLine("fetch", "fetch", 7, 50, 600.0)]


def test_lines_come_every_five_seconds():
    output = io.StringIO()

    async def write_for_a_while() -> None:
        task = asyncio.create_task(write_stage_lines(lambda: STATUS, ServiceMetrics(), output))
        await asyncio.sleep(FIGURES_S * 3.5)
        task.cancel()

    run_in_virtual_time(write_for_a_while())
    lines = output.getvalue().splitlines()
    assert len(lines) == 3
    for line in lines:
        check(json.loads(line))


class Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError("nobody reads")


def test_an_output_that_nobody_reads_ends_the_lines_and_nothing_else():
    run_in_virtual_time(write_stage_lines(lambda: STATUS, ServiceMetrics(), Closed()))

"""docs/DEPLOYMENT.md says what the files say."""

import re

import pytest

from tests.support.compose import ALL_IN_ONE, ROOT, SERVER, WORKER, looked_at, read, services
from tests.unit.deploy.known_variables import FAKTORY_IMAGE, ours
from tests.unit.deploy.test_compose_files import LONG_RUNNING, OF_COMPOSE_ITSELF, SECRETS

GUIDE = (ROOT / "docs" / "DEPLOYMENT.md").read_text()
FILES = {"all in one": ALL_IN_ONE, "server": SERVER, "worker": WORKER}
LIMITS = re.compile(
    r"^\| (?P<service>[a-z-]+) \| (?P<file>all in one|server|worker) \| (?P<cpus>[\d.]+) "
    r"\| (?P<memory>\w+) \| (?P<grace>\d+s) \|",
    re.MULTILINE,
)
VARIABLE = re.compile(r"\b[A-Z]+_[A-Z_]+\b")
FILE = re.compile(r"`((?:deploy|tests|base|overlays|shared)/[\w./-]+|docker-compose[\w.]*\.yml)`")


def test_the_table_of_limits_is_right_and_whole():
    rows = [found.groupdict() for found in LIMITS.finditer(GUIDE)]
    for row in rows:
        service = services(FILES[row["file"]], **SECRETS)[row["service"]]
        assert service.limits == {"cpus": row["cpus"], "memory": row["memory"]}
        assert service.definition["stop_grace_period"] == row["grace"]
    assert {(FILES[row["file"]], row["service"]) for row in rows} == set(LONG_RUNNING)


def test_every_variable_that_it_names_is_looked_at_by_somebody():
    of_files = set().union(*(looked_at(read(path)) for path in FILES.values()))
    known = of_files | {"METRICS_API_KEY"} | ours() | FAKTORY_IMAGE | OF_COMPOSE_ITSELF
    assert set(VARIABLE.findall(GUIDE)) <= known


def test_every_variable_that_must_be_set_is_named():
    for path in FILES.values():
        required = set(re.findall(r"\$\{(\w+):\?", path.read_text()))
        assert required <= set(VARIABLE.findall(GUIDE))


@pytest.mark.parametrize("name", sorted(set(FILE.findall(GUIDE))))
def test_every_file_that_it_names_exists(name):
    assert (ROOT / name).exists() or (ROOT / "deploy" / "kubernetes" / name).exists()

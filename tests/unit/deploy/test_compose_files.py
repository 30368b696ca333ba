"""The three compose files: valid by the compose schema, and in accord with our own settings.

There is no Docker engine where these tests run; tests/acceptance/test_split_deployment.py runs what
the files say in network namespaces.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.api.__main__ import SECTIONS as API_SECTIONS
from manyhands.shared.faktory.handshake import parse_url
from manyhands.worker.service.settings import SECTIONS as WORKER_SECTIONS
from manyhands.worker.service.stages import DEFAULT_GROUP, ProcessGroup, resolve_stages
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from manyhands.worker.source.queue_order import QueueOrder
from tests.support.compose import (
    ALL_IN_ONE,
    MONITORING,
    SERVER,
    WORKER,
    MissingVariable,
    Service,
    read,
    seconds,
    services,
    variables_of,
)
from tests.support.settings_place import SettingsPlace
from tests.unit.deploy.known_variables import known_to

FILES = [ALL_IN_ONE, SERVER, WORKER, MONITORING]
SECRETS = {
    "FAKTORY_PASSWORD": "5ec7e7",
    "API_KEYS": f"ops:ingest+read+admin:{'ab' * 32}",
    "FAKTORY_SERVER_IP": "192.0.2.7",
}
OUR_USER = (10001, 10001)
LONG_RUNNING = [
    (path, name)
    for path, names in (
        (ALL_IN_ONE, ["faktory", "api-service", "worker-service"]),
        (SERVER, ["faktory", "api-service"]),
        (WORKER, ["worker-service"]),
    )
    for name in names
]
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
each_service = pytest.mark.parametrize(
    ("path", "name"), LONG_RUNNING, ids=lambda part: getattr(part, "name", part)
)
each_worker = pytest.mark.parametrize("path", [ALL_IN_ONE, WORKER], ids=lambda path: path.name)
each_api = pytest.mark.parametrize("path", [ALL_IN_ONE, SERVER], ids=lambda path: path.name)


def service(path: Path, name: str) -> Service:
    return services(path, **SECRETS)[name]


def check_schema(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Against the compose specification's own schema, which check-jsonschema brings along."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    output = subprocess.PIPE
    return subprocess.run(
        [*command, *paths], stdout=output, stderr=subprocess.STDOUT, text=True, timeout=25
    )


def test_the_files_are_valid_by_the_compose_schema():
    done = check_schema(*FILES)
    assert done.returncode == 0, done.stdout


def test_the_compose_schema_refuses_a_mistake(tmp_path):
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(WORKER.read_text().replace("stop_grace_period", "stop_grace"))
    done = check_schema(wrong)
    assert done.returncode == 1
    assert "stop_grace" in done.stdout


def test_each_file_has_its_services():
    monitoring = {"prometheus", "grafana"}
    assert set(read(ALL_IN_ONE)["services"]) - monitoring == {
        "faktory",
        "api-service",
        "worker-service",
    }
    assert set(read(SERVER)["services"]) - monitoring == {"faktory", "api-service"}
    assert set(read(WORKER)["services"]) == {"worker-service"}


@pytest.mark.parametrize(("path", "cpus"), [(ALL_IN_ONE, "2.0"), (SERVER, "4.0")])
def test_faktory_gets_its_processors(path, cpus):
    assert service(path, "faktory").limits["cpus"] == cpus


@pytest.mark.parametrize(("path", "slots"), [(ALL_IN_ONE, "50"), (WORKER, "500")])
def test_workers_have_their_slots_unless_told_otherwise(path, slots):
    assert service(path, "worker-service").environment["WORKER_CONCURRENCY"] == slots
    told = services(path, **SECRETS, WORKER_CONCURRENCY="1200")["worker-service"]
    assert told.environment["WORKER_CONCURRENCY"] == "1200"


def test_all_in_one_needs_no_variable_and_serves_this_machine_only():
    for one in services(ALL_IN_ONE).values():
        for port in one.definition.get("ports", []):
            assert port.startswith("127.0.0.1:"), port
    assert "127.0.0.1:3000:3000" in services(ALL_IN_ONE)["api-service"].definition["ports"]


@pytest.mark.parametrize("missing", ["FAKTORY_PASSWORD", "API_KEYS"])
def test_the_server_refuses_to_start_without(missing):
    given = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(MissingVariable, match=f"^{missing}: set it in .env"):
        services(SERVER, **given)


@pytest.mark.parametrize("missing", ["FAKTORY_PASSWORD", "FAKTORY_SERVER_IP"])
def test_a_worker_refuses_to_start_without(missing):
    given = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(MissingVariable, match=f"^{missing}: set it in .env"):
        services(WORKER, **given)


def test_the_server_gives_away_only_jobs_and_the_api():
    published = {
        name: one.definition.get("ports", []) for name, one in services(SERVER, **SECRETS).items()
    }
    assert published["faktory"] == ["7419:7419", "127.0.0.1:7420:7420"]
    assert published["api-service"] == ["3000:3000"]


def test_several_workers_fit_on_one_machine():
    definition = service(WORKER, "worker-service").definition
    assert "container_name" not in definition
    assert "ports" not in definition
    assert "network_mode" not in definition


@each_service
def test_a_service_is_watched_limited_and_restarted(path, name):
    one = service(path, name)
    assert one.health_command
    assert float(one.limits["cpus"]) > 0
    assert re.fullmatch(r"\d+[MG]", one.limits["memory"])
    assert one.nofile >= 8192
    assert one.definition["restart"] == "unless-stopped"
    assert one.definition["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


@each_service
def test_a_service_can_do_little_beyond_its_work(path, name):
    definition = service(path, name).definition
    assert definition["read_only"] is True
    assert definition["cap_drop"] == ["ALL"]
    assert definition["security_opt"] == ["no-new-privileges:true"]
    assert service(path, name).user[0] == OUR_USER[0]


@each_worker
def test_a_worker_is_given_longer_to_stop_than_it_takes(path):
    one = service(path, "worker-service")
    assert one.stop_grace_s >= float(one.environment["WORKER_SHUTDOWN_TIMEOUT"]) + 10


@each_worker
def test_a_workers_stop_cannot_be_made_longer_than_its_grace(path):
    """By a variable of .env that only the one of the two looks at."""
    given = read(path)["services"]["worker-service"]
    assert not variables_of(given["environment"]["WORKER_SHUTDOWN_TIMEOUT"])


@each_service
def test_ours_start_when_faktory_is_there(path, name):
    definition = service(path, name).definition
    if path != WORKER and name != "faktory":
        assert definition["depends_on"] == {"faktory": {"condition": "service_healthy"}}
    else:
        assert "depends_on" not in definition


@each_service
def test_nobody_is_told_what_he_does_not_read(path, name):
    assert set(service(path, name).environment) <= known_to(name)


def test_grafana_is_told_only_what_it_reads():
    for name, definition in read(MONITORING)["services"].items():
        assert set(definition.get("environment", {})) <= known_to(name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsPlace:
    return SettingsPlace(tmp_path, monkeypatch)


def assert_back_pressure(queues: str) -> None:
    """What fetches is slowed while pages wait to be parsed, and nothing else is."""
    group = ProcessGroup(DEFAULT_GROUP, 1, 1)
    stages = resolve_stages(group, queues, {}, {})
    assert {stage.queues.partition(":")[0] for stage in stages if stage.feeds == "parse"} == {
        "fetch.*"
    }


@each_worker
def test_a_workers_settings_are_right(path, place):
    place.environment(**service(path, "worker-service").environment)
    settings = place.load(sections=WORKER_SECTIONS).settings
    queues = QueueOrder.parse(settings.worker.queues, settings.crawl.shards).names
    assert {"default", "parse", "fetch.00"} <= set(queues)
    assert_back_pressure(settings.worker.queues)
    for module in settings.worker.handlers.split(","):
        assert importlib.util.find_spec(module) is not None
    assert settings.sinks.urls[0].startswith("jsonl:/var/lib/manyhands/")
    assert settings.faktory.connections == 48


@each_api
def test_the_apis_settings_are_right(path, place):
    place.environment(**service(path, "api-service").environment)
    settings = place.load(sections=API_SECTIONS).settings
    batch = settings.batch
    assert (batch.max_size, batch.max_delay_ms, batch.auto_enabled) == (100, 50, True)
    assert settings.api.bind == "0.0.0.0:3000"


def test_the_password_reaches_everybody(monkeypatch):
    assert service(SERVER, "faktory").environment["FAKTORY_PASSWORD"] == "5ec7e7"
    for path, name, host in (
        (SERVER, "api-service", "faktory"),
        (WORKER, "worker-service", "192.0.2.7"),
    ):
        address = parse_url(service(path, name).environment["FAKTORY_URL"])
        assert (address.password, address.host, address.port) == ("5ec7e7", host, 7419)


def test_three_services_of_eight_processes_stay_below_what_faktory_takes():
    """Each process has the budget of a container; the acceptance test counts them at a server."""
    budget = int(service(WORKER, "worker-service").environment["FAKTORY_CONNECTIONS"])
    assert 3 * 8 * budget < FLEET_CONNECTIONS
    # What the file's own comment says.
    assert 36 * budget < FLEET_CONNECTIONS


@each_file
def test_images_are_pinned_and_name_no_registry(path):
    for one in services(path, **SECRETS).values():
        image = one.definition.get("image")
        if image is None or image == "manyhands":
            continue
        first = image.split("/")[0]
        assert "." not in first and ":" not in first and first != "localhost", image
        assert re.search(r":v?\d+\.\d+\.\d+$", image), image


@each_file
def test_volumes_and_mounted_files_exist(path):
    content = read(path)
    declared = set(content.get("volumes", {}))
    for one in content["services"].values():
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (path.parent / source).exists(), source
            else:
                assert source in declared, source


@pytest.mark.parametrize("path", [ALL_IN_ONE, SERVER], ids=lambda path: path.name)
def test_monitoring_is_started_only_when_asked_for(path):
    content = read(path)
    for name in ("prometheus", "grafana"):
        definition = content["services"][name]
        assert definition["profiles"] == ["monitoring"]
        extended = definition["extends"]
        assert (path.parent / extended["file"]) == MONITORING
        assert extended["service"] in read(MONITORING)["services"]
    # A volume that an extended service uses must be declared by who extends it.
    assert set(read(MONITORING)["volumes"]) <= set(content["volumes"])


@each_file
def test_health_checks_are_patient_enough(path):
    for one in read(path)["services"].values():
        check = one.get("healthcheck")
        if check is not None:
            assert seconds(check["timeout"]) <= seconds(check["interval"])
            assert seconds(check["start_period"]) >= 20

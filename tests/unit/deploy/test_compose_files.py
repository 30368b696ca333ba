"""The three compose files: valid by the compose schema, and in accord with our own settings.

There is no Docker engine where these tests run; tests/acceptance/test_split_deployment.py runs what
the files say in network namespaces.
"""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from manyhands.api.__main__ import SECTIONS as API_SECTIONS
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.settings import WorkerSettings
from manyhands.shared.settings.names import settings_of, variable_of
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.service.settings import SECTIONS as WORKER_SECTIONS
from manyhands.worker.service.stages import DEFAULT_GROUP, ProcessGroup, Stage, resolve_stages
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from tests.support.compose import (
    ALL_IN_ONE,
    MONITORING,
    ROOT,
    SERVER,
    STORAGE,
    WORKER,
    MissingVariable,
    Service,
    looked_at,
    passed_on,
    read,
    seconds,
    services,
    variables_of,
)
from tests.support.settings_place import SettingsPlace
from tests.unit.deploy.known_variables import AWS, known_to, ours

MONITORS = ("prometheus", "grafana", "node-exporter")
FILES = [ALL_IN_ONE, SERVER, WORKER, MONITORING, STORAGE]
# Of .env; passwords are in files.
SECRETS = {
    "API_KEYS": f"ops:ingest+read+admin:{'ab' * 32}",
    "FAKTORY_SERVER_IP": "192.0.2.7",
}
OUR_USER = (10001, 10001)
# Of the image: its data belong to it.
USERS = {"postgres": 999}
LONG_RUNNING = [
    (path, name)
    for path, names in (
        (ALL_IN_ONE, ["faktory", "broker", "api-service", "worker-service"]),
        (SERVER, ["faktory", "postgres", "api-service"]),
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
    without_profile = {
        path: {name for name, one in read(path)["services"].items() if not one.get("profiles", [])}
        for path in (ALL_IN_ONE, SERVER, WORKER)
    }
    assert without_profile == {
        ALL_IN_ONE: {"faktory", "api-service", "worker-service"},
        SERVER: {"faktory", "postgres", "api-service"},
        WORKER: {"worker-service"},
    }
    profiles = {
        profile
        for one in read(ALL_IN_ONE)["services"].values()
        for profile in one.get("profiles", [])
    }
    assert profiles == {"embedded", "monitoring", "s3", "elasticsearch"}


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


@pytest.mark.parametrize("missing", ["API_KEYS"])
def test_the_server_refuses_to_start_without(missing):
    given = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(MissingVariable, match=f"^{missing}: set it in .env"):
        services(SERVER, **given)


@pytest.mark.parametrize("missing", ["FAKTORY_SERVER_IP"])
def test_a_worker_refuses_to_start_without(missing):
    given = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(MissingVariable, match=f"^{missing}: set it in .env"):
        services(WORKER, **given)


def test_the_server_gives_away_only_jobs_the_state_of_crawls_and_the_api():
    published = {
        name: one.definition.get("ports", []) for name, one in services(SERVER, **SECRETS).items()
    }
    assert published["faktory"] == ["7419:7419", "127.0.0.1:7420:7420"]
    assert published["postgres"] == ["5432:5432"]
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
    assert service(path, name).user[0] == USERS.get(name, OUR_USER[0])


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
    depends_on = service(path, name).definition.get("depends_on", {})
    wanted = {"faktory", "postgres"} & set(services(path, **SECRETS))
    is_served = path != WORKER and name in ("api-service", "worker-service")
    assert depends_on == {other: {"condition": "service_healthy"} for other in wanted if is_served}


@each_service
def test_nobody_is_told_what_he_does_not_read(path, name):
    assert set(service(path, name).environment) <= known_to(name)


@pytest.mark.parametrize("path", [MONITORING, STORAGE], ids=lambda path: path.parent.name)
def test_what_a_profile_starts_is_told_only_what_it_reads(path):
    for name, definition in read(path)["services"].items():
        assert set(definition.get("environment", {})) <= known_to(name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsPlace:
    return SettingsPlace(tmp_path, monkeypatch)


STATES = {
    ALL_IN_ONE: ("/var/lib/manyhands/crawls",),
    SERVER: ("postgresql://manyhands:of%20postgres@postgres/manyhands",),
    WORKER: ("postgresql://manyhands:of%20postgres@manyhands-server/manyhands",),
}
# A secret that is no file, and that Prometheus reads by a file of its own.
MONITORING_KEY = {"metrics-api-key"}


def set_environment(place: SettingsPlace, service: Service) -> None:
    """What a container of it has, with its secrets."""
    environment = service.environment
    for name in service.secrets:
        path = place.file(name, f"of {name.removesuffix('-password')}\n")
        environment = {
            variable: value.replace(f"/run/secrets/{name}", str(path))
            for variable, value in environment.items()
        }
    place.environment(**environment)


def stages_of(worker: WorkerSettings) -> tuple[Stage, ...]:
    """What its handlers make of it, which register themselves when they are imported."""
    modules = worker.handlers.split(",")
    for module in modules:
        importlib.import_module(module)
    # `links` and `parsed` are of the module that registers them for crawls.
    wanted = {module.rpartition(".")[2] for module in modules}
    wanted |= {"links", "parsed"} if "crawl" in wanted else set()
    queues_by_type = {
        name: queues for name, queues in REGISTRY.queues_by_type().items() if name in wanted
    }
    group = ProcessGroup(DEFAULT_GROUP, 1, worker.concurrency)
    return resolve_stages(group, worker.queues, queues_by_type, {})


def assert_crawls_under_back_pressure(stages: tuple[Stage, ...]) -> None:
    """What fetches is slowed while pages wait to be parsed, and nothing else is."""
    assert {stage.name: stage.feeds for stage in stages} == {
        "add": "",
        "parse": "",
        "fetch": "parse",
        "crawl": "parse",
    }


@each_worker
def test_a_workers_settings_are_right(path, place):
    set_environment(place, service(path, "worker-service"))
    settings = place.load(sections=WORKER_SECTIONS).settings
    assert_crawls_under_back_pressure(stages_of(settings.worker))
    assert settings.crawl.state == STATES[path]
    assert settings.sinks.urls[0].startswith("jsonl:/var/lib/manyhands/")
    assert settings.faktory.connections == 48


@each_api
def test_the_apis_settings_are_right(path, place):
    set_environment(place, service(path, "api-service"))
    settings = place.load(sections=API_SECTIONS).settings
    assert settings.crawl.state == STATES[path]
    batch = settings.batch
    assert (batch.max_size, batch.max_delay_ms, batch.auto_enabled) == (100, 50, True)
    assert settings.api.bind == "0.0.0.0:3000"


def test_the_passwords_reach_everybody_in_files(place):
    faktory, postgres = (service(SERVER, name).environment for name in ("faktory", "postgres"))
    assert faktory["FAKTORY_PASSWORD"] == "/run/secrets/faktory-password"
    assert postgres["POSTGRES_PASSWORD_FILE"] == "/run/secrets/postgres-password"
    for path, name, sections, host in (
        (SERVER, "api-service", API_SECTIONS, "faktory"),
        (WORKER, "worker-service", WORKER_SECTIONS, "manyhands-server"),
    ):
        set_environment(place, service(path, name))
        settings = place.load(sections=sections).settings
        address = parse_url(settings.faktory.url)
        assert (address.password, address.host, address.port) == ("of faktory", host, 7419)
        (state,) = settings.crawl.state
        assert state.startswith("postgresql://manyhands:of%20postgres@")


@pytest.mark.parametrize("path", [SERVER, WORKER], ids=lambda path: path.name)
def test_a_service_has_the_secrets_that_it_looks_for(path):
    """In files that git ignores."""
    declared = read(path)["secrets"]
    for name, one in services(path, **SECRETS).items():
        values = " ".join(one.environment.values())
        assert (
            set(re.findall(r"/run/secrets/([\w-]+)", values)) == set(one.secrets) - MONITORING_KEY
        )
        assert set(one.secrets) <= set(declared), name
    for name, secret in declared.items():
        if name not in MONITORING_KEY:
            assert secret == {"file": f"./secrets/{name}"}
            assert "/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_workers_know_the_server_by_the_name_that_their_urls_use():
    worker = service(WORKER, "worker-service")
    (host,) = worker.definition["extra_hosts"]
    assert host == "manyhands-server:192.0.2.7"


def test_the_embedded_broker_takes_the_place_of_faktory():
    """With the variables that the file names."""
    text = ALL_IN_ONE.read_text()
    told = dict(re.findall(r"^  #   (\w+)=(\S+)$", text, re.MULTILINE))
    assert told.keys() == {"COMPOSE_PROFILES", "FAKTORY_REPLICAS", "FAKTORY_URL"}
    every = services(ALL_IN_ONE, **told)
    assert every["faktory"].definition["deploy"]["replicas"] == "0"
    assert every["broker"].definition["profiles"] == [told["COMPOSE_PROFILES"]]
    for name in ("api-service", "worker-service"):
        address = parse_url(every[name].environment["FAKTORY_URL"])
        assert (address.host, address.password) == (
            "broker",
            every["broker"].environment["BROKER_PASSWORD"],
        )


def test_the_services_may_be_asked_by_their_names():
    api = service(ALL_IN_ONE, "api-service").environment
    assert api["API_KEYS"] == "none"
    assert api["API_HOSTS"] == "api-service"


# Every setting that an operator may want


def settings_of_section(section: str) -> set[str]:
    return {variable_of(setting.key) for setting in settings_of(section)}


# These are the files' own business: addresses inside, secrets, the time to stop in; or they name a
# file of the machine, which a container does not see.
DECIDED_BY_THE_FILES = {
    "FAKTORY_PASSWORD",
    "FAKTORY_CA_FILE",
    "FAKTORY_WEB_URL",
    "CRAWL_PASSWORD",
    "WORKER_HTTP_BIND",
    "WORKER_SHUTDOWN_TIMEOUT",
    "API_BIND",
    "API_HOSTS",
    "API_KEYS",
    "BROKER_BIND",
    "BROKER_HTTP_BIND",
    "BROKER_DATA",
    "BROKER_TLS_CERT",
    "BROKER_TLS_KEY",
}
# Of the machine that the API is on.
NOT_OF_WORKERS = {"CRAWL_FILES"}
# These files run on Faktory or our broker.
NOT_OF_FAKTORY = {"WORKER_SOURCE", "WORKER_TOPICS", *settings_of_section("kafka")}
# A service of the API has three connections of its own.
NOT_OF_THE_API = {"FAKTORY_CONNECTIONS"}


@pytest.mark.parametrize(
    ("path", "name", "sections", "more"),
    [
        (ALL_IN_ONE, "api-service", API_SECTIONS, set()),
        (ALL_IN_ONE, "worker-service", WORKER_SECTIONS, AWS),
        (ALL_IN_ONE, "broker", ("broker",), set()),
        (SERVER, "api-service", API_SECTIONS, set()),
        (WORKER, "worker-service", WORKER_SECTIONS, AWS),
    ],
)
def test_every_setting_passes_through(path, name, sections, more):
    wanted = set().union(more, *map(settings_of_section, sections)) - DECIDED_BY_THE_FILES
    wanted -= NOT_OF_FAKTORY
    wanted -= NOT_OF_WORKERS if name == "worker-service" else NOT_OF_THE_API
    given = read(path)["services"][name]["environment"]
    can_be_set = {each for each, value in given.items() if value is None or variables_of(value)}
    fixed = {"FAKTORY_URL"} if path != ALL_IN_ONE else set()
    assert wanted - fixed <= can_be_set
    # By its own name, so that .env is written once for all.
    for each, value in given.items():
        assert value is None or variables_of(value) <= {each, "FAKTORY_SERVER_IP"}, each


EXAMPLE = ROOT / ".env.example"
OF_COMPOSE_ITSELF = {"COMPOSE_PROFILES"}


def test_the_example_names_every_variable_of_the_files_and_no_other():
    """Commented out: as it stands it changes nothing."""
    lines = EXAMPLE.read_text().splitlines()
    assert all(not line or line.startswith("#") for line in lines)
    named = [found[1] for line in lines if (found := re.match(r"#([A-Z][A-Z0-9_]*)=", line))]
    assert len(named) == len(set(named))
    wanted = set().union(*(looked_at(read(path)) for path in FILES))
    wanted |= {
        one["environment"] for one in read(SERVER)["secrets"].values() if "environment" in one
    }
    assert set(named) == wanted | OF_COMPOSE_ITSELF


@pytest.mark.parametrize("path", [ALL_IN_ONE, SERVER, WORKER], ids=lambda path: path.name)
def test_what_the_example_shows_can_be_set(path, place):
    """All of it at once, but for the two ways to say what a worker runs."""
    shown = dict(re.findall(r"^#([A-Z][A-Z0-9_]*)=(.*)$", EXAMPLE.read_text(), re.MULTILINE))
    del shown["WORKER_STAGES"]
    for name, one in services(path, **SECRETS | shown | {"API_KEYS": SECRETS["API_KEYS"]}).items():
        sections = {"api-service": API_SECTIONS, "worker-service": WORKER_SECTIONS}.get(name)
        if sections is not None:
            set_environment(place, one)
            place.load(sections=sections)


@each_file
def test_what_is_passed_on_is_known(path):
    assert passed_on(read(path)) <= ours()


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
        tag, _, digest = image.partition("@")
        first, slash, _ = tag.partition("/")
        assert not slash or not re.search(r"[.:]|^localhost$", first), image
        assert re.search(r":v?\d+\.\d+(\.\d+|-bookworm)$", tag), image
        assert not digest or re.fullmatch(r"sha256:[0-9a-f]{64}", digest), image


@each_file
def test_volumes_and_mounted_files_exist(path):
    content = read(path)
    declared = set(content.get("volumes", {}))
    for one in content["services"].values():
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            if source == "/":
                # The machine that node_exporter tells of.
                assert volume.endswith(":ro,rslave"), volume
            elif source.startswith("."):
                assert (path.parent / source).exists(), source
            else:
                assert source in declared, source


@pytest.mark.parametrize(
    ("path", "extended", "names"),
    [
        (ALL_IN_ONE, MONITORING, dict.fromkeys(MONITORS, "monitoring")),
        (SERVER, MONITORING, dict.fromkeys(MONITORS, "monitoring")),
        (ALL_IN_ONE, STORAGE, {"s3": "s3", "elasticsearch": "elasticsearch"}),
    ],
    ids=lambda part: getattr(part, "parent", ROOT).name,
)
def test_what_not_everybody_needs_is_started_only_when_asked_for(path, extended, names):
    content = read(path)
    for name, profile in names.items():
        definition = content["services"][name]
        assert definition["profiles"] == [profile]
        assert (path.parent / definition["extends"]["file"]) == extended
        assert definition["extends"]["service"] in read(extended)["services"]
    # A volume that an extended service uses must be declared by who extends it.
    assert set(read(extended)["volumes"]) <= set(content["volumes"])


@each_file
def test_health_checks_are_patient_enough(path):
    for one in read(path)["services"].values():
        check = one.get("healthcheck")
        if check is not None:
            assert seconds(check["timeout"]) <= seconds(check["interval"])
            assert seconds(check["start_period"]) >= 20

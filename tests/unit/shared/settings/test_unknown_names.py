"""A name that nobody reads is a mistake, unless it is somebody else's."""

import re

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings.names import OF_OTHERS, known_variables, wrong_variables
from manyhands.shared.settings.sections import SECTIONS
from tests.support.compose import ALL_IN_ONE, SERVER, WORKER, looked_at, read
from tests.support.manifests import everything


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("WORKER_CONCURENCY", "WORKER_CONCURRENCY"),
        ("WORKER_QUEUE", "WORKER_QUEUES"),
        ("FAKTORY_URI", "FAKTORY_URL"),
        ("FAKTORY_PROVDER", "FAKTORY_PROVIDER"),
        ("BROKER_PASWORD_FILE", "BROKER_PASSWORD_FILE"),
        ("API_KEY", "API_KEYS"),
        ("PRESSURE_SOFT_JOB", "PRESSURE_SOFT_JOBS"),
        ("MANYHANDS_CONF", "MANYHANDS_CONFIG"),
    ],
)
def test_a_variable_that_nobody_reads_is_refused_with_the_nearest_one(place, wrong, meant):
    place.environment(**{wrong: "1"})
    complaint = f"{wrong} is not a setting (did you mean {meant}?)"
    with pytest.raises(ConfigError, match=f"^{re.escape(complaint)}$"):
        place.load()


@pytest.mark.parametrize("wrong", ["WORKER_COLOUR", "STAGES_FETCH_WEIGHT", "ALLOW_"])
def test_where_none_is_near_none_is_named(place, wrong):
    place.environment(**{wrong: "1"})
    with pytest.raises(ConfigError, match=f"^{wrong} is not a setting$"):
        place.load()


def test_dotenv_is_judged_in_the_same_way(place):
    place.dotenv("PATH_OF_MINE=x\nWORKER_CONCURENCY=5\n")
    with pytest.raises(
        ConfigError,
        match=r"^\.env line 2: WORKER_CONCURENCY is not a setting \(did you mean WORKER_CONCURR",
    ):
        place.load()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("workers: {queues: a}", "line 1: workers is not a setting (did you mean worker?)"),
        ("worker:\n  queue: a\n", "line 2: worker.queue is not a setting (did you mean worker.qu"),
        (
            "stages: {fetch: {wait: 3}}",
            "line 1: stages.fetch.wait is not a setting (did you mean stages",
        ),
        ("WORKER_QUEUES: a", "line 1: WORKER_QUEUES is not a setting"),
        ("faktory: {provider: X}", "line 1: faktory.provider is not a setting"),
        ("broker: {pasword_file: x}", "(did you mean broker.password_file?)"),
    ],
)
def test_so_is_the_file_with_all_its_sections_whoever_reads_it(place, text, complaint):
    place.yaml(text)
    with pytest.raises(ConfigError) as refused:
        place.load(sections=("crawl",))
    assert complaint in str(refused.value)


def test_prefixes_of_sections_that_a_service_does_not_use_are_not_its_business(place):
    """A handler may need the API_TOKEN of somebody's API."""
    place.environment(API_TOKEN="x", BROKER_DATE="y")
    place.dotenv("API_ENDPOINT=x\n")
    assert place.load(sections=("worker", "faktory")).origins == {}


@pytest.mark.parametrize(
    "name",
    [
        "FAKTORY_SERVICE_HOST",
        "FAKTORY_SERVICE_PORT",
        "FAKTORY_SERVICE_PORT_JOBS",
        "FAKTORY_PORT",
        "FAKTORY_PORT_7419_TCP",
        "FAKTORY_PORT_7419_TCP_ADDR",
        "FAKTORY_PORT_7419_TCP_PORT",
        "FAKTORY_PORT_7419_TCP_PROTO",
        "API_SERVICE_SERVICE_HOST",
        "API_SERVICE_PORT_3000_TCP",
        "WORKER_SERVICE_SERVICE_PORT",
        "BROKER_NAME",
        "BROKER_ENV_PATH",
    ],
)
def test_what_kubernetes_and_docker_tell_of_services_is_left_alone(place, name):
    place.environment(**{name: "tcp://10.0.0.1:7419"})
    assert place.load().origins == {}


def test_the_variable_that_the_provider_names_is_left_alone(place):
    place.environment(FAKTORY_PROVIDER="FAKTORY_MAIN", FAKTORY_MAIN="tcp://there")
    assert place.load().settings.faktory.url == "tcp://there"
    place.environment(FAKTORY_SPARE="tcp://there-too")
    with pytest.raises(ConfigError, match=r"^FAKTORY_SPARE is not a setting"):
        place.load()


def names_of_deployments() -> set[str]:
    """All that the compose files look at or set, and all that the Kubernetes manifests set."""
    names: set[str] = set()
    for path in (ALL_IN_ONE, SERVER, WORKER):
        content = read(path)
        names |= looked_at(content)
        for service in content["services"].values():
            names |= set(service.get("environment", {}))
    return names | set(
        re.findall(r"\b[A-Z]+_[A-Z_]+\b", str([one.content for one in everything()]))
    )


def test_no_name_of_our_deployments_is_refused():
    names = names_of_deployments()
    assert {"FAKTORY_PASSWORD", "FAKTORY_SERVER_IP", "WORKER_CONCURRENCY"} <= names
    assert wrong_variables(names, SECTIONS, ()) == {}


def test_no_name_is_both_ours_and_somebody_elses():
    assert not OF_OTHERS & set(known_variables())

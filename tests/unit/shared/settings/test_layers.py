"""Which layer wins, where a value came from, and what a layer can hold."""

from itertools import combinations

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import WorkerSettings
from tests.support.settings_place import SettingsPlace

PROVIDER = "FAKTORY_PROVIDER"
# Highest first, as they are called afterwards, and a value for each.
LAYERS = {
    "command line --worker-concurrency": 101,
    "environment WORKER_CONCURRENCY": 102,
    ".env line 1": 103,
    "manyhands.yaml line 2": 104,
    "default": WorkerSettings().concurrency,
}


def give(place: SettingsPlace, layer: str) -> list[str]:
    """Put its value there; what to add to the command line."""
    value = LAYERS[layer]
    match layer.split()[0]:
        case "command":
            return ["--worker-concurrency", str(value)]
        case "environment":
            place.environment(WORKER_CONCURRENCY=str(value))
        case ".env":
            place.dotenv(f"WORKER_CONCURRENCY={value}\n")
        case "manyhands.yaml":
            place.yaml(f"worker:\n  concurrency: {value}\n")
    return []


@pytest.mark.parametrize(("higher", "lower"), list(combinations(LAYERS, 2)))
def test_the_higher_of_two_layers_wins(place, higher, lower):
    loaded = place.load(*give(place, lower), *give(place, higher))
    assert loaded.settings.worker.concurrency == LAYERS[higher]
    assert loaded.origin(("worker", "concurrency")) == higher


def test_each_layer_adds_what_the_higher_ones_do_not_say(place):
    place.yaml("worker: {queues: of yaml, handlers: of yaml, idle_fetches: 7}\ncrawl: {shards: 3}")
    place.dotenv("WORKER_QUEUES='of dotenv'\nWORKER_HANDLERS='of dotenv'\n")
    place.environment(WORKER_QUEUES="of the environment")
    loaded = place.load("--worker-processes", "4")
    worker = loaded.settings.worker
    assert (worker.queues, worker.handlers) == ("of the environment", "of dotenv")
    assert (worker.idle_fetches, worker.processes) == (7, 4)
    assert loaded.settings.crawl.shards == 3
    assert loaded.settings.worker.shutdown_timeout == WorkerSettings().shutdown_timeout


def test_nothing_has_to_be_there(place):
    loaded = place.load()
    assert loaded.origins == {}
    assert loaded.settings.worker == WorkerSettings()


# The YAML file


def test_the_file_may_be_named_on_the_command_line_or_by_a_variable(place):
    place.yaml("crawl: {shards: 1}")
    place.file("two.yaml", "crawl: {shards: 2}")
    place.file("three.yaml", "crawl: {shards: 3}")
    place.file("four.yaml", "crawl: {shards: 4}")
    assert place.load().settings.crawl.shards == 1
    place.dotenv("MANYHANDS_CONFIG=four.yaml")
    assert place.load().settings.crawl.shards == 4
    place.environment(MANYHANDS_CONFIG="two.yaml")
    assert place.load().settings.crawl.shards == 2
    assert place.load("--config", "three.yaml").settings.crawl.shards == 3
    assert place.load("--config", "three.yaml").origin(("crawl", "shards")) == "three.yaml line 1"


def test_a_file_that_is_named_must_be_there(place):
    with pytest.raises(ConfigError, match=r"^cannot read none\.yaml: No such file or directory$"):
        place.load("--config", "none.yaml")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "worker:\n", "stages:\n", "worker: {}"])
def test_a_file_may_say_nothing(place, text):
    place.yaml(text)
    assert place.load().settings == place.load("--config", "manyhands.yaml").settings
    assert place.load().origins == {}


def test_the_stages_are_in_the_file_only(place):
    place.yaml(
        "stages:\n"
        "  fetch: {weight: 3, cap: 400, feeds: parse}\n"
        "  reports:\n"
        "    queues: weekly:2,daily:1\n"
    )
    loaded = place.load()
    fetch, reports = loaded.settings.stages["fetch"], loaded.settings.stages["reports"]
    assert (fetch.weight, fetch.cap, fetch.queues, fetch.feeds) == (3, 400, None, "parse")
    assert (reports.weight, reports.cap, reports.queues) == (1, None, "weekly:2,daily:1")
    assert loaded.origin(("stages", "reports", "queues")) == "manyhands.yaml line 4"
    assert loaded.origin(("stages", "reports", "weight")) == "default"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("worker: [1, 2]", "line 1: worker must be a map of names and values"),
        ("- worker", "line 1: the file must be a map of names and values"),
        ("stages: {fetch: 3}", "line 1: stages.fetch must be a map of names and values"),
        ("worker:\n  queues: a\n  queues: b\n", "line 3: queues stands there twice"),
        ("worker: {queues: a}\nworker: {queues: b}", "line 2: worker stands there twice"),
        ("worker:\n  queues: a: b\n", "line 2: not YAML: mapping values are not allowed here"),
        ("worker: {queues: !thing a}", "line 1: not YAML: could not determine a constructor"),
        ("worker: {queues: \x01}", "not YAML: unacceptable character"),
        ("worker:\n  concurrency: many\n", "line 2: worker.concurrency: Input should be a valid"),
        ("worker: {queues: 5}", "line 1: worker.queues: Input should be a valid string"),
        ("stages:\n  fetch:\n    weight: 0\n", "line 3: stages.fetch.weight: Input should be"),
        ("stages: {fetch: {weight: 1001}}", "line 1: stages.fetch.weight: Input should be"),
        ("allow: {nets: [everything]}", "line 1: allow.nets: 'everything' does not appear to be"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_line(place, text, complaint):
    place.yaml(text)
    with pytest.raises(ConfigError) as refused:
        place.load()
    assert complaint in str(refused.value)
    assert str(refused.value).startswith("manyhands.yaml")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_text_is_refused(place):
    (place.directory / "manyhands.yaml").write_bytes(b"worker: \xff")
    with pytest.raises(ConfigError, match=r"^cannot read manyhands\.yaml: it is not UTF-8$"):
        place.load()


def test_values_of_the_file_have_their_own_types(place):
    place.yaml(
        "worker: {cloudwatch: true, hang_timeout: 7, memory_limit_mb: null}\n"
        "allow: {nets: [10.0.0.0/8, fd00::/8]}\n"
        "sinks: {urls: ['jsonl:pages.ndjson']}\n"
    )
    settings = place.load().settings
    worker = settings.worker
    assert (worker.cloudwatch, worker.hang_timeout, worker.memory_limit_mb) == (True, 7.0, None)
    assert [str(network) for network in settings.allow.nets] == ["10.0.0.0/8", "fd00::/8"]
    assert settings.sinks.urls == ("jsonl:pages.ndjson",)


# .env


def test_dotenv_may_hold_what_is_not_ours(place):
    place.dotenv("FAKTORY_ENV=x\nFAKTORY_SERVER_IP=192.0.2.1\nMETRICS_API_KEY=k\nexport A=1\n")
    assert place.load().origins == {}


def test_dotenv_counts_its_lines_as_an_editor_does(place):
    place.dotenv("\n# a comment\n\n\nWORKER_QUEUES=a   # another\nCRAWL_SHARDS=x\n")
    with pytest.raises(ConfigError, match=r"^\.env line 6: CRAWL_SHARDS: Input should be"):
        place.load()
    place.environment(CRAWL_SHARDS="2")
    assert place.load().origin(("worker", "queues")) == ".env line 5"


def test_dotenv_may_use_other_variables(place):
    place.environment(HOST_OF_FAKTORY="far.example")
    place.dotenv("PW=secret\nFAKTORY_URL=tcp://:${PW}@${HOST_OF_FAKTORY}:${PORT:-7419}\n")
    assert place.load().settings.faktory.url == "tcp://:secret@far.example:7419"


def test_a_line_of_dotenv_that_says_nothing_is_refused(place):
    place.dotenv("A=1\n'B\n")
    with pytest.raises(ConfigError, match=r"^\.env line 2: not NAME=value$"):
        place.load()


def test_a_directory_of_that_name_is_no_settings(place):
    (place.directory / ".env").mkdir()
    assert place.load().origins == {}


def test_what_is_empty_is_not_set(place):
    place.environment(WORKER_QUEUES="", SINKS="", ALLOW_NETS="", MANYHANDS_CONFIG="")
    place.dotenv("WORKER_HANDLERS=\nWORKER_PROCESSES\nWORKER_QUEUES=${NOWHERE}\n")
    place.yaml("worker: {queues: a, handlers: b}")
    loaded = place.load()
    assert (loaded.settings.worker.queues, loaded.settings.worker.handlers) == ("a", "b")
    assert loaded.settings.sinks.urls == ()


def test_an_option_may_be_empty_to_undo_what_is_set_elsewhere(place):
    place.environment(SINKS="jsonl:pages.ndjson", WORKER_QUEUES="a")
    settings = place.load("--sinks", "", "--worker-queues", "").settings
    assert (settings.sinks.urls, settings.worker.queues) == ((), "")


# FAKTORY_PROVIDER


def test_a_provider_names_the_variable_with_the_url(place):
    place.environment(
        FAKTORY_PROVIDER="FAKTORY_OF_MINE",
        FAKTORY_OF_MINE="tcp://elsewhere:7000",
        FAKTORY_URL="tcp://not-this-one",
        FAKTORY_CONNECTIONS="5",
    )
    loaded = place.load()
    assert loaded.settings.faktory.url == "tcp://elsewhere:7000"
    assert loaded.settings.faktory.connections == 5
    assert loaded.origin(("faktory", "url")) == f"FAKTORY_OF_MINE, by environment {PROVIDER}"
    assert place.load("--faktory-url", "tcp://here").settings.faktory.url == "tcp://here"


def test_a_provider_of_dotenv_yields_to_the_environment(place):
    place.dotenv("FAKTORY_PROVIDER=MINE\nMINE=tcp://of-dotenv\n")
    assert place.load().settings.faktory.url == "tcp://of-dotenv"
    place.environment(MINE="tcp://of-environment")
    assert place.load().settings.faktory.url == "tcp://of-environment"
    place.environment(FAKTORY_URL="tcp://this-one")
    assert place.load().settings.faktory.url == "tcp://this-one"


def test_a_provider_that_is_not_needed_need_not_name_anything(place):
    place.dotenv("FAKTORY_PROVIDER=NOWHERE\n")
    place.environment(FAKTORY_URL="tcp://this-one")
    assert place.load().settings.faktory.url == "tcp://this-one"


def test_an_empty_provider_is_none(place):
    place.environment(FAKTORY_PROVIDER="", FAKTORY_URL="tcp://this-one")
    assert place.load().settings.faktory.url == "tcp://this-one"


def test_a_provider_that_is_a_url_is_refused_without_showing_it(place):
    place.environment(FAKTORY_PROVIDER="tcp://:hunter2@host:7419")
    with pytest.raises(ConfigError, match=r"^FAKTORY_PROVIDER: it must be the name") as refused:
        place.load()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("set_to", [{}, {"MY_FAKTORY": ""}])
def test_a_provider_that_names_nothing_is_refused(place, set_to):
    place.environment(FAKTORY_PROVIDER="MY_FAKTORY", **set_to)
    with pytest.raises(ConfigError, match=r"^FAKTORY_PROVIDER: MY_FAKTORY is not set$"):
        place.load()


def test_a_bad_setting_beside_a_provider_is_still_refused(place):
    place.environment(FAKTORY_PROVIDER="MINE", MINE="tcp://h", FAKTORY_CONNECTIONS="x")
    with pytest.raises(ConfigError, match="FAKTORY_CONNECTIONS"):
        place.load()


# Who reads what


def test_a_service_reads_only_the_sections_that_it_uses(place):
    """The password of the broker may be in a file that the user of the API cannot read."""
    place.environment(BROKER_PASSWORD_FILE="/nowhere", BROKER_SYNC="never", CRAWL_SHARDS="5")
    place.yaml("broker: {bind: '0.0.0.0:7419'}")
    settings = place.load(sections=("api", "crawl")).settings
    assert (settings.crawl.shards, settings.broker.bind) == (5, "127.0.0.1:7419")
    with pytest.raises(ConfigError, match=r"BROKER_PASSWORD_FILE.*BROKER_SYNC"):
        place.load(sections=("broker",))


def test_all_that_is_wrong_anywhere_is_said_together(place):
    place.yaml("worker: {queus: a}")
    place.dotenv("CRAWL_SHARDS=x\n")
    place.environment(WORKER_IDLE_FETCHES="y", WORKER_CONCURENCY="5")
    with pytest.raises(ConfigError) as refused:
        place.load("--fetch-timeout-s", "never")
    said = str(refused.value).split("; ")
    assert [problem.split(": ")[0] for problem in said] == [
        "WORKER_CONCURENCY is not a setting (did you mean WORKER_CONCURRENCY?)",
        "manyhands.yaml line 1",
        "WORKER_IDLE_FETCHES",
        "--fetch-timeout-s",
        ".env line 1",
    ]


@pytest.mark.parametrize(
    "text", ["worker: " + "[" * 20_000, "worker: {queues: " + "[" * 5000 + "]" * 5000 + "}"]
)
def test_yaml_that_is_nested_too_deeply_is_told_in_one_line(place: SettingsPlace, text: str):
    place.yaml(text)
    with pytest.raises(ConfigError) as refusal:
        place.load()
    assert str(refusal.value).endswith("nested too deeply")
    assert "\n" not in str(refusal.value)

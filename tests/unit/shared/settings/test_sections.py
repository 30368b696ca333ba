"""The sections: defaults, names, and messages that name the variable."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import (
    DEFAULT_FAKTORY_URL,
    SECTIONS,
    CrawlSettings,
    FaktorySettings,
    PressureSettings,
    Settings,
    StageSettings,
)
from manyhands.shared.settings.names import settings_of


def test_nothing_has_to_be_set(place):
    settings = place.load().settings
    assert settings == Settings()
    assert (settings.faktory.url, settings.faktory.ca_file) == (DEFAULT_FAKTORY_URL, None)
    assert (settings.worker.queues, settings.worker.concurrency) == ("", 500)
    assert (settings.worker.processes, settings.worker.start_method) == (1, "spawn")
    assert settings.pressure == PressureSettings(
        soft_jobs=20_000, hard_jobs=80_000, soft_bytes=2**29, hard_bytes=2**31
    )
    assert settings.fetch.truncate_bytes == 2_000_000
    assert (settings.allow.nets, settings.crawl.shards, settings.sinks.urls) == ((), 64, ())


def test_what_is_set_is_read(place):
    place.environment(
        FAKTORY_URL="tcp+tls://:pw@h:1",
        FAKTORY_CA_FILE="/etc/ca.pem",
        FAKTORY_CONNECTIONS="12",
        WORKER_CONCURRENCY="3000",
        WORKER_PROCESSES="2",
        WORKER_STAGES="fetch:2x500 parse:1x80",
        WORKER_SOURCE="kafka://h?group=g",
        WORKER_TOPICS="t:none",
        WORKER_QUEUES="a:3,b:1",
        WORKER_HANDLERS="x.y",
        WORKER_SHUTDOWN_TIMEOUT="7.5",
        WORKER_IDLE_FETCHES="9",
        WORKER_START_METHOD="forkserver",
        WORKER_HANG_TIMEOUT="30",
        WORKER_MEMORY_LIMIT_MB="512",
        WORKER_HTTP_BIND="[::]:9000",
        WORKER_CLOUDWATCH="true",
        WORKER_CLOUDWATCH_PUT="true",
        WORKER_LOG_LEVEL="DEBUG",
    )
    settings = place.load().settings
    assert settings.faktory == FaktorySettings(
        url="tcp+tls://:pw@h:1", ca_file=Path("/etc/ca.pem"), connections=12
    )
    assert settings.worker.model_dump() == {
        "concurrency": 3000,
        "processes": 2,
        "stages": "fetch:2x500 parse:1x80",
        "source": "kafka://h?group=g",
        "topics": "t:none",
        "queues": "a:3,b:1",
        "handlers": "x.y",
        "shutdown_timeout": 7.5,
        "idle_fetches": 9,
        "start_method": "forkserver",
        "hang_timeout": 30.0,
        "memory_limit_mb": 512,
        "http_bind": "[::]:9000",
        "cloudwatch": True,
        "cloudwatch_put": True,
        "log_level": "DEBUG",
    }


def test_the_settings_of_fetching_are_read(place):
    place.environment(
        FETCH_TIMEOUT_S="7.5",
        FETCH_USER_AGENT="Example/1.0 (+mailto:a@b.example)",
        ALLOW_NETS=" 127.0.0.0/8, ::1/128 ,10.1.2.3",
        CRAWL_SHARDS="8",
        SINKS="jsonl:/data/pages.ndjson,postgres://u:p@h1:1,h2:2/db",
    )
    settings = place.load().settings
    assert settings.fetch.timeout_s == 7.5
    assert settings.fetch.user_agent == "Example/1.0 (+mailto:a@b.example)"
    networks = [str(network) for network in settings.allow.nets]
    assert networks == ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]
    assert settings.crawl.shards == 8
    assert settings.sinks.urls == ("jsonl:/data/pages.ndjson", "postgres://u:p@h1:1,h2:2/db")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FAKTORY_CONNECTIONS", "0"),
        ("FAKTORY_CONNECTIONS", "2"),
        ("FAKTORY_CONNECTIONS", "1801"),
        ("FAKTORY_CONNECTIONS", "x"),
        ("FAKTORY_CONNECTIONS", "2.5"),
        ("WORKER_CONCURRENCY", "many"),
        ("WORKER_CONCURRENCY", "0"),
        ("WORKER_CONCURRENCY", "100001"),
        ("WORKER_PROCESSES", "0"),
        ("WORKER_PROCESSES", "513"),
        ("WORKER_SHUTDOWN_TIMEOUT", "0"),
        ("WORKER_SHUTDOWN_TIMEOUT", "nan"),
        ("WORKER_SHUTDOWN_TIMEOUT", "soon"),
        ("WORKER_IDLE_FETCHES", "0"),
        ("WORKER_START_METHOD", "thread"),
        ("WORKER_HANG_TIMEOUT", "0"),
        ("WORKER_MEMORY_LIMIT_MB", "0"),
        ("WORKER_HTTP_BIND", "7421"),
        ("WORKER_HTTP_BIND", "localhost:70000"),
        ("WORKER_CLOUDWATCH", "perhaps"),
        ("WORKER_LOG_LEVEL", "loud"),
        ("WORKER_LOG_LEVEL", "infos"),
        ("FETCH_TIMEOUT_S", "0"),
        ("FETCH_CONNECT_TIMEOUT_S", "nan"),
        ("FETCH_READ_TIMEOUT_S", "x"),
        ("FETCH_MAX_BYTES", "0"),
        ("FETCH_TRUNCATE_BYTES", "999999999"),
        ("FETCH_MAX_REDIRECTS", "-1"),
        ("FETCH_USER_AGENT", "two\r\nlines"),
        ("ALLOW_NETS", "everything"),
        ("ALLOW_NETS", "127.0.0.1/8"),
        ("CRAWL_SHARDS", "0"),
        ("CRAWL_SHARDS", "1025"),
        ("PRESSURE_SOFT_JOBS", "-1"),
    ],
)
def test_a_bad_setting_names_its_variable(place, name, value):
    place.environment(**{name: value})
    with pytest.raises(ConfigError, match=f"^{name}: ") as refused:
        place.load()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("unit", ["JOBS", "BYTES"])
def test_the_soft_limit_is_below_the_hard_one(place, unit):
    place.environment(**{f"PRESSURE_SOFT_{unit}": "7", f"PRESSURE_HARD_{unit}": "7"})
    with pytest.raises(ConfigError, match=rf"^PRESSURE_SOFT_{unit} must be less than PRESSURE_HAR"):
        place.load()


def test_all_that_is_wrong_is_said_together(place):
    place.environment(WORKER_CONCURRENCY="x", WORKER_IDLE_FETCHES="y")
    with pytest.raises(ConfigError, match=r"WORKER_CONCURRENCY: .*; WORKER_IDLE_FETCHES: "):
        place.load()


def test_settings_cannot_be_changed():
    settings = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.worker.concurrency = 1
    with pytest.raises(ValidationError, match="frozen"):
        settings.crawl = settings.crawl


def test_settings_can_be_given_to_another_process(place):
    place.yaml("stages: {fetch: {weight: 3}}\nallow: {nets: [10.0.0.0/8]}")
    place.environment(BROKER_PASSWORD="secret", SINKS="jsonl:x", FAKTORY_URL="tcp://:pw@h")
    settings = place.load().settings
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert copy.stages["fetch"] == StageSettings(weight=3)
    assert copy.broker.password.get_secret_value() == "secret"


def test_no_secret_is_in_what_a_log_would_show(place):
    place.environment(BROKER_PASSWORD="hunter2", API_KEYS="hunter2", FAKTORY_URL="tcp://:hunter2@h")
    assert "hunter2" not in repr(place.load().settings)


def test_every_setting_says_what_it_is_for():
    settings = [setting for section in SECTIONS for setting in settings_of(section)]
    assert len(settings) > 40
    assert [setting.key for setting in settings if not setting.field.description] == []
    assert all(field.description for field in StageSettings.model_fields.values())


def test_the_state_is_a_directory_or_databases():
    assert CrawlSettings.model_validate({"state": ""}).state == ()
    assert CrawlSettings.model_validate({"state": "a,b/crawls"}).state == ("a,b/crawls",)
    one, two = "postgresql://me:x@a:5432,b:5432/db", "postgres://c/db?schema=other"
    assert CrawlSettings.model_validate({"state": f"{one}, {two}"}).state == (one, two)
    assert CrawlSettings.model_validate({"state": [one, two]}).state == (one, two)
    assert "me:x" not in repr(CrawlSettings.model_validate({"state": one}))


@pytest.mark.parametrize(
    "state", ["mysql://me:secret@a/db", ["one", "two"], ["dir", "postgresql://me:secret@a/db"]]
)
def test_a_state_that_is_neither_is_refused_without_its_password(state):
    with pytest.raises(ValidationError) as refused:
        CrawlSettings.model_validate({"state": state})
    assert "secret" not in str([error["msg"] for error in refused.value.errors()])

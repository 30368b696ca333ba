"""Settings from the environment: defaults, names, and messages that name the variable."""

import os
from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.settings import (
    DEFAULT_FAKTORY_URL,
    AllowSettings,
    CrawlSettings,
    FaktorySettings,
    FetchSettings,
    SinkSettings,
    WorkerSettings,
    load,
    load_faktory,
)

PASSWORD = "hunter2"
OURS = ("FAKTORY_", "WORKER_", "FETCH_", "ALLOW_", "CRAWL_", "SINK_")


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith(OURS):
            monkeypatch.delenv(name)


def test_nothing_has_to_be_set():
    faktory, worker = load_faktory(), load(WorkerSettings)
    assert (faktory.url, faktory.ca_file) == (DEFAULT_FAKTORY_URL, None)
    assert (worker.queues, worker.concurrency) == ("default", 500)


def test_what_is_set_is_read(monkeypatch):
    monkeypatch.setenv("FAKTORY_URL", "tcp+tls://:pw@h:1")
    monkeypatch.setenv("FAKTORY_CA_FILE", "/etc/ca.pem")
    monkeypatch.setenv("FAKTORY_CONNECTIONS", "12")
    monkeypatch.setenv("WORKER_CONCURRENCY", "3000")
    monkeypatch.setenv("WORKER_QUEUES", "a:3,b:1")
    monkeypatch.setenv("WORKER_HANDLERS", "x.y")
    monkeypatch.setenv("WORKER_SHUTDOWN_TIMEOUT", "7.5")
    monkeypatch.setenv("WORKER_IDLE_FETCHES", "9")
    monkeypatch.setenv("WORKER_LOG_LEVEL", "DEBUG")
    faktory, worker = load_faktory(), load(WorkerSettings)
    assert faktory == FaktorySettings(
        url="tcp+tls://:pw@h:1", ca_file=Path("/etc/ca.pem"), connections=12
    )
    assert worker.model_dump() | {} == {
        "concurrency": 3000,
        "queues": "a:3,b:1",
        "handlers": "x.y",
        "shutdown_timeout": 7.5,
        "idle_fetches": 9,
        "log_level": "DEBUG",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKER_CONCURRENCY", "many"),
        ("WORKER_CONCURRENCY", "0"),
        ("WORKER_CONCURRENCY", "100001"),
        ("WORKER_SHUTDOWN_TIMEOUT", "0"),
        ("WORKER_SHUTDOWN_TIMEOUT", "nan"),
        ("WORKER_SHUTDOWN_TIMEOUT", "soon"),
        ("WORKER_IDLE_FETCHES", "0"),
        ("WORKER_LOG_LEVEL", "loud"),
        ("WORKER_LOG_LEVEL", "infos"),
    ],
)
def test_a_bad_worker_setting_names_its_variable(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name}: ") as refused:
        load(WorkerSettings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", ["0", "1", "1801", "x", "2.5", ""])
def test_a_bad_number_of_connections_names_its_variable(monkeypatch, value):
    monkeypatch.setenv("FAKTORY_CONNECTIONS", value)
    with pytest.raises(ConfigError, match=r"^FAKTORY_CONNECTIONS: "):
        load_faktory()


def test_all_that_is_wrong_is_said_together(monkeypatch):
    monkeypatch.setenv("WORKER_CONCURRENCY", "x")
    monkeypatch.setenv("WORKER_IDLE_FETCHES", "y")
    with pytest.raises(ConfigError, match=r"WORKER_CONCURRENCY: .*; WORKER_IDLE_FETCHES: "):
        load(WorkerSettings)


def test_a_provider_names_the_variable_with_the_url(monkeypatch):
    monkeypatch.setenv("FAKTORY_PROVIDER", "MY_FAKTORY")
    monkeypatch.setenv("MY_FAKTORY", "tcp://elsewhere:7000")
    monkeypatch.setenv("FAKTORY_URL", "tcp://not-this-one")
    monkeypatch.setenv("FAKTORY_CONNECTIONS", "5")
    settings = load_faktory()
    assert (settings.url, settings.connections) == ("tcp://elsewhere:7000", 5)


def test_an_empty_provider_is_none(monkeypatch):
    monkeypatch.setenv("FAKTORY_PROVIDER", "")
    monkeypatch.setenv("FAKTORY_URL", "tcp://this-one")
    assert load_faktory().url == "tcp://this-one"


def test_a_provider_that_is_a_url_is_refused_without_showing_it(monkeypatch):
    monkeypatch.setenv("FAKTORY_PROVIDER", f"tcp://:{PASSWORD}@host:7419")
    with pytest.raises(ConfigError, match="FAKTORY_PROVIDER") as refused:
        load_faktory()
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("value", [None, ""])
def test_a_provider_that_names_nothing_is_refused(monkeypatch, value):
    monkeypatch.setenv("FAKTORY_PROVIDER", "MY_FAKTORY")
    if value is None:
        monkeypatch.delenv("MY_FAKTORY", raising=False)
    else:
        monkeypatch.setenv("MY_FAKTORY", value)
    with pytest.raises(ConfigError, match="MY_FAKTORY"):
        load_faktory()


def test_a_bad_setting_beside_a_provider_is_still_refused(monkeypatch):
    monkeypatch.setenv("FAKTORY_PROVIDER", "MY_FAKTORY")
    monkeypatch.setenv("MY_FAKTORY", "tcp://h")
    monkeypatch.setenv("FAKTORY_CONNECTIONS", "x")
    with pytest.raises(ConfigError, match="FAKTORY_CONNECTIONS"):
        load_faktory()


# Fetching


def test_fetching_needs_no_setting():
    assert load(FetchSettings).truncate_bytes == 100_000
    assert load(AllowSettings).nets == ()
    assert load(CrawlSettings).shards == 64
    assert load(SinkSettings).ndjson is None


def test_the_settings_of_fetching_are_read(monkeypatch):
    monkeypatch.setenv("FETCH_TIMEOUT_S", "7.5")
    monkeypatch.setenv("FETCH_USER_AGENT", "Example/1.0 (+mailto:a@b.example)")
    monkeypatch.setenv("ALLOW_NETS", " 127.0.0.0/8, ::1/128 ,10.1.2.3")
    monkeypatch.setenv("CRAWL_SHARDS", "8")
    monkeypatch.setenv("SINK_NDJSON", "/data/pages.ndjson")
    assert load(FetchSettings).timeout_s == 7.5
    assert load(FetchSettings).user_agent == "Example/1.0 (+mailto:a@b.example)"
    networks = [str(network) for network in load(AllowSettings).nets]
    assert networks == ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]
    assert load(CrawlSettings).shards == 8
    assert load(SinkSettings).ndjson == Path("/data/pages.ndjson")


def test_empty_variables_of_compose_files_set_nothing(monkeypatch):
    monkeypatch.setenv("ALLOW_NETS", "")
    monkeypatch.setenv("SINK_NDJSON", "")
    assert load(AllowSettings).nets == ()
    assert load(SinkSettings).ndjson is None


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (FetchSettings, "FETCH_TIMEOUT_S", "0"),
        (FetchSettings, "FETCH_CONNECT_TIMEOUT_S", "nan"),
        (FetchSettings, "FETCH_READ_TIMEOUT_S", "x"),
        (FetchSettings, "FETCH_MAX_BYTES", "0"),
        (FetchSettings, "FETCH_TRUNCATE_BYTES", "999999999"),
        (FetchSettings, "FETCH_MAX_REDIRECTS", "-1"),
        (FetchSettings, "FETCH_USER_AGENT", ""),
        (FetchSettings, "FETCH_USER_AGENT", "two\r\nlines"),
        (AllowSettings, "ALLOW_NETS", "everything"),
        (AllowSettings, "ALLOW_NETS", "127.0.0.1/8"),
        (CrawlSettings, "CRAWL_SHARDS", "0"),
        (CrawlSettings, "CRAWL_SHARDS", "1025"),
    ],
)
def test_a_bad_setting_of_fetching_names_its_variable(monkeypatch, model, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name}: ") as refused:
        load(model)
    assert "\n" not in str(refused.value)

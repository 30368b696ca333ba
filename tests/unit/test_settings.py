"""Settings from the environment: defaults, names, and messages that name the variable."""

import os
from pathlib import Path

import pytest

from shared.errors import ConfigError
from shared.settings import (
    DEFAULT_FAKTORY_URL,
    FaktorySettings,
    WorkerSettings,
    load,
    load_faktory,
)

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith(("FAKTORY_", "WORKER_")):
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

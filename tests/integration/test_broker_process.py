"""`manyhands broker` as a process: starts that must fail, stops under load, backup and restore."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devservers import BrokerServer
from manyhands.broker.directory import DATABASE
from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job, new_jid
from tests.support.broker_command import refusal, run_broker
from tests.support.broker_state import BrokerState
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

PAGE = 8192


def push_lines(queue: str, count: int, size: int = 0) -> list[str]:
    """PUSH lines with jobs whose argument has so many characters."""
    return [
        "PUSH "
        + json.dumps({"jid": new_jid(), "jobtype": "any", "args": ["x" * size], "queue": queue})
        for _ in range(count)
    ]


def fill(server: BrokerServer, queue: str, count: int, size: int = 0) -> None:
    with RawClient(server.url) as raw:
        raw.send(*push_lines(queue, count, size))
        assert [raw.answer() for _ in range(count)] == ["OK"] * count


# Starts that must fail


def test_a_second_broker_on_one_directory_is_refused(tmp_path: Path) -> None:
    with BrokerServer(data_dir=tmp_path) as server:
        directory = tmp_path / "db"
        assert refusal(directory) == f"{directory} is in use by another broker"
        fill(server, "still-well", 1)


@pytest.mark.parametrize("name", ["BROKER_BIND", "BROKER_HTTP_BIND"])
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "some-host"])
def test_without_a_password_it_listens_on_loopback_only(
    tmp_path: Path, name: str, host: str
) -> None:
    line = refusal(tmp_path, **{name: f"{host}:0"})
    assert "BROKER_PASSWORD" in line
    assert name in line


@pytest.mark.parametrize("name", ["BROKER_BIND", "BROKER_HTTP_BIND"])
@pytest.mark.parametrize(
    "value", ["nonsense", "127.0.0.1", "127.0.0.1:", ":7419", "127.0.0.1:99999", "127.0.0.1:x"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, name: str, value: str) -> None:
    line = refusal(tmp_path, BROKER_PASSWORD="secret-word", **{name: value})
    assert "is not host:port" in line
    assert name in line
    assert "secret-word" not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BROKER_SYNC", "never"),
        ("BROKER_MAX_LINE_BYTES", "1"),
        ("BROKER_LOG_LEVEL", "loud"),
        ("BROKER_TLS_CERT", "/no/such/file"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, name: str, value: str) -> None:
    assert name in refusal(tmp_path, **{name: value})


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    files = {"BROKER_TLS_CERT": "/no/such/cert", "BROKER_TLS_KEY": "/no/such/key"}
    assert "BROKER_TLS_CERT and BROKER_TLS_KEY" in refusal(tmp_path, **files)


@pytest.mark.parametrize("name", ["BROKER_BIND", "BROKER_HTTP_BIND"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        line = refusal(tmp_path, **{name: f"127.0.0.1:{port}"})
    assert "cannot listen" in line
    assert str(port) in line


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    line = refusal(tmp_path / "file" / "db")
    assert "BROKER_DATA" in line


# Databases that cannot be used


def assert_refused_untouched(directory: Path, *parts: str) -> None:
    before = (directory / DATABASE).read_bytes()
    line = refusal(directory)
    for part in (str(directory / DATABASE), *parts):
        assert part in line
    assert (directory / DATABASE).read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"something else entirely\n" * 1000)
    assert_refused_untouched(tmp_path, "damaged")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute("CREATE TABLE jobs (theirs)")
        other.commit()
    assert_refused_untouched(tmp_path, "other program")


def test_a_database_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    with BrokerServer(data_dir=tmp_path):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "db" / DATABASE)) as later:
        later.execute("PRAGMA user_version = 99")
    assert_refused_untouched(tmp_path / "db", "later release", "99")


@pytest.mark.parametrize("first_page", [1, 2, 4])
def test_a_database_that_was_damaged_in_a_crash_is_said_so_and_left_alone(
    tmp_path: Path, queue: str, first_page: int
) -> None:
    """The pages at the front are the roots of tables, without which nothing is found."""
    with BrokerServer(data_dir=tmp_path) as server:
        fill(server, queue, 2000, 200)
        server.restart()
        server.kill()
        path = tmp_path / "db" / DATABASE
        with path.open("r+b") as file:
            for page in range(first_page, first_page + 5):
                file.seek(page * PAGE)
                file.write(os.urandom(PAGE))
        assert_refused_untouched(tmp_path / "db", "damaged")


# Stopping


async def keep_pushing(url: str, queue: str, answered: set[str]) -> None:
    """Push until the server is gone."""
    async with Client(parse_url(url)) as client:
        while True:
            jobs = [Job(jobtype="any", args=[], queue=queue) for _ in range(20)]
            try:
                assert await client.push_bulk(jobs, timeout_s=5) == {}
            except FaktoryError:
                return
            answered |= {job.jid for job in jobs}


async def test_a_stop_under_load_keeps_all_that_was_answered(queue: str) -> None:
    answered: set[str] = set()
    with BrokerServer() as server:
        pushing = [asyncio.create_task(keep_pushing(server.url, queue, answered)) for _ in range(3)]
        await eventually(lambda: len(answered) > 1000)
        server.signal(signal.SIGTERM)
        await asyncio.gather(*pushing)
        assert server.wait_ended() == 0
        server.start()
        state = BrokerState(server)
        stored = {job["jid"] for job in state.queue(queue)}
        assert answered <= stored
        assert state.info()["queues"][queue] == len(stored)
        log = (server.data_dir / "broker.log").read_text()
        assert "Traceback" not in log


async def test_a_stop_answers_what_it_has_read_and_takes_no_more(queue: str) -> None:
    with BrokerServer() as server, RawClient(server.url) as raw:
        raw.send(*push_lines(queue, 3000))
        server.signal(signal.SIGTERM)
        answers = 0
        with contextlib.suppress(ConnectionError):
            while raw.answer() == "OK":
                answers += 1
        assert server.wait_ended() == 0
        server.start()
        assert BrokerState(server).info()["queues"].get(queue, 0) == answers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_end_it_in_an_orderly_way(
    tmp_path: Path, queue: str, number: signal.Signals
) -> None:
    with BrokerServer(data_dir=tmp_path) as server:
        fill(server, queue, 10)
        with RawClient(server.url, wid="worker-of-this-test") as worker:
            assert worker.call(f"FETCH {queue}")
            server.signal(number)
            assert worker.is_closed_by_server()
        assert server.wait_ended() == 0
        server.start()
        # In whose hands it is has been written down: nobody has to wait or runs it twice.
        info = BrokerState(server).info()
        assert info["sets"]["working"] == 1
        assert info["queues"][queue] == 9
        with RawClient(server.url) as other:
            assert other.call(f"FETCH {queue}")


# Backup and restore


@pytest.fixture
async def busy_broker(tmp_path: Path, queue: str) -> AsyncIterator[BrokerServer]:
    """One with jobs in a queue, in a set and in hand, and more being pushed elsewhere."""
    with BrokerServer(data_dir=tmp_path / "first") as server:
        fill(server, queue, 500, 100)
        with RawClient(server.url) as raw:
            later = {"jid": new_jid(), "jobtype": "later", "args": [], "at": "2099-01-01T00:00:00Z"}
            assert raw.call("PUSH " + json.dumps(later)) == "OK"
            assert raw.call(f"FETCH {queue}")
        pushing = asyncio.create_task(keep_pushing(server.url, f"{queue}-more", set()))
        yield server
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)


async def test_a_backup_of_a_running_broker_starts_elsewhere(
    busy_broker: BrokerServer, tmp_path: Path, queue: str
) -> None:
    copy, elsewhere = tmp_path / "backup.db", tmp_path / "second"
    done = await asyncio.to_thread(run_broker, tmp_path / "first" / "db", "backup", copy)
    assert done.returncode == 0, done
    before = copy.read_bytes()
    fill(busy_broker, queue, 1)
    done = await asyncio.to_thread(run_broker, elsewhere / "db", "restore", copy)
    assert done.returncode == 0, done
    assert copy.read_bytes() == before
    with BrokerServer(data_dir=elsewhere) as restored:
        state = BrokerState(restored)
        # The one in hand is a reservation in the copy only if it was more than a second old.
        assert len(state.queue(queue)) + state.in_hand == 500
        assert [job["jobtype"] for job in state.scheduled] == ["later"]
        with RawClient(restored.url) as raw:
            await eventually(lambda: raw.call(f"FETCH {queue}"))
            raw.send(*push_lines(queue, 1))
            assert raw.answer() == "OK"
    assert BrokerState(busy_broker).info()["queues"][queue] == 500


async def test_a_backup_never_overwrites(busy_broker: BrokerServer, tmp_path: Path) -> None:
    data = tmp_path / "first" / "db"
    (tmp_path / "taken").write_text("mine")
    line = await asyncio.to_thread(refusal, data, "backup", tmp_path / "taken")
    assert "exists already" in line
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_backup_of_nothing_and_a_restore_of_nothing_are_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none", "backup", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert "does not exist" in refusal(tmp_path / "new", "restore", tmp_path / "copy")


async def test_a_restore_never_overwrites_and_leaves_a_running_broker_alone(
    busy_broker: BrokerServer, tmp_path: Path, queue: str
) -> None:
    copy, data = tmp_path / "backup.db", tmp_path / "first" / "db"
    await asyncio.to_thread(run_broker, data, "backup", copy)
    assert "in use by another broker" in await asyncio.to_thread(refusal, data, "restore", copy)
    busy_broker.stop()
    assert "exists already" in await asyncio.to_thread(refusal, data, "restore", copy)


def test_what_is_no_backup_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear reader,\n" * 1000)
    line = refusal(tmp_path / "new", "restore", tmp_path / "letter")
    assert "cannot be used" in line
    assert not (tmp_path / "new" / DATABASE).exists()

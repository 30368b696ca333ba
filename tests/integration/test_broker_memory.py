"""What clients can make the broker hold: each attack on a process of its own, its memory measured,
while somebody else is served. `make prove` has the sizes of the default settings."""

import contextlib
import itertools
import json
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devservers import BrokerServer
from manyhands.broker.directory import DATABASE
from manyhands.shared.jobs import new_jid, rfc3339
from tests.acceptance.scale import IS_PROOF
from tests.support.raw_client import RawClient
from tests.support.strain import MIB, bystander, peak_bytes

LINE_BYTES = 64 * MIB if IS_PROOF else 4 * MIB
MEMORY_MB = 512 if IS_PROOF else 144
# Jobs of a mebibyte: more than may be held.
LARGE_JOBS = 1000 if IS_PROOF else 96
MANY_QUEUES = 300_000 if IS_PROOF else 20_000
MANY_CONNECTIONS = 16_000 if IS_PROOF else 800
CHUNK = b"x" * MIB
LATER = "2100-01-01T00:00:00Z"

pytestmark = [pytest.mark.timeout(600 if IS_PROOF else 120), pytest.mark.alone]


@pytest.fixture
def server() -> Iterator[BrokerServer]:
    settings = {"BROKER_MAX_LINE_BYTES": str(LINE_BYTES), "BROKER_MEMORY_MB": str(MEMORY_MB)}
    # In memory: it is not the disk that is measured.
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as directory,
        BrokerServer(data_dir=Path(directory), settings=settings) as server,
    ):
        yield server


@pytest.fixture
def others(server: BrokerServer, record_property) -> Iterator[None]:
    """Somebody else, who is served all the while; and what the process took at most."""
    yield from served_meanwhile(server, record_property, jobs_may_go=False)


@pytest.fixture
def others_whose_jobs_may_go(server: BrokerServer, record_property) -> Iterator[None]:
    """As above, while all queues are removed."""
    yield from served_meanwhile(server, record_property, jobs_may_go=True)


def served_meanwhile(
    server: BrokerServer, record_property: Callable[[str, object], None], *, jobs_may_go: bool
) -> Iterator[None]:
    with bystander(server.url, jobs_may_go=jobs_may_go) as trips:
        yield
        peak = assert_within_memory(server)
    figures = f"peak {peak} MiB of {MEMORY_MB}, {trips}"
    record_property("figures", figures)
    sys.stderr.write(figures + "\n")


def assert_within_memory(server: BrokerServer) -> int:
    """Returns the peak, in MiB."""
    peak = peak_bytes(server.pid) // MIB
    assert peak < MEMORY_MB, f"{peak} MiB"
    assert "Traceback" not in server.log_text
    return peak


class Sender(RawClient):
    """One who sends without a look at what is answered."""

    def send_bytes(self, data: bytes) -> bool:
        """False when the server has closed."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def rest(self) -> str:
        """What was answered before the server closed; nothing when it does not close."""
        said = b""
        self.set_timeout(1.0)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            while data := self._input.read1(65536):
                said += data
        return said.decode()


def job(size: int, queue: str, **fields: object) -> str:
    whole = {"jid": new_jid(), "jobtype": "any", "args": ["x" * size], "queue": queue} | fields
    return json.dumps(whole)


def fill(server: BrokerServer, count: int, **fields: object) -> None:
    """Jobs of a mebibyte, a few on their way at a time."""
    with RawClient(server.url) as raw:
        for _ in range(count // 4):
            raw.send(*("PUSH " + job(MIB, "large", **fields) for _ in range(4)))
            assert [raw.answer() for _ in range(4)] == ["OK"] * 4


def push_to_queues(server: BrokerServer, count: int) -> None:
    """One small job each."""
    with RawClient(server.url) as raw:
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            jobs = ",".join(job(1, f"queue-{number}") for number in numbers)
            assert raw.call(f"PUSHB [{jobs}]") == "{}"


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def queues_of(raw: RawClient) -> dict[str, int]:
    queues: dict[str, int] = raw.info()["faktory"]["queues"]
    return queues


def in_parallel(action: Callable[[Sender], None], senders: list[Sender]) -> None:
    threads = [threading.Thread(target=action, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def many(server: BrokerServer, count: int) -> Iterator[list[Sender]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Sender(server.url)) for _ in range(count)]


# Lines


@pytest.mark.usefixtures("others")
def test_unfinished_lines_of_many_connections_are_refused_when_they_are_too_much(server) -> None:
    answers: list[str] = []

    def send(sender: Sender) -> None:
        for _ in range(LINE_BYTES // MIB - 1):
            if not sender.send_bytes(CHUNK):
                break
        answers.append(sender.rest())

    with many(server, 60) as senders:
        in_parallel(send, senders)
    refused = [said for said in answers if said]
    assert refused
    assert all(said.startswith("-ERR") and "BROKER_MEMORY_MB" in said for said in refused)


def test_a_line_of_the_full_length_goes_through(server) -> None:
    with RawClient(server.url) as raw:
        raw.set_timeout(60)
        for _ in range(3):
            assert raw.call("PUSH " + job(LINE_BYTES - 200, "large")) == "OK"
            fetched = raw.call("FETCH large")
            assert fetched is not None and len(fetched) > LINE_BYTES - 200
            assert raw.call(f'FAIL {{"jid":"{json.loads(fetched)["jid"]}"}}') == "OK"
    assert_within_memory(server)


@pytest.mark.usefixtures("others")
def test_long_fetch_lines_are_refused_and_not_kept(server) -> None:
    with RawClient(server.url) as raw:
        for _ in range(40):
            line = "FETCH " + f"{new_jid()} " * (LINE_BYTES // 2 // 32)
            answer = raw.call(line)
            assert answer is not None and answer.startswith("-ERR a FETCH of more than")


@pytest.mark.usefixtures("others")
def test_many_small_jobs_in_one_push_are_refused_when_they_are_too_many(server) -> None:
    with RawClient(server.url) as raw:
        answer = raw.call("PUSHB [" + ",".join(["{}"] * (LINE_BYTES // 4)) + "]")
        assert answer is not None and answer.startswith("-ERR more than")


@pytest.mark.usefixtures("others")
def test_many_connections_that_hold_a_little_each_are_within_the_budget(server) -> None:
    with many(server, MANY_CONNECTIONS) as senders:
        for sender in senders:
            sender.send_bytes(b"x" * 200_000)
        time.sleep(1)


# Jobs


@pytest.mark.usefixtures("others")
def test_jobs_for_clients_that_never_read_are_within_the_budget(server) -> None:
    # More than all of them can get: the system's buffers take some five for each connection.
    fill(server, 2 * LARGE_JOBS)
    with many(server, 20) as senders:
        for sender in senders:
            # Its answers wait for a commit, then for each other, then for the client.
            sender.send("PUSH " + job(10, "other"), *["FETCH large"] * 50)
        with RawClient(server.url) as raw:
            # One who reads gets one too, when those who do not have been closed.
            wait_until(lambda: raw.call("FETCH large") is not None)


def test_jobs_in_hand_take_no_memory_of_their_size_nor_after_a_restart(server) -> None:
    fill(server, LARGE_JOBS)
    with RawClient(server.url, wid="holder") as raw:
        jids = [json.loads(raw.call("FETCH large") or "")["jid"] for _ in range(LARGE_JOBS)]
        assert_within_memory(server)
        server.restart()
    with RawClient(server.url) as raw:
        assert raw.info()["faktory"]["tasks"]["Busy"]["size"] == LARGE_JOBS
        assert raw.call(f'FAIL {{"jid":"{jids[0]}"}}') == "OK"
        assert raw.info()["faktory"]["tasks"]["Retries"]["size"] == 1
    assert_within_memory(server)


@pytest.mark.usefixtures("others")
def test_pushes_that_are_not_stored_yet_are_within_the_budget(server) -> None:
    rest = job(3 * MIB, "large").partition('"jobtype"')[2]

    def push(sender: Sender) -> None:
        lines = [f'PUSH {{"jid":"{new_jid()}","jobtype"{rest}\r\n'.encode() for _ in range(2)]
        if all(sender.send_bytes(line) for line in lines):
            with contextlib.suppress(ConnectionError):
                sender.answer()

    with many(server, 40) as senders:
        in_parallel(push, senders)


@pytest.mark.usefixtures("others")
def test_heads_of_many_queues_are_within_the_budget(server) -> None:
    names = [f"queue-{number}" for number in range(LARGE_JOBS // 3)]
    with RawClient(server.url) as raw:
        for name in names:
            assert raw.call("PUSHB [" + ",".join(job(MIB, name) for _ in range(3)) + "]") == "{}"
        for name in itertools.chain(names, names, names):
            assert raw.call(f"FETCH {name}") is not None


# Sets


@pytest.mark.usefixtures("others")
def test_scheduled_jobs_that_become_due_hold_up_nobody(server) -> None:
    fill(server, LARGE_JOBS, at=rfc3339(datetime.now(UTC) + timedelta(seconds=5)))
    with RawClient(server.url) as raw:
        wait_until(lambda: queues_of(raw).get("large") == LARGE_JOBS)


@pytest.mark.usefixtures("others")
def test_a_set_of_large_jobs_is_changed_page_by_page(server) -> None:
    fill(server, LARGE_JOBS, at=LATER)
    with RawClient(server.url) as raw:
        raw.set_timeout(100)
        assert raw.call('MUTATE {"cmd":"kill","target":"scheduled"}') == "OK"
        assert raw.info()["faktory"]["tasks"]["Dead"]["size"] == LARGE_JOBS
        assert raw.call('MUTATE {"cmd":"requeue","target":"dead"}') == "OK"
        assert queues_of(raw)["large"] == LARGE_JOBS


# Queues


@pytest.mark.usefixtures("others")
def test_a_client_that_fetches_from_ever_new_queues_does_not_make_it_grow(server) -> None:
    """Each name is awaited for two seconds, then nobody uses it any more."""
    with many(server, 10) as senders:
        for sender in senders:
            names = (" ".join(new_jid() for _ in range(100)) for _ in range(MANY_QUEUES // 1000))
            sender.send(*(f"FETCH {line}" for line in names))
        time.sleep(2)
    with RawClient(server.url) as raw:
        wait_until(lambda: raw.call("FETCH another") is None)


@pytest.mark.usefixtures("others")
def test_queues_that_are_empty_are_forgotten_but_some(server) -> None:
    push_to_queues(server, MANY_QUEUES)
    with RawClient(server.url) as raw:
        assert len(queues_of(raw)) >= MANY_QUEUES
        for first in range(0, MANY_QUEUES, 500):
            raw.send(*(f"FETCH queue-{number}" for number in range(first, first + 500)))
            jobs = [json.loads(raw.answer() or "") for _ in range(500)]
            raw.send(*(f'ACK {{"jid":"{one["jid"]}"}}' for one in jobs))
            assert [raw.answer() for _ in range(500)] == ["OK"] * 500
        wait_until(lambda: len(queues_of(raw)) <= 1000)
        assert raw.call("PUSH " + job(1, "queue-0")) == "OK"
        assert queues_of(raw)["queue-0"] == 1
        database = server.data_dir / "db" / DATABASE
        with contextlib.closing(sqlite3.connect(database)) as stored:
            wait_until(lambda: stored.execute("SELECT count(*) FROM queues").fetchone()[0] <= 1001)


@pytest.mark.usefixtures("others_whose_jobs_may_go")
def test_all_of_very_many_queues_are_removed_at_once(server) -> None:
    push_to_queues(server, MANY_QUEUES)
    with RawClient(server.url) as raw:
        in_hand = raw.call("FETCH queue-7")
        started = time.monotonic()
        assert raw.call("QUEUE REMOVE *") == "OK"
        assert time.monotonic() - started < 10
        assert in_hand is not None
        assert raw.call(f'FAIL {{"jid":"{json.loads(in_hand)["jid"]}"}}') == "OK"
        assert sum(queues_of(raw).values()) < 10
        assert raw.call("FETCH queue-5") is None
        assert raw.info()["faktory"]["tasks"]["Retries"]["size"] == 1

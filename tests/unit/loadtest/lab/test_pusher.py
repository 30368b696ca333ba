"""The pusher, against a server in a thread that answers PUSHB as told."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from loadtest.lab.pusher import Order, Pushed, Pusher


class Answering:
    """Takes PUSHBs on any number of connections; INFO says that `lag` jobs are not processed."""

    def __init__(self, refuse_after: int | None = None, lag: int = 0) -> None:
        self.jids: list[str] = []
        # What comes after the number of each job.
        self.args: list[int] = []
        self.most_waiting = 0
        self._processed = 0
        self._lag = lag
        self._refuse_after = refuse_after
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @contextmanager
    def serving(self) -> Iterator[None]:
        threading.Thread(target=self._accept, daemon=True).start()
        with self._listener:
            yield

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The pusher may be gone with an answer still on its way.
        with suppress(OSError), connection, connection.makefile("rwb") as stream:
            stream.write(b'+HI {"v":2}\r\n')
            stream.flush()
            for line in stream:
                with self._lock:
                    stream.write(self._answer(line.rstrip()))
                stream.flush()

    def _answer(self, line: bytes) -> bytes:
        verb, _, rest = line.partition(b" ")
        if verb == b"HELLO":
            return b"+OK\r\n"
        if verb == b"INFO":
            self._processed = max(self._processed, len(self.jids) - self._lag)
            text = json.dumps(_info(self._processed)).encode()
            return b"$%d\r\n%b\r\n" % (len(text), text)
        jobs = json.loads(rest)
        self.jids += [job["jid"] for job in jobs]
        self.args += [arg for job in jobs for arg in job["args"][1:]]
        self.most_waiting = max(self.most_waiting, len(self.jids) - self._processed)
        if self._refuse_after is not None and len(self.jids) > self._refuse_after:
            return b'$13\r\n{"abc":"why"}\r\n'
        return b"$2\r\n{}\r\n"


def _info(processed: int) -> dict[str, object]:
    return {
        "faktory": {
            "total_processed": processed,
            "total_failures": 0,
            "total_enqueued": 0,
            "sets": {"working": 0, "retries": 0, "dead": 0},
        },
        "server": {"connections": 1, "faktory_version": "1.10.0"},
    }


def push(order: Order) -> Pushed:
    with closing(Pusher(order)) as pusher:
        return pusher.run()


@pytest.mark.parametrize(
    ("batch", "clients", "is_lazy"), [(1, 1, False), (100, 4, True), (1000, 16, False)]
)
def test_every_job_is_pushed_once_and_counted_when_answered(batch, clients, is_lazy):
    server = Answering()
    with server.serving():
        order = Order(server.port, "bench", 2500, batch, clients, is_lazy=is_lazy)
        pushed = push(order)
    assert pushed.jobs == len(server.jids) == len(set(server.jids)) == 2500
    assert 0 < pushed.answer_p50_ms <= pushed.answer_p99_ms <= pushed.seconds * 1000


def test_it_ends_when_its_time_is_over_and_counts_what_was_answered():
    server = Answering()
    with server.serving():
        pushed = push(Order(server.port, "bench", 1_000_000, 10, 2, 0.2, is_lazy=True))
    assert pushed.jobs == len(server.jids) < 1_000_000
    assert pushed.seconds < 10


def test_it_runs_no_further_ahead_than_allowed():
    server = Answering(lag=30)
    with server.serving():
        pushed = push(Order(server.port, "bench", 500, 10, 4, ahead=100))
    assert pushed.jobs == 500
    assert 30 <= server.most_waiting <= 100


def test_it_keeps_a_pace_and_its_jobs_sleep_as_long_as_told():
    server = Answering()
    with server.serving():
        order = Order(server.port, "bench", 60, 10, 2, per_s=200, sleep_ms=25)
        pushed = push(order)
    assert pushed.jobs == len(set(server.jids)) == 60
    # The last ten are due when 60 are: after 0.3 s.
    assert pushed.seconds >= 0.3
    assert set(server.args) == {25}


def test_a_refused_job_ends_it():
    server = Answering(refuse_after=50)
    with server.serving(), pytest.raises(ConnectionError, match="PUSHB was answered"):
        push(Order(server.port, "bench", 500, 10, 4))

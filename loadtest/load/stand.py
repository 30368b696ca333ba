"""Everything that a load test needs, as processes of this machine: a server, the API, a worker, and
Locust. What they write down is in one directory."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devservers import ApiServer
from devservers.checkout import PRODUCT_PATH, ROOT
from devservers.processes import Child, Started, wait_until
from devservers.protocol_server import ProtocolServer
from loadtest.lab.faktory_wire import FaktoryWire
from loadtest.lib.errors import RunError
from loadtest.lib.worker_service import start_worker
from loadtest.load.ledger import DIRECTORY_VARIABLE, Books, DoneTail, clear, read_answers
from loadtest.load.verdict import unfinished

LOCUSTFILES = ROOT / "loadtest" / "locustfiles"
# The classes of locustfiles/jobs.py, by a word for each.
USERS = {"single": "SingleUser", "list": "ListUser", "stream": "StreamUser"}
WORKER_SLOTS = 500
# After the run, users have so long to finish the request that they are at; seconds.
STOP_TIMEOUT_S = 60
# Longer than Locust can need for its start, its last requests and its report; seconds.
LOCUST_EXTRA_S = 120.0


@dataclass(frozen=True, slots=True)
class Load:
    """What Locust is to do."""

    users: int
    seconds: int
    kinds: Sequence[str] = tuple(USERS)
    is_burst: bool = False


class Worker(Started):
    """`manyhands worker` that writes down every job it has done."""

    def __init__(self, server: ProtocolServer, ledger: Path) -> None:
        self._server = server
        self._ledger = ledger
        self._child: Child | None = None

    def start(self) -> None:
        settings = {
            "WORKER_CONCURRENCY": str(WORKER_SLOTS),
            "WORKER_HANDLERS": "loadtest.load.handlers",
            DIRECTORY_VARIABLE: str(self._ledger),
        }
        child = start_worker(self._server.url, settings, self._ledger / "worker.log")
        child.wait_ready("worker", lambda: "Concurrency:" in child.log_text())
        self._child = child

    def stop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class Locust(Started):
    """A headless Locust, as a process: it changes Python's own modules, so it is imported nowhere
    else. Its tables and its page are in a directory."""

    def __init__(
        self, command: Sequence[str], seconds: int, ledger: Path, settings: Mapping[str, str]
    ) -> None:
        """`settings` are what its users read from the environment."""
        self._command = command
        self._seconds = seconds
        self._ledger = ledger
        self._settings = settings
        self._child: Child | None = None

    def start(self) -> None:
        env = os.environ | {"PYTHONPATH": PRODUCT_PATH, **self._settings}
        self._child = Child(self._command, log=self._ledger / "locust.log", env=env)

    def stop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.running()

    def log_text(self) -> str:
        return self._child.log_text() if self._child else ""

    def wait(self) -> int:
        """Until it has ended by itself; its exit code."""
        assert self._child is not None
        if not wait_until(lambda: not self.is_running, self._seconds + LOCUST_EXTRA_S):
            raise RunError(f"Locust did not end; its log ends:\n{self.log_text()[-2000:]}")
        return self._child.wait_ended()


def locust_command(url: str, load: Load, results: Path) -> list[str]:
    files = ["jobs.py", *(["burst.py"] if load.is_burst else [])]
    command = headless(files, url, load.users, load.seconds, results)
    return [*command, *(USERS[kind] for kind in load.kinds)]


def headless(files: Sequence[str], url: str, users: int, seconds: int, results: Path) -> list[str]:
    """Locust with these of its files and all users in them."""
    return [
        *(sys.executable, "-m", "locust"),
        *("-f", ",".join(str(LOCUSTFILES / name) for name in files), "--host", url),
        *("--headless", "--only-summary"),
        *("--users", str(users), "--spawn-rate", str(users)),
        *("--run-time", f"{seconds}s", "--stop-timeout", str(STOP_TIMEOUT_S)),
        *("--csv", str(results / "locust"), "--csv-full-history"),
        *("--html", str(results / "locust.html")),
        # What an answer means is for the ledger to say.
        *("--exit-code-on-error", "0"),
    ]


class Stand(Started):
    """A server with the API in front and a worker behind; `results` is where Locust's files go,
    and in it the ledger. State: how many jobs are done."""

    def __init__(self, server: ProtocolServer, results: Path) -> None:
        self.server = server
        self.api = ApiServer(server)
        self._results = results.absolute()
        self._ledger = self._results / "ledger"
        self._worker = Worker(server, self._ledger)
        self._stack = ExitStack()
        self._done = DoneTail(self._ledger)
        self._books = Books([], [])

    def start(self) -> None:
        clear(self._ledger)
        with self._stack:
            self._stack.enter_context(self.server)
            self._stack.enter_context(self.api)
            self._stack.enter_context(self._worker)
            self._stack = self._stack.pop_all()

    def stop(self) -> None:
        self._stack.close()

    def locust(self, load: Load) -> Locust:
        command = locust_command(self.api.url, load, self._results)
        settings = {DIRECTORY_VARIABLE: str(self._ledger)}
        return Locust(command, load.seconds, self._ledger, settings)

    def done(self) -> int:
        """How many jobs were done so far, repetitions included."""
        self._books.done.extend(self._done.read())
        return len(self._books.done)

    def has_done(self, jobs: int) -> bool:
        return self.done() >= jobs

    def settled(self, standstill_s: float) -> Books:
        """Once Locust has ended: wait until every accepted job is done, or nothing has moved for so
        long; and until the queue is empty, because no job that was refused may be in it. Ends the
        worker. All that was written down."""
        books = Books(read_answers(self._ledger), self._books.done)
        seen = self.done()
        while unfinished(books) and wait_until(partial(self.has_done, seen + 1), standstill_s):
            seen = self.done()
        wait_until(self._is_queue_empty, standstill_s)
        self._worker.stop()
        self.done()
        return books

    def _is_queue_empty(self) -> bool:
        with closing(FaktoryWire(self.server.port)) as wire:
            return wire.info().queued == 0

"""`manyhands worker` as a process of its own, started and watched by a test."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from manyhands.shared.settings import DEFAULT_CONNECTIONS
from manyhands.shared.settings.names import VARIABLE_PREFIXES
from manyhands.worker.supervision.plan import connections_of_child
from tests.support.broker_state import BrokerState
from tests.support.ledger import LEDGER_VARIABLE, Ledger
from tests.support.server_state import RegisteredWorker, ServerState
from tests.support.waiting import WITHIN_S, eventually

AnyState = ServerState | BrokerState

ROOT = Path(__file__).resolve().parent.parent.parent
# What a worker takes from the environment; a test's own must not leak in.
SETTINGS = (*VARIABLE_PREFIXES, "TEST_")
# To these nobody can react: they mean the whole service, supervisor and children.
MEANT_FOR_ALL = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)
DEFAULT_SLOTS = 4


class WorkerUnderTest:
    """Started at once. Its stderr goes to a file, so it can never block on a full pipe."""

    def __init__(self, directory: Path, number: int, url: str, ledger: Ledger, **env: str) -> None:
        self._stderr = directory / f"worker-{number}.log"
        self._pid: int | None = None
        self.env = {
            "FAKTORY_URL": url,
            "WORKER_CONCURRENCY": str(DEFAULT_SLOTS),
            "WORKER_HANDLERS": "tests.support.handlers",
            # Many run side by side.
            "WORKER_HTTP_BIND": "127.0.0.1:0",
            LEDGER_VARIABLE: str(ledger.path),
        } | env
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)
        }
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "manyhands.worker"],
                # Where no .env and no YAML file of a developer's is.
                cwd=directory,
                env=inherited | {"PYTHONPATH": str(ROOT)} | self.env,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def supervisor_pid(self) -> int:
        return self._process.pid

    @property
    def pid(self) -> int:
        """Of the first child of a service that has one; remembered from the first look on."""
        if self._pid is None:
            (self._pid,) = self.children
        return self._pid

    @property
    def children(self) -> list[int]:
        """The processes that work, without Python's own helper of multiprocessing."""
        if self.exit_code is not None:
            return []
        found = psutil.Process(self.supervisor_pid).children(recursive=True)
        return [child.pid for child in found if _is_worker(child)]

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def logged(self) -> list[dict[str, Any]]:
        """The log lines, which are JSON where stderr is no terminal."""
        return [json.loads(line) for line in self._whole_lines() if line.startswith("{")]

    @property
    def said(self) -> list[str]:
        """What it says when it gives up, and lines that are no log lines, which should not be."""
        found = []
        for line in self._whole_lines():
            if not line.startswith("{"):
                found.append(line)
            elif (told := json.loads(line)).get("level") == "critical":
                found.append(f"worker: {told['event']}")
        return found

    def events(self) -> list[str]:
        return [str(line["event"]) for line in self.logged]

    def line(self, event: str) -> dict[str, Any]:
        """The one log line of this event."""
        (found,) = (line for line in self.logged if line["event"] == event)
        return found

    def has_logged(self, text: str) -> bool:
        return any(text in event for event in self.events())

    async def ready(self, state: AnyState, lanes: int | None = None) -> list[RegisteredWorker]:
        """Wait until every fetch lane is registered at the server."""
        if lanes is None:
            budget = int(self.env.get("FAKTORY_CONNECTIONS", DEFAULT_CONNECTIONS))
            connections = connections_of_child(budget, children=1)
            lanes = state.fetch_lanes(connections, int(self.env["WORKER_CONCURRENCY"]))

        def registered() -> list[RegisteredWorker]:
            assert self.exit_code is None, f"the worker ended: {self.stderr}"
            found = [each for pid in self.children for each in state.workers(pid)]
            # More: our broker does not tell those of another worker from them.
            return found if len(found) >= lanes else []

        return await eventually(registered, what=f"the worker did not register {lanes} lanes")

    async def logs(self, text: str, within_s: float = WITHIN_S) -> None:
        def found() -> bool:
            assert self.exit_code is None, f"the worker ended: {self.stderr}"
            return self.has_logged(text)

        await eventually(found, within_s, f"the worker did not log {text!r}")

    async def ended(self, within_s: float = WITHIN_S) -> int:
        """Wait for the process to end by itself; its exit code."""
        await eventually(
            lambda: self.exit_code is not None, within_s, f"the worker did not end: {self.stderr}"
        )
        assert self.exit_code is not None
        return self.exit_code

    def signal(self, number: int) -> None:
        if number in MEANT_FOR_ALL:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def clean_up(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _whole_lines(self) -> list[str]:
        # The last line may be half written.
        return [line.rstrip("\n") for line in self.stderr.splitlines(True) if line.endswith("\n")]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return not any("resource_tracker" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False

"""The bench that every run stands on: one real server, its relays, and how jobs are let loose."""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from devservers import FaktoryServer, Relay
from loadtest.consumers import QUEUE
from loadtest.faktory_wire import FaktoryWire, Info, WireError, move_queue
from loadtest.processes import Tree

STAGING = "bench_staging"
SAMPLE_S = 0.05
CLOSE_TIMEOUT_S = 4.0


class RunError(Exception):
    """A run that must not be used; the message says what was wrong with it."""


class Lab:
    """One server and its relays for the whole benchmark.

    State: the relay of each round trip; the connection, which clean_up() may make anew.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._relays: dict[int, Relay] = {}

    def __enter__(self) -> Self:
        with self._stack:
            self.server = self._stack.enter_context(FaktoryServer())
            self._connect()
            self.logs = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wire.close()
        self._stack.close()

    def _connect(self) -> None:
        self.wire = FaktoryWire(self.server.port)
        self.server_tree = Tree(self.server.pid)

    def clean_up(self) -> None:
        """Leave nothing of a run behind: no job, and no FETCH of a consumer that is gone.

        The server goes on with such a FETCH, and with those buffered behind it for 2 s each; it
        would hide jobs of the next run. Where that takes long, a restart is quicker.
        """
        try:
            self.wait_for(lambda info: info.connections == 1, CLOSE_TIMEOUT_S, "disconnected")
        except (RunError, WireError, OSError):
            self.wire.close()
            self.server.restart()
            self._connect()
        self.wire.flush()

    def relay(self, rtt_ms: int) -> Relay:
        if rtt_ms not in self._relays:
            relay = Relay(self.server.port, rtt_ms)
            self._relays[rtt_ms] = self._stack.enter_context(relay)
        return self._relays[rtt_ms]

    def release_jobs(self) -> None:
        """Give the staged jobs to the consumer, all in one step."""
        move_queue(str(self.server.data_dir / "db" / "redis.sock"), STAGING, QUEUE)

    def wait_for(self, is_met: Callable[[Info], bool], timeout_s: float, what: str) -> Info:
        deadline = time.monotonic() + timeout_s
        while not is_met(info := self.wire.info()):
            if time.monotonic() > deadline:
                raise RunError(f"after {timeout_s:.0f} s still not {what}: {info}")
            time.sleep(SAMPLE_S)
        return info

"""The bench that every run stands on: one server, its relays, and how jobs are let loose."""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from devservers import BrokerServer, FaktoryServer, Relay
from devservers.protocol_server import ProtocolServer
from loadtest.lab.consumers import QUEUE
from loadtest.lab.faktory_wire import FaktoryWire, Info, move_queue
from loadtest.lab.payloads import PayloadsFor, bench_payloads
from loadtest.lib.errors import RunError
from loadtest.lib.processes import Tree

STAGING = "bench_staging"
SAMPLE_S = 0.05
# A real Faktory sleeps so long over the FETCH of a paused queue, and does not see a RESUME.
PAUSED_FETCH_S = 2.0


@dataclass(frozen=True, slots=True)
class Route:
    """How a consumer reaches the server; `relay` is None on the direct one."""

    url: str
    port: int
    relay: Tree | None


class Lab:
    """One server and its relays.

    State: the relay of each round trip; the connection, which a restart makes anew.
    """

    # One job goes ahead of the others: it shows that the consumer works, and lets the server know
    # the queue, which it would not list in INFO after the renaming alone.
    ahead = 1
    # How long after release_jobs() a waiting FETCH may have to wait still; seconds.
    wakes_within_s = 0.0

    def __init__(self, server: ProtocolServer) -> None:
        self.server = server
        self._stack = ExitStack()
        self._relays: dict[int, Relay] = {}

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self.server)
            self.connect()
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

    def connect(self) -> None:
        self.wire = FaktoryWire(self.server.port)
        self.server_tree = Tree(self.server.pid)

    def route(self, rtt_ms: int | None) -> Route:
        """Return the way through the relay with this round trip; None for the direct one."""
        if rtt_ms is None:
            return Route(self.server.url, self.server.port, None)
        if rtt_ms not in self._relays:
            relay = Relay(self.server.port, rtt_ms)
            self._relays[rtt_ms] = self._stack.enter_context(relay)
        relay = self._relays[rtt_ms]
        return Route(self.server.url_at(relay.port), relay.port, Tree(relay.pid))

    def open_queue(self) -> None:
        """Make the queue known to an empty server, before the consumer starts."""
        self.wire.flush()
        self.wire.push_all(bench_payloads(QUEUE), self.ahead)

    def stage_jobs(self, jobs: int, payloads_for: PayloadsFor) -> None:
        """Bring the jobs to the server, where no consumer sees them yet."""
        self.wire.push_all(payloads_for(STAGING), jobs)

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


class PausingLab(Lab):
    """The same without a look into Redis, for any server: the consumer's queue is paused until all
    jobs are in it and the consumer is connected."""

    ahead = 0

    def __init__(self, server: ProtocolServer) -> None:
        super().__init__(server)
        # Our broker offers the jobs to the waiting FETCHes at once.
        self.wakes_within_s = PAUSED_FETCH_S if isinstance(server, FaktoryServer) else 0.0

    def open_queue(self) -> None:
        # Only a queue that exists can be paused; this job is the first of those to be staged.
        self.wire.push_all(bench_payloads(QUEUE), 1)
        self.wire.pause(QUEUE)

    def stage_jobs(self, jobs: int, payloads_for: PayloadsFor) -> None:
        self.wire.push_all(payloads_for(QUEUE), jobs - 1)

    def release_jobs(self) -> None:
        self.wire.resume(QUEUE)

    def restart(self) -> float:
        """End the server in an orderly way; return the seconds from its start to its greeting.

        It must have a directory of its own, or its data were gone. Relays know its old port.
        """
        self.wire.close()
        self.server.stop()
        before_s = time.monotonic()
        self.server.start()
        seconds = time.monotonic() - before_s
        self.connect()
        return seconds


# A server of its own for each run: one that has served a thousand connections keeps as many to its
# Redis, and goes on with the FETCHes of consumers that are gone.
LABS: dict[str, Callable[[], Lab]] = {
    "faktory": lambda: Lab(FaktoryServer()),
    "broker": lambda: PausingLab(BrokerServer()),
}

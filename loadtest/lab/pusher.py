"""`python -m loadtest.lab.pusher`: a process that pushes jobs as fast as a server answers.

Each client is a connection with one PUSHB under way at a time. The process makes its jobs and
connects, says "ready", waits for a line on its standard input, pushes, and prints what it did as
JSON. loadtest/lab/producer.py starts it.
"""

import argparse
import json
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

from loadtest.lab.faktory_wire import FaktoryWire
from loadtest.lab.payloads import bench_payloads
from loadtest.lib.errors import WireError
from loadtest.lib.stats import percentile

# What a PUSHB is answered when no job of it was refused.
ALL_TAKEN = b"$2\r\n{}\r\n"
# How often the server is asked for its progress, where that limits the pushing; seconds.
ASK_S = 0.02
# How often a pusher that keeps a pace looks whether the next command is due; seconds.
PACE_S = 0.002
# A server that answers nothing for so long has failed; seconds.
SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Pushed:
    """What was answered, in which time from the first command to the last answer."""

    jobs: int
    seconds: float
    answer_p50_ms: float
    answer_p99_ms: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be pushed: so many jobs, or for so many seconds (0: no limit).

    With `ahead`, no more than that many jobs are pushed and not yet processed at any time; with
    `per_s`, no more jobs than that in a second, evenly. Jobs that sleep are told for how long.
    """

    port: int
    queue: str
    jobs: int
    batch: int
    clients: int
    seconds: float = 0.0
    ahead: int = 0
    per_s: float = 0.0
    sleep_ms: int = 0
    # Make the jobs while pushing: there are too many for the memory.
    is_lazy: bool = False


class Client:
    """One connection. State: what is still to be written, and what came of the answer."""

    def __init__(self, port: int) -> None:
        self._wire = FaktoryWire(port)
        self.socket = self._wire.socket
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unsent = memoryview(b"")
        self._answer = b""
        self.jobs = 0
        self.asked_s = 0.0

    def close(self) -> None:
        self._wire.close()

    def begin(self, jobs: int, line: bytes, now_s: float) -> None:
        self.jobs, self.asked_s = jobs, now_s
        self.unsent = memoryview(line)
        self.write()

    def write(self) -> None:
        try:
            sent = self.socket.send(self.unsent)
        except BlockingIOError:
            return
        self.unsent = self.unsent[sent:]

    def is_answered(self) -> bool:
        """Read what is there; true at the end of an answer, which must take every job."""
        self._answer += self.socket.recv(65536)
        if self._answer == ALL_TAKEN:
            self._answer = b""
            return True
        if self._answer and ALL_TAKEN.startswith(self._answer):
            return False
        raise ConnectionError(f"PUSHB was answered {self._answer[:200]!r}")


class Pusher:
    """State: the clients with a command under way and those without, and what was answered."""

    def __init__(self, order: Order) -> None:
        self._order = order
        commands = bench_payloads(order.queue, order.sleep_ms).commands(order.jobs, order.batch)
        self._commands: Iterator[tuple[int, bytes]] = (
            commands if order.is_lazy else iter(list(commands))
        )
        self._selector = selectors.DefaultSelector()
        self._clients = [Client(order.port) for _ in range(order.clients)]
        self._idle = deque(self._clients)
        for client in self._clients:
            self._selector.register(client.socket, selectors.EVENT_READ, client)
        self._busy = 0
        self._asked = 0
        self._answered = 0
        self._answer_s: list[float] = []
        self._is_done = False
        self._progress = FaktoryWire(order.port) if order.ahead else None
        self._processed = 0
        self._progress_s = 0.0
        self._started_s = 0.0

    def close(self) -> None:
        self._selector.close()
        for client in self._clients:
            client.close()
        if self._progress:
            self._progress.close()

    def run(self) -> Pushed:
        cpu_before_s = time.process_time()
        self._started_s = started_s = time.perf_counter()
        end_s = started_s + self._order.seconds if self._order.seconds else float("inf")
        last_s = started_s
        self._begin_all(end_s)
        while self._busy or not self._is_done:
            events = self._selector.select(self._wait_s())
            if not events and self._is_silent():
                raise TimeoutError(f"no answer for {SILENCE_S:.0f} s")
            for key, mask in events:
                client: Client = key.data
                if mask & selectors.EVENT_WRITE:
                    client.write()
                    if not client.unsent:
                        self._selector.modify(client.socket, selectors.EVENT_READ, client)
                if mask & selectors.EVENT_READ and client.is_answered():
                    last_s = self._finish(client)
            self._begin_all(end_s)
        return Pushed(
            self._answered,
            last_s - started_s,
            percentile(self._answer_s, 50) * 1000,
            percentile(self._answer_s, 99) * 1000,
            time.process_time() - cpu_before_s,
        )

    def _finish(self, client: Client) -> float:
        now_s = time.perf_counter()
        self._answer_s.append(now_s - client.asked_s)
        self._answered += client.jobs
        self._busy -= 1
        self._idle.append(client)
        return now_s

    def _begin_all(self, end_s: float) -> None:
        """Give every idle client its next command, as far as there are any and it is allowed."""
        while self._idle and not self._is_done and self._may_push():
            now_s = time.perf_counter()
            command = next(self._commands, None) if now_s < end_s else None
            if command is None:
                self._is_done = True
                return
            client = self._idle.popleft()
            self._asked += command[0]
            self._busy += 1
            client.begin(*command, now_s)
            if client.unsent:
                both = selectors.EVENT_READ | selectors.EVENT_WRITE
                self._selector.modify(client.socket, both, client)

    def _wait_s(self) -> float:
        """How long there is nothing to do but to wait for answers."""
        if self._progress:
            return ASK_S
        return PACE_S if self._order.per_s else SILENCE_S

    def _is_silent(self) -> bool:
        """Whether a command has waited for its answer for too long."""
        now_s = time.perf_counter()
        busy = [client for client in self._clients if client not in self._idle]
        return any(now_s - client.asked_s >= SILENCE_S for client in busy)

    def _may_push(self) -> bool:
        now_s = time.perf_counter()
        pushed = self._asked + self._order.batch
        if self._order.per_s and pushed > (now_s - self._started_s) * self._order.per_s:
            return False
        if self._progress is None:
            return True
        if now_s - self._progress_s >= ASK_S:
            self._processed = self._progress.info().processed
            self._progress_s = now_s
        return pushed - self._processed <= self._order.ahead


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.lab.pusher", description=__doc__)
    parser.add_argument("order", help="an Order as JSON")
    order = Order(**json.loads(parser.parse_args().order))
    try:
        with closing(Pusher(order)) as pusher:
            print("ready", flush=True)
            if not sys.stdin.readline():
                return 1
            print(json.dumps(asdict(pusher.run())), flush=True)
    except (OSError, WireError) as error:
        print(f"pusher: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

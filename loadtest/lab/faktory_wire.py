"""A blocking Faktory client with just the verbs of the benchmark, and one Redis command.

It talks to the server directly, never through the relay nor from inside a measured consumer.
"""

import json
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from loadtest.lab.payloads import PUSH_BATCH, Payloads
from loadtest.lib.errors import WireError

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Info:
    """The numbers of one INFO that decide over a run."""

    processed: int
    failures: int
    connections: int
    queued: int
    working: int
    retries: int
    dead: int
    version: str

    def has_just(self, *, processed: int, queued: int) -> bool:
        """Whether there are exactly these jobs, and nothing of any job anywhere else."""
        others = (self.failures, self.working, self.retries, self.dead)
        return (self.processed, self.queued) == (processed, queued) and not any(others)


class Line:
    """One socket, one command at a time: write a line, read one RESP reply."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(TIMEOUT_S)
        self.socket = sock
        self._reader = sock.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self.socket.close()

    def read(self) -> bytes | None:
        head = self._reader.readline()
        if head[:1] in (b"+", b":"):
            return head[1:].rstrip()
        if head[:1] == b"$":
            size = int(head[1:])
            return None if size < 0 else self._reader.read(size + 2)[:-2]
        raise WireError(head.decode(errors="replace").strip() or "connection closed")

    def command(self, *words: bytes) -> bytes:
        return self.ask(b" ".join(words) + b"\r\n")

    def ask(self, line: bytes) -> bytes:
        """Send a whole line, its end included, and return the answer."""
        self.socket.sendall(line)
        reply = self.read()
        if reply is None:
            raise WireError(f"empty answer to {line[:20].decode()}")
        return reply


class FaktoryWire(Line):
    """A producer's connection: INFO, PUSHB, FLUSH, QUEUE."""

    def __init__(self, port: int) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))
        self.read()
        self.command(b"HELLO", b'{"v":2}')

    def info(self) -> Info:
        state: dict[str, Any] = json.loads(self.command(b"INFO"))
        data, sets = state["faktory"], state["faktory"]["sets"]
        return Info(
            processed=data["total_processed"],
            failures=data["total_failures"],
            connections=state["server"]["connections"],
            queued=data["total_enqueued"],
            working=sets["working"],
            retries=sets["retries"],
            dead=sets["dead"],
            version=state["server"]["faktory_version"],
        )

    def flush(self) -> None:
        self.command(b"FLUSH")

    def push_all(self, payloads: Payloads, count: int) -> None:
        """Push `count` benchmark jobs; raise when the server refuses a single one."""
        for _, line in payloads.commands(count, PUSH_BATCH):
            refused = self.ask(line)
            if refused != b"{}":
                raise WireError(f"PUSHB refused jobs: {refused[:200].decode(errors='replace')}")

    def pause(self, queue: str) -> None:
        """Hold the jobs of a queue back; the server must know the queue already."""
        self.command(b"QUEUE PAUSE", queue.encode())

    def resume(self, queue: str) -> None:
        self.command(b"QUEUE RESUME", queue.encode())


def move_queue(redis_socket: str, source: str, target: str) -> None:
    """Rename a queue's list in Faktory's Redis: one step that wakes every waiting FETCH."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(redis_socket)
    with closing(Line(sock)) as redis:
        redis.command(b"RENAME", f"q:{source}".encode(), f"q:{target}".encode())

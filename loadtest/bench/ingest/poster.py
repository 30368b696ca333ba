"""The load generator of `bench-ingest`: go/poster, built and run as a process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtest.lib.answering import answer_of
from loadtest.lib.programs import build_own

# Longer than a run can take: the program gives up by itself when a service falls silent.
TIMEOUT_S = 300.0
FORM = "application/x-www-form-urlencoded"  # what curl -d sends
JSON = "application/json"
NDJSON = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class Post:
    """One request, to be sent again and again: so many times, or for so many seconds."""

    path: str
    body: bytes
    content_type: str
    connections: int
    count: int = 0
    seconds: float = 0.0
    # The longest pause before each request, ms; at random, at least a fifth of it.
    pause_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Posted:
    """What was answered, in which time from the first request to the last answer."""

    statuses: dict[str, int]
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: float
    cpu_s: float

    @property
    def requests(self) -> int:
        return sum(self.statuses.values())


def build_poster() -> Path:
    """Build the program and return it; a second call is quick."""
    return build_own("poster")


def post(program: Path, port: int, order: Post) -> Posted:
    """Send the requests to a service on this port of the loopback."""
    with tempfile.NamedTemporaryFile(suffix=".body") as body:
        body.write(order.body)
        body.flush()
        command = [
            *(str(program), "-to", f"127.0.0.1:{port}", "-path", order.path),
            *("-content-type", order.content_type, "-body", body.name),
            *("-connections", str(order.connections), "-count", str(order.count)),
            *("-duration", f"{order.seconds}s", "-pause", f"{order.pause_ms}ms"),
        ]
        return Posted(**answer_of(command, "the poster", TIMEOUT_S))

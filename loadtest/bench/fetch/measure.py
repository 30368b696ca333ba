"""One run of `bench-fetch`: an origin on one core, a client on another, every page checked."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.bench.fetch.cells import THINK_MS, FetchCell, FetchOrder
from loadtest.bench.fetch.origin import Origin
from loadtest.lab.lab import RunError

# Longer than a run can take.
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class FetchRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    side: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


def measure_fetch(
    cell: FetchCell, side: str, round_number: int, program: Path, run_s: float
) -> FetchRun:
    try:
        values = _run(cell, side, program, run_s)
    except RunError as error:
        return FetchRun(cell.key, side, round_number, error=str(error))
    return FetchRun(cell.key, side, round_number, values=values)


def _run(cell: FetchCell, side: str, program: Path, run_s: float) -> dict[str, float]:
    client_core, *others = sorted(os.sched_getaffinity(0))
    origin = Origin(program, THINK_MS, others[0] if others else client_core)
    with origin as announced, tempfile.NamedTemporaryFile("w", suffix=".pem") as authority:
        authority.write(announced.authority)
        authority.flush()
        order = FetchOrder(
            side=side,
            scheme=cell.scheme,
            connections=cell.connections,
            size=cell.size,
            port=announced.https_port if cell.scheme == "https" else announced.http_port,
            authority_file=authority.name,
            seconds=run_s,
            core=client_core,
        )
        return _fetched(order)


def _fetched(order: FetchOrder) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "loadtest.bench.fetch.handlers", json.dumps(order.to_dict())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        # The authority that our own fetcher trusts; the others are told.
        env=os.environ | {"SSL_CERT_FILE": order.authority_file},
    )
    if done.returncode:
        raise RunError(done.stderr.strip()[-500:] or f"the client ended with {done.returncode}")
    values: dict[str, float] = json.loads(done.stdout)
    return values

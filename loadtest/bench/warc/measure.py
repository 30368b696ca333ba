"""One run of `bench-warc`: a process of its own decodes or exports a file, and everything that came
of it is checked."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from loadtest.bench.warc.cells import WarcOrder, WarcStep
from loadtest.bench.warc.files import Made
from loadtest.lab.lab import RunError

# Longer than a run can take.
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class WarcRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    side: str
    round: int
    size_mb: int
    is_for_memory: bool
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


def measure_warc(step: WarcStep, made: Made, directory: Path) -> WarcRun:
    order = WarcOrder(
        step.work, step.side, made.path, str(directory), made.pages, made.payload_bytes
    )
    told = (step.work, step.side, step.round, step.size_mb, step.is_for_memory)
    try:
        return WarcRun(*told, values=_measured(order))
    except RunError as error:
        return WarcRun(*told, error=str(error))


def _measured(order: WarcOrder) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "loadtest.bench.warc.handlers", json.dumps(order.to_dict())],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise RunError(done.stderr.strip()[-500:] or f"the process ended with {done.returncode}")
    values: dict[str, float] = json.loads(done.stdout)
    return values

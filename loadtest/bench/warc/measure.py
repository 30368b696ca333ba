"""One run of `bench-warc`: a process of its own decodes or exports a file, and everything that came
of it is checked."""

from dataclasses import dataclass, field
from pathlib import Path

from loadtest.bench.warc.cells import WarcOrder, WarcStep
from loadtest.bench.warc.files import Made
from loadtest.lib.answering import answer_of, module_command
from loadtest.lib.errors import RunError

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
    command = module_command("loadtest.bench.warc.handlers", order.to_dict())
    values: dict[str, float] = answer_of(command, "the process", TIMEOUT_S)
    return values

"""The plan of `bench-consumer`: which consumer runs in which cell and round, and in which order."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from loadtest.cells import Cell
from loadtest.consumers import Consumer
from loadtest.faktory_wire import WireError
from loadtest.lab import Lab, RunError
from loadtest.measure import Run, measure

# The consumer with one socket is orders of magnitude away: it is shown at one number of slots, in
# every round at a distance and once without.
PYPI_SLOTS = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One run to be done."""

    cell: Cell
    round: int
    consumer: Consumer


def is_planned(consumer: Consumer, cell: Cell, round_number: int) -> bool:
    if consumer.name != "pypi":
        return True
    if cell.kind != "noop" or cell.slots != PYPI_SLOTS:
        return False
    return cell.rtt_ms > 0 or round_number == 1


def plan(cells: tuple[Cell, ...], consumers: list[Consumer], rounds: int) -> Iterator[Step]:
    """Yield every run; in each round all consumers run once per cell, in rotated order."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            turn = (round_number + index) % len(consumers)
            for consumer in consumers[turn:] + consumers[:turn]:
                if is_planned(consumer, cell, round_number):
                    yield Step(cell, round_number, consumer)


@dataclass(frozen=True, slots=True)
class Result:
    """All runs of a benchmark, and the version of the server that they were made with."""

    runs: list[Run]
    faktory_version: str
    is_complete: bool


def run_all(
    console: Console, cells: tuple[Cell, ...], consumers: list[Consumer], rounds: int
) -> Result:
    """Do every run with a progress bar; Ctrl-C ends it early and keeps what there is."""
    steps = list(plan(cells, consumers, rounds))
    runs: list[Run] = []
    is_complete = False
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=600,
    )
    with Lab() as lab, progress:
        version = lab.wire.info().version
        task = progress.add_task("", total=len(steps))
        try:
            for step in steps:
                label = f"{step.cell.key}  round {step.round}/{rounds}  {step.consumer.title}"
                progress.update(task, description=label)
                run = measure(lab, step.consumer, step.cell, step.round)
                runs.append(run)
                progress.advance(task)
                if not console.is_terminal or run.error:
                    progress.print(f"{label}: {run.error or f'{run.jobs_per_s:,.0f} jobs/s'}")
            is_complete = True
        except KeyboardInterrupt:
            progress.print("interrupted: reporting the runs that are done")
        except (RunError, WireError, OSError) as error:
            # Not a consumer's failure, which measure() returns: the bench itself is not clean now.
            progress.print(f"ended early, reporting the runs that are done: {error}")
    return Result(runs, version, is_complete)

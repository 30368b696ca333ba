"""The plan of `bench-consumer` and `bench-network`: who runs in which cell, round and order."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from loadtest.lab.cells import Cell
from loadtest.lab.consumers import Consumer
from loadtest.lab.lab import LABS
from loadtest.lab.measure import Run, measure
from loadtest.lib.progress import do_all

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


def run_all(
    console: Console, cells: tuple[Cell, ...], consumers: list[Consumer], rounds: int
) -> tuple[list[Run], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    return do_all(
        console,
        list(plan(cells, consumers, rounds)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {step.consumer.title}",
        run=_run,
        error=lambda run: run.error,
        result=lambda run: f"{run.jobs_per_s:,.0f} jobs/s",
    )


def _run(step: Step) -> Run:
    with LABS[step.consumer.server]() as lab:
        return measure(lab, step.consumer, step.cell, step.round)

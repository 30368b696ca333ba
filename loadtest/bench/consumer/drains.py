"""The plan of `bench-consumer` and `bench-network`: who drains in which cell, round and order."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from loadtest.lab.cells import Cell
from loadtest.lab.consumers import Consumer
from loadtest.lab.lab import LABS
from loadtest.lab.measure import Run, measure
from loadtest.lib.progress import run_steps
from loadtest.lib.runs import Step, in_turns

# The consumer with one socket is orders of magnitude away: it is shown at one number of slots, in
# every round at a distance and once without.
PYPI_SLOTS = 1000


def is_planned(consumer: Consumer, cell: Cell, round_number: int) -> bool:
    if consumer.name != "pypi":
        return True
    if cell.kind != "noop" or cell.slots != PYPI_SLOTS:
        return False
    return cell.rtt_ms > 0 or round_number == 1


def plan(
    cells: Sequence[Cell], consumers: Sequence[Consumer], rounds: int
) -> Iterator[Step[Cell, Consumer]]:
    """Yield every run; in each round all consumers run once per cell, in rotated order."""
    for step in in_turns(cells, rounds, lambda _cell, _round: consumers):
        if is_planned(step.side, step.cell, step.round):
            yield step


def run_drains(
    console: Console, cells: Sequence[Cell], consumers: Sequence[Consumer], rounds: int
) -> tuple[list[Run], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    return run_steps(
        *(console, plan(cells, consumers, rounds), rounds),
        who=lambda consumer: consumer.title,
        run=run_drain,
        result=lambda run: f"{run.jobs_per_s:,.0f} jobs/s",
    )


def run_drain(step: Step[Cell, Consumer]) -> Run:
    """In a lab that is made for it and gone afterwards."""
    with LABS[step.side.server]() as lab:
        return measure(lab, step.side, step.cell, step.round)

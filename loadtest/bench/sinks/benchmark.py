"""The plan of `bench-sinks`: which cell is run in which round, and its sides in which order."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from loadtest.bench.sinks.batches import SinkServers
from loadtest.bench.sinks.cells import ALL, BatchCell, CostCell, SinksCell, sides_of_round
from loadtest.bench.sinks.measure import SinksRun, SinksStep, measure_sinks
from loadtest.bench.sinks.report import sinks_outcome
from loadtest.lib.machine import facts, sync_ms
from loadtest.lib.progress import do_all
from loadtest.web.synthetic_web import build_web

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python", "go")
PACKAGES = ("asyncpg", "fastwarc", "obstore", "pyarrow", "uvloop")


def plan_sinks(cells: Sequence[SinksCell], rounds: int) -> Iterator[SinksStep]:
    """Yield every run; in each round the sides of a crawl run once, in rotated order. Those of
    batches take turns within their run."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            sides = sides_of_round(cell, round_number)
            turn = (round_number + index) % len(sides)
            for side in (*sides[turn:], *sides[:turn]):
                yield SinksStep(cell, round_number, side)


def run_sinks(
    console: Console, cells: Sequence[SinksCell], *, rounds: int, batches: int
) -> tuple[list[SinksRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    with ExitStack() as started:
        servers: SinkServers | None = None
        if any(isinstance(cell, BatchCell) and not cell.is_made_up for cell in cells):
            servers = started.enter_context(SinkServers())
        if any(isinstance(cell, CostCell) for cell in cells):
            build_web()
        done, is_complete = do_all(
            console,
            list(plan_sinks(cells, rounds)),
            label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}{_side(step)}",
            run=partial(measure_sinks, batches=batches, servers=servers),
            error=lambda runs: runs[0].error,
            result=sinks_outcome,
        )
    return [run for runs in done for run in runs], is_complete


def _side(step: SinksStep) -> str:
    return "" if step.side == ALL else f"  {step.cell.sides[step.side]}"


def sinks_facts() -> dict[str, str]:
    found = facts()
    disk = sync_ms(Path(tempfile.gettempdir()))
    return (
        {name: found[name] for name in MACHINE}
        | {name: version(name) for name in PACKAGES}
        | {"one page to disk": f"{disk:.2f} ms (median of fdatasync)"}
    )

"""`bench-sinks`: batches into three sinks at once, and crawls with and without sinks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from rich.console import Console

from loadtest.bench.sinks.batches import SinkServers
from loadtest.bench.sinks.cells import (
    ALL,
    BATCHES,
    CELLS,
    BatchCell,
    CostCell,
    SinksCell,
    of_size,
    parse_sinks_cells,
    sides_of_round,
)
from loadtest.bench.sinks.measure import measure_sinks
from loadtest.bench.sinks.report import (
    SinksReport,
    print_sinks_report,
    sinks_outcome,
    write_sinks_report,
)
from loadtest.lib.benchmark import Benchmark, Cells, Wanted
from loadtest.lib.machine import basic_facts, disk_facts, package_versions
from loadtest.lib.options import Option, count
from loadtest.lib.progress import do_all
from loadtest.lib.runs import Step, in_turns
from loadtest.web.synthetic_web import build_web

PACKAGES = ("asyncpg", "fastwarc", "obstore", "pyarrow", "uvloop")


def plan_sinks(cells: Sequence[SinksCell], rounds: int) -> Iterator[Step[SinksCell, str]]:
    """The sides of a crawl are runs of their own; those of batches take turns within their run."""
    return in_turns(cells, rounds, sides_of_round)


def run(console: Console, wanted: Wanted[tuple[SinksCell, ...]]) -> SinksReport:
    cells, rounds, options = wanted.cells, wanted.rounds, wanted.options
    if options.pages:
        cells = of_size(cells, options.pages)
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
            run=partial(measure_sinks, batches=options.batches, servers=servers),
            error=lambda runs: runs[0].error,
            result=sinks_outcome,
        )
    runs = [run for of_step in done for run in of_step]
    return SinksReport.of(wanted.machine, cells, (runs, is_complete))


def _side(step: Step[SinksCell, str]) -> str:
    return "" if step.side == ALL else f"  {step.cell.sides[step.side]}"


def sinks_facts() -> dict[str, str]:
    return basic_facts("go") | package_versions(*PACKAGES) | disk_facts()


BENCHMARK = Benchmark(
    name="sinks",
    help="write batches into three sinks at once, and crawl with and without sinks",
    rounds=3,
    facts=sinks_facts,
    cells=Cells(
        default=CELLS,
        read=parse_sinks_cells,
        help=f"some of {','.join(cell.key for cell in CELLS)}, or batch or crawl",
    ),
    options=(
        Option("--batches", f"of each side in a round (default {BATCHES})", count, BATCHES),
        Option("--pages", "of each crawl, instead of its own number", count),
    ),
    run=run,
    show=print_sinks_report,
    write=write_sinks_report,
)

"""`bench-consumer`: the same jobs drained by us, Rust, Go and PyPI."""

from rich.console import Console

from loadtest.bench.consumer.cells import CORE, FULL, parse_cells
from loadtest.bench.consumer.drains import run_drains
from loadtest.bench.consumer.report import (
    DrainReport,
    consumer_section,
    print_report,
    write_report,
)
from loadtest.lab.cells import Cell
from loadtest.lab.consumers import MAKERS, make_consumers
from loadtest.lab.facts import faktory_facts
from loadtest.lib.benchmark import Benchmark, Cells, Wanted
from loadtest.lib.errors import PeerError
from loadtest.lib.machine import facts
from loadtest.lib.options import one_or_more


def run(console: Console, wanted: Wanted[tuple[Cell, ...]]) -> DrainReport:
    consumers = make_consumers(wanted.options.consumers)
    if not consumers:
        raise PeerError("no consumer could be built")
    done = run_drains(console, wanted.cells, consumers, wanted.rounds)
    return DrainReport.of(wanted.machine, wanted.cells, done)


BENCHMARK = Benchmark(
    name="consumer",
    help="drain the same jobs by us, Rust, Go and PyPI, from a real Faktory",
    rounds=5,
    facts=lambda: facts() | faktory_facts(),
    cells=Cells(
        default=CORE,
        read=parse_cells,
        help="such as noop/50/1000,1s/50/8000",
        full=FULL,
        full_rounds=3,
    ),
    options=(one_or_more(MAKERS, "--consumers", "consumer"),),
    run=run,
    show=print_report,
    write=write_report,
    section=consumer_section,
)

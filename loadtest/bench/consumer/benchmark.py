"""`bench-consumer`: the same jobs drained by us, Rust, Go and PyPI."""

from rich.console import Console

from loadtest.bench.consumer.cells import CORE, FULL, parse_cells
from loadtest.bench.consumer.drains import run_drain, run_drains
from loadtest.bench.consumer.report import (
    DrainReport,
    consumer_section,
    print_report,
    write_report,
)
from loadtest.lab.cells import Cell
from loadtest.lab.consumers import MAKERS, make_consumers, ours
from loadtest.lab.facts import faktory_facts
from loadtest.lab.measure import Run
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.errors import PeerError
from loadtest.lib.figures import Figure
from loadtest.lib.machine import facts
from loadtest.lib.options import one_or_more
from loadtest.lib.runs import Step


def run(console: Console, wanted: Wanted[tuple[Cell, ...]]) -> DrainReport:
    consumers = make_consumers(wanted.options.consumers)
    if not consumers:
        raise PeerError("no consumer could be built")
    done = run_drains(console, wanted.cells, consumers, wanted.rounds)
    return DrainReport.of(wanted.machine, wanted.cells, done)


def measure_one(key: str, _size: float | None) -> Run:
    (cell,) = parse_cells(key)
    return run_drain(Step(cell, 1, ours()))


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
    against=Against(
        cells=CORE,
        figures=(
            Figure("jobs_per_s", "jobs/s"),
            Figure("cpu_us_per_job", "worker CPU µs/job", 1, is_less_better=True),
            Figure("server_cpu_us_per_job", "Faktory CPU µs/job", 1, is_less_better=True),
        ),
        measure=measure_one,
    ),
)

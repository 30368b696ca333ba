"""`bench-fetch`: our fetcher beside the clients of others, on one core."""

import ssl
from collections.abc import Iterator, Sequence

from rich.console import Console

from loadtest.bench.fetch.cells import CELLS, OURS, RUN_S, SIDES, FetchCell, parse_fetch_cells
from loadtest.bench.fetch.measure import measure_fetch
from loadtest.bench.fetch.origin import build_origin
from loadtest.bench.fetch.report import (
    FetchReport,
    outcome,
    print_fetch_report,
    write_fetch_report,
)
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.figures import Figure
from loadtest.lib.machine import basic_facts, package_versions
from loadtest.lib.options import Option, one_or_more
from loadtest.lib.progress import run_steps
from loadtest.lib.runs import SideRun, Step, in_turns

PACKAGES = ("aiohttp", "httptools", "pyreqwest", "httpx", "uvloop")


def plan_fetch(
    cells: Sequence[FetchCell], sides: Sequence[str], rounds: int
) -> Iterator[Step[FetchCell, str]]:
    return in_turns(cells, rounds, lambda _cell, _round: sides)


def run(console: Console, wanted: Wanted[tuple[FetchCell, ...]]) -> FetchReport:
    cells, rounds, run_s = wanted.cells, wanted.rounds, wanted.options.seconds
    program = build_origin()
    done = run_steps(
        *(console, plan_fetch(cells, wanted.options.sides, rounds), rounds),
        who=lambda side: SIDES[side],
        run=lambda step: measure_fetch(step.cell, step.side, step.round, program, run_s),
        result=outcome,
    )
    return FetchReport.of(wanted.machine, cells, done)


def measure_one(key: str, seconds: float | None) -> SideRun:
    (cell,) = parse_fetch_cells(key)
    return measure_fetch(cell, OURS, 1, build_origin(), seconds or RUN_S)


def fetch_facts() -> dict[str, str]:
    return basic_facts("go") | package_versions(*PACKAGES) | {"TLS": ssl.OPENSSL_VERSION}


BENCHMARK = Benchmark(
    name="fetch",
    help="fetch pages by our fetcher, bare aiohttp, pyreqwest and httpx, on one core",
    rounds=3,
    facts=fetch_facts,
    cells=Cells(
        default=CELLS,
        read=parse_fetch_cells,
        help="such as http/keep/20k,https or a beginning of one",
    ),
    options=(
        one_or_more(SIDES, "--sides", "client"),
        Option("--seconds", "of a run", float, RUN_S),
    ),
    run=run,
    show=print_fetch_report,
    write=write_fetch_report,
    against=Against(
        cells=CELLS,
        figures=(
            Figure("pages_per_s", "pages/s"),
            Figure("cpu_us", "CPU µs/page", 1, is_less_better=True),
        ),
        size="seconds",
        measure=measure_one,
    ),
)

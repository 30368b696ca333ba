"""`bench-ingest`: jobs handed in by the API, beside bare servers and raw PUSHB."""

from collections.abc import Iterator

from rich.console import Console

from loadtest.bench.ingest.cells import (
    DEFAULT,
    FORMS,
    RUN_S,
    SIDES,
    IngestCell,
    parse_ingest_cells,
)
from loadtest.bench.ingest.measure import measure_ingest
from loadtest.bench.ingest.poster import build_poster
from loadtest.bench.ingest.report import (
    IngestReport,
    outcome,
    print_ingest_report,
    write_ingest_report,
)
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.figures import Figure
from loadtest.lib.machine import basic_facts, package_versions, sqlite_facts
from loadtest.lib.options import Option
from loadtest.lib.progress import run_steps
from loadtest.lib.runs import SideRun, Step, in_turns

PACKAGES = ("uvicorn", "uvloop", "httptools", "fastapi", "pydantic", "msgspec")


def plan_ingest(cells: tuple[IngestCell, ...], rounds: int) -> Iterator[Step[IngestCell, str]]:
    return in_turns(cells, rounds, lambda cell, _round: cell.sides)


def run(console: Console, wanted: Wanted[tuple[IngestCell, ...]]) -> IngestReport:
    cells, rounds, run_s = wanted.cells, wanted.rounds, wanted.options.seconds
    poster = build_poster()
    done = run_steps(
        *(console, plan_ingest(cells, rounds), rounds),
        who=lambda side: SIDES[side],
        run=lambda step: measure_ingest(step.cell, step.side, step.round, poster, run_s),
        result=outcome,
    )
    return IngestReport.of(wanted.machine, cells, done)


def measure_one(key: str, seconds: float | None) -> SideRun:
    (cell,) = parse_ingest_cells(key)
    return measure_ingest(cell, "api", 1, build_poster(), seconds or RUN_S)


def ingest_facts() -> dict[str, str]:
    return basic_facts("go") | package_versions(*PACKAGES) | sqlite_facts()


BENCHMARK = Benchmark(
    name="ingest",
    help="hand jobs in by POST, list and stream, beside bare servers and raw PUSHB",
    rounds=5,
    facts=ingest_facts,
    cells=Cells(default=DEFAULT, read=parse_ingest_cells, help=f"some of {FORMS}"),
    options=(Option("--seconds", "of a run of single POSTs or lists", float, RUN_S),),
    run=run,
    show=print_ingest_report,
    write=write_ingest_report,
    against=Against(
        cells=DEFAULT,
        figures=(
            Figure("jobs_per_s", "jobs/s"),
            Figure("p50_ms", "p50 ms", 2, is_less_better=True),
            Figure("service_cpu_us", "API CPU µs/job", 1, is_less_better=True),
            Figure("broker_cpu_us", "broker CPU µs/job", 1, is_less_better=True),
        ),
        size="seconds",
        measure=measure_one,
    ),
)

"""The plan of `bench-ingest`: which side runs in which cell and round, and in which order."""

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from loadtest.bench.ingest.cells import SIDES, IngestCell
from loadtest.bench.ingest.measure import IngestRun, measure_ingest
from loadtest.bench.ingest.poster import build_poster
from loadtest.lib.machine import facts, sync_ms
from loadtest.lib.progress import do_all

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python", "go")
PACKAGES = ("uvicorn", "uvloop", "httptools", "fastapi", "pydantic", "msgspec")


@dataclass(frozen=True, slots=True)
class IngestStep:
    """One run to be done."""

    cell: IngestCell
    round: int
    side: str


def plan_ingest(cells: tuple[IngestCell, ...], rounds: int) -> Iterator[IngestStep]:
    """Yield every run; in each round all sides of a cell run once, in rotated order."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            turn = (round_number + index) % len(cell.sides)
            for side in cell.sides[turn:] + cell.sides[:turn]:
                yield IngestStep(cell, round_number, side)


def run_ingest(
    console: Console, cells: tuple[IngestCell, ...], *, rounds: int, run_s: float
) -> tuple[list[IngestRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    poster = build_poster()
    return do_all(
        console,
        list(plan_ingest(cells, rounds)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SIDES[step.side]}",
        run=lambda step: measure_ingest(step.cell, step.side, step.round, poster, run_s),
        error=lambda run: run.error,
        result=outcome,
    )


def outcome(run: IngestRun) -> str:
    values = run.values
    return (
        f"{values['jobs_per_s']:,.0f} jobs/s, p50 {values['p50_ms']:.2f} ms, "
        f"p99 {values['p99_ms']:.2f} ms"
    )


def ingest_facts() -> dict[str, str]:
    found = facts()
    disk = sync_ms(Path(tempfile.gettempdir()))
    return (
        {name: found[name] for name in MACHINE}
        | {name: version(name) for name in PACKAGES}
        | {
            "SQLite": sqlite3.sqlite_version,
            "one page to disk": f"{disk:.2f} ms (median of fdatasync)",
        }
    )

"""What bench-ingest writes: ratios within a round, targets, failed runs apart."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.ingest.cells import DEFAULT, SIDES, IngestCell, LoneCell, SingleCell, StreamCell
from loadtest.bench.ingest.report import (
    FIGURES,
    SECTIONS,
    IngestReport,
    ingest_markdown,
    outcome,
    print_ingest_report,
    write_ingest_report,
)
from loadtest.lib.runs import SideRun

SINGLE = SingleCell(64)


def run_of(
    side: str, round_number: int, value: float, cell: IngestCell = SINGLE, error: str | None = None
) -> SideRun:
    values = {} if error else {figure.name: value for figure in FIGURES}
    return SideRun(cell.key, side, round_number, error, values)


def report_of(
    runs: list[SideRun], cells: tuple[IngestCell, ...] = (SINGLE,), *, is_complete: bool = True
) -> IngestReport:
    command = "python -m loadtest bench-ingest"
    return IngestReport(command, "today", {"cores": "2"}, cells, runs, is_complete)


def test_a_ratio_compares_the_two_runs_of_one_round():
    report = report_of(
        [
            *(run_of("api", 1, 300.0), run_of("fastapi", 1, 100.0)),
            *(run_of("api", 2, 200.0), run_of("fastapi", 2, 200.0)),
            *(run_of("api", 3, 200.0), run_of("fastapi", 3, 100.0)),
        ]
    )
    ratio = report.ratio(SINGLE, "fastapi")
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.0, 3.0)
    assert report.ratio(SINGLE, "asgi") is None


def test_a_round_in_which_one_failed_has_no_ratio_and_is_listed():
    report = report_of(
        [
            *(run_of("api", 1, 0.0, error="a job\nis missing"), run_of("fastapi", 1, 100.0)),
            *(run_of("api", 2, 400.0), run_of("fastapi", 2, 100.0)),
        ]
    )
    ratio = report.ratio(SINGLE, "fastapi")
    assert ratio is not None and ratio.low == 4.0
    text = ingest_markdown(report)
    assert "single/64, round 1, Manyhands API: a job is missing" in text


def test_targets_are_met_or_missed_by_the_median():
    stream, lone = StreamCell(9), LoneCell(5)
    runs = [
        *(run_of("api", 1, 6000.0), run_of("fastapi", 1, 8000.0)),
        *(run_of("api", 1, 69.0, stream), run_of("pushb", 1, 100.0, stream)),
        run_of("api", 1, 9.99, lone),
    ]
    text = ingest_markdown(report_of(runs, (SINGLE, stream, lone)))
    assert "at least 0.7 of an empty FastAPI | 0.75 (0.75 to 0.75) | met |" in text
    assert "10,000 jobs/s | 6,000 (6,000 to 6,000) | missed |" in text
    assert "at least 0.7 of raw PUSHB | 0.69 (0.69 to 0.69) | missed |" in text
    assert "p99 at most 10 ms | 9.99 (9.99 to 9.99) | met |" in text


def test_an_interrupted_benchmark_says_so():
    assert "**Interrupted" in ingest_markdown(report_of([], is_complete=False))
    assert "**Interrupted" not in ingest_markdown(report_of([]))


def test_a_run_is_told_in_one_line():
    assert outcome(run_of("api", 1, 1234.5)) == "1,234 jobs/s, p50 1234.50 ms, p99 1234.50 ms"


@pytest.mark.parametrize("is_run", [True, False])
def test_every_kind_of_cell_can_be_written_and_shown(tmp_path, is_run):
    runs = [run_of(side, 1, 20_000.0, cell) for cell in DEFAULT for side in cell.sides]
    report = report_of(runs if is_run else [], DEFAULT)
    write_ingest_report(report, tmp_path)
    text = (tmp_path / "ingest.md").read_text()
    assert all(f"## {title}" in text for title, _ in SECTIONS.values())
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    picture = (tmp_path / "ingest.svg").read_text()
    assert all(cell.title in picture for cell in DEFAULT)
    assert len(json.loads((tmp_path / "ingest.json").read_text())["runs"]) == len(report.runs)
    console = Console(width=80, file=StringIO(), record=True)
    print_ingest_report(console, report)
    shown = console.export_text()
    assert "NDJSON of 200,000 lines" in shown
    assert all(name in shown for name in SIDES.values())

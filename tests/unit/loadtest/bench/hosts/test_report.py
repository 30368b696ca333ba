"""What bench-hosts writes: verdicts from values of one round, every cell, runs that failed."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from loadtest.bench.crawl.cells import OURS
from loadtest.bench.hosts.cells import BESIDE_NONE, CELLS, CRAWL, IMPOLITE, POLITE, SCALING
from loadtest.bench.hosts.report import (
    BESIDE,
    JOBS_RATE,
    SCALED,
    STEADY,
    HostsReport,
    hosts_markdown,
    hosts_outcome,
    print_hosts_report,
    verdict_rows,
    write_hosts_report,
)
from loadtest.lib.runs import SideRun

FIGURES = (STEADY, JOBS_RATE, *SCALED, *BESIDE)


def run_of(
    key: str, side: str = OURS, number: int = 1, error: str | None = None, **values: float
) -> SideRun:
    all_values = {figure.name: 1.0 for figure in FIGURES} | values
    return SideRun(key, side, number, error, {} if error else all_values)


def report_of(*runs: SideRun) -> HostsReport:
    return HostsReport(
        "python -m loadtest bench-hosts", "today", {"cores": "2"}, CELLS, list(runs), True
    )


def crawls(number: int, *rates: float) -> list[SideRun]:
    return [
        run_of(cell.key, number=number, steady_pages_per_s=rate)
        for cell, rate in zip(SCALING[CRAWL], rates, strict=True)
    ]


def test_hosts_are_held_against_one_host_of_their_own_round():
    report = report_of(*crawls(1, 100, 190, 240), *crawls(2, 50, 99, 150))
    assert verdict_rows(report) == [
        ("one crawl, 2 hosts × 50 slots: at least 0.9 × linear", "0.97 (0.95 to 0.99)", "met"),
        ("one crawl, 3 hosts × 50 slots: at least 0.9 × linear", "0.90 (0.80 to 1.00)", "met"),
    ]


@pytest.mark.parametrize(("polite", "verdict"), [(70.0, "met"), (69.0, "missed")])
def test_polite_jobs_are_held_against_the_others(polite, verdict):
    runs = run_of("manners", POLITE, jobs_per_s=polite), run_of("manners", IMPOLITE, jobs_per_s=100)
    ((_, found, said),) = verdict_rows(report_of(*runs))
    assert said == verdict
    assert found.startswith(f"{polite / 100:.2f} ")


def test_everything_is_written_down(tmp_path: Path):
    runs = [run_of(cell.key, side) for cell in CELLS for side in cell.sides]
    report = report_of(*runs, run_of("jobs/2", number=2, error="a worker ended"))
    write_hosts_report(report, tmp_path)
    text = (tmp_path / "hosts.md").read_text()
    assert text == hosts_markdown(report)
    for cell in SCALING[CRAWL]:
        assert f"| {cell.title} |" in text
    assert "| FETCH_POLITE=false |" in text
    assert "jobs/2, round 2, Manyhands: a worker ended" in text
    assert len(json.loads((tmp_path / "hosts.json").read_text())["runs"]) == len(runs) + 1
    assert "<svg" in (tmp_path / "hosts.svg").read_text()
    shown = StringIO()
    print_hosts_report(Console(file=shown, width=80), report)
    assert "FAILED jobs/2 round 2" in shown.getvalue()
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("|"))


def test_a_run_is_told_in_one_line():
    told = hosts_outcome(run_of(BESIDE_NONE.key, POLITE, jobs_per_s=1234))
    assert told.startswith("1,234 jobs/s, ")

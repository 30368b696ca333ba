"""`--against`: the order of its runs, and how the two checkouts are compared."""

import json
from collections import Counter
from pathlib import Path

import pytest

from loadtest.against.report import report_rows, write_against_report
from loadtest.against.turns import NEW, OLD, AgainstReport, AgainstRun, plan_turns
from loadtest.bench import benchmark_names, find_benchmark
from loadtest.lib.benchmark import Against

COMPARED = {
    name: against for name in benchmark_names() if (against := find_benchmark(name).against)
}
BROKER = COMPARED["broker"]


def report(runs: list[AgainstRun]) -> AgainstReport:
    cells = {cell.key: cell.title for cell in BROKER.cells}
    return AgainstReport(
        *("command", "today", {}, "broker", BROKER.figures), cells, runs, is_complete=True
    )


def drained(checkout: str, round_number: int, rate: float, cpu_us: float) -> AgainstRun:
    values = {"jobs_per_s": rate, "server_cpu_us": cpu_us}
    return AgainstRun("drain/ours/direct/500", checkout, round_number, values=values)


def test_both_run_each_cell_right_after_each_other_and_each_is_first_as_often():
    steps = list(plan_turns(["a", "b"], 4))
    pairs = list(zip(steps[::2], steps[1::2], strict=True))
    assert all((one.cell, one.round) == (other.cell, other.round) for one, other in pairs)
    assert all({one.side, other.side} == {NEW, OLD} for one, other in pairs)
    assert Counter(one.side for one, _ in pairs) == {NEW: 4, OLD: 4}


def test_rounds_are_compared_one_by_one_and_above_one_the_new_one_is_better():
    runs = [
        *(drained(OLD, 1, 1000, 50.0), drained(NEW, 1, 900, 25.0)),
        *(drained(NEW, 2, 3000, 20.0), drained(OLD, 2, 2000, 40.0)),
        # Half a round is none.
        drained(NEW, 3, 9999, 1.0),
    ]
    rate, cpu = report_rows(report(runs))
    assert (rate.figure.title, rate.gain.low, rate.gain.high) == ("jobs/s", 0.9, 1.5)
    assert rate.verdict == ""
    assert (cpu.figure.title, cpu.gain.median) == ("broker CPU µs/job", 2.0)


def test_what_falls_short_is_said_and_failed_runs_are_listed(tmp_path: Path):
    runs = [
        *(drained(OLD, 1, 1000, 50.0), drained(NEW, 1, 960, 50.0)),
        AgainstRun("latency/500", OLD, 1, error="no\nworker"),
    ]
    write_against_report(report(runs), tmp_path)
    page = (tmp_path / "broker-against.md").read_text()
    assert (
        "| 1,000 (1,000 to 1,000) | 960 (960 to 960) | 0.96 (0.96 to 0.96) | under 0.97 |" in page
    )
    assert "- latency/500, round 1, old: no worker" in page
    written = json.loads((tmp_path / "broker-against.json").read_text())
    assert [run["checkout"] for run in written["runs"]] == [OLD, NEW, OLD]


def test_the_benchmarks_that_compare_revisions_are_these():
    assert set(COMPARED) == {"broker", "consumer", "ingest", "fetch", "crawl"}


@pytest.mark.parametrize("against", COMPARED.values(), ids=COMPARED)
def test_the_first_figure_is_a_rate(against: Against):
    assert not against.figures[0].is_less_better

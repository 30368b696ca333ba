"""What bench-worker writes: targets from values of one round, the profile, every cell."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.worker.cells import (
    FULL,
    ONE_SERVICE,
    PACED,
    PROFILE,
    TWO_PROCESSES,
    ProcessesCell,
    WorkerCell,
)
from loadtest.bench.worker.report import (
    METRICS,
    SECTIONS,
    gain_of_bare,
    print_worker_report,
    profile_rows,
    target_rows,
    unevenness,
    worker_markdown,
    worker_outcome,
    write_worker_report,
)
from loadtest.lab.server_runs import SERVERS, ServerReport, ServerRun

ONE, TWO = ProcessesCell(1), ProcessesCell(2)


def run_of(
    cell: WorkerCell,
    round_number: int,
    server: str = "broker",
    error: str | None = None,
    **values: float,
) -> ServerRun:
    all_values = {metric.name: 1.0 for metric in METRICS[cell.kind]} | values
    return ServerRun(cell.key, server, round_number, error, {} if error else all_values)


def report_of(runs: list[ServerRun], *, is_complete: bool = True) -> ServerReport:
    return ServerReport(
        "python -m loadtest bench-worker", "today", {"cores": "2"}, tuple(FULL), runs, is_complete
    )


def paced_runs(round_number: int, costs: tuple[float, ...]) -> list[ServerRun]:
    return [
        run_of(cell, round_number, consumer_cpu_us=cost)
        for cell, cost in zip(PACED, costs, strict=True)
    ]


def test_unevenness_is_the_largest_distance_from_the_middle_cost_within_a_round():
    runs = paced_runs(1, (90, 100, 100, 110, 125)) + paced_runs(2, (40, 50, 50, 50, 50))
    found = unevenness(report_of(runs), "broker")
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.2, 0.25))


def test_a_round_that_lacks_a_number_of_slots_says_nothing_about_flatness():
    runs = paced_runs(1, (1, 1, 1, 1, 9))[:-1] + paced_runs(2, (1, 1, 1, 1, 1))
    found = unevenness(report_of(runs), "broker")
    assert found is not None and found.high == 0.0
    assert unevenness(report_of(runs), "faktory") is None


def test_the_gain_of_processes_is_compared_with_that_of_a_bare_loop_in_the_same_round():
    report = report_of(
        [
            run_of(ONE, 1, jobs_per_s=400, bare_per_s=500),
            run_of(TWO, 1, jobs_per_s=720, bare_per_s=1000),
            # In this round the machine gave a second process little, with or without a queue.
            run_of(ONE, 2, jobs_per_s=400, bare_per_s=500),
            run_of(TWO, 2, jobs_per_s=520, bare_per_s=650),
            run_of(TWO, 3, jobs_per_s=1, bare_per_s=1000),
        ]
    )
    ratio = gain_of_bare(report, "broker", 2)
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((0.9, 1.0))
    assert "| 2 processes | Manyhands broker | 1.55 (1.30 to 1.80) |" in worker_markdown(report)


@pytest.mark.parametrize(("rate", "lag", "verdicts"), [(9000, 50, "met"), (8999, 51, "missed")])
def test_targets_are_met_at_their_limit_and_missed_beyond(rate, lag, verdicts):
    report = report_of([run_of(ONE_SERVICE, 1, jobs_per_s=rate, lag_p99_ms=lag)])
    rows = target_rows(report)
    assert [verdict for _, _, verdict in rows] == [verdicts] * 2
    assert all("10,000 slots as 1 × 10,000" in text for text, _, _ in rows)


def test_what_was_not_run_or_failed_has_no_verdict():
    assert target_rows(report_of([])) == []
    assert target_rows(report_of([run_of(TWO_PROCESSES, 1, error="a job is missing")])) == []


def test_a_profile_shows_its_ten_largest_shares():
    shares = {f"function_{number}": number / 100 for number in range(1, 13)}
    run = ServerRun(PROFILE.key, "broker", 1, None, shares)
    largest = [f"function_{number}" for number in range(12, 2, -1)]
    assert [label for label, _ in profile_rows(run)] == largest
    assert "| `function_12` | 12.0 % |" in worker_markdown(report_of([run]))
    assert worker_outcome(run) == "12 % in function_12"


def test_a_run_is_told_in_one_line():
    run = run_of(ONE_SERVICE, 1, jobs_per_s=9412.4, lag_p99_ms=12.34)
    assert worker_outcome(run) == "9,412 jobs/s, 12.3 loop lag p99 ms"


def test_failed_runs_and_an_interruption_are_told():
    report = report_of([run_of(TWO, 3, "faktory", error="a job is missing")], is_complete=False)
    text = worker_markdown(report)
    assert "**Interrupted" in text
    assert "processes/2, round 3, Faktory: a job is missing" in text


@pytest.mark.parametrize("is_run", [True, False])
def test_every_kind_of_cell_can_be_written_and_shown(tmp_path, is_run):
    runs = [run_of(cell, 1, server) for cell in FULL for server in SERVERS]
    report = report_of(runs if is_run else [])
    write_worker_report(report, tmp_path)
    text = (tmp_path / "worker.md").read_text()
    assert all(f"## {title}" in text for title, _ in SECTIONS.values())
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    picture = (tmp_path / "worker.svg").read_text()
    assert all(cell.title in picture for cell in FULL if cell != PROFILE)
    assert len(json.loads((tmp_path / "worker.json").read_text())["runs"]) == len(report.runs)
    console = Console(width=80, file=StringIO(), record=True)
    print_worker_report(console, report)
    assert "1 s jobs, 2 × 5,000 slots" in console.export_text()

"""What bench-broker writes: ratios within a round, failed runs apart, every cell in the plot."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.broker.cells import FULL, BrokerCell, LatencyCell, PushCell
from loadtest.bench.broker.report import (
    METRICS,
    RATE,
    SECTIONS,
    broker_markdown,
    print_broker_report,
    write_broker_report,
)
from loadtest.lab.server_runs import SERVERS, ServerReport, ServerRun, outcome

PUSH = PushCell(100, 16)


def run_of(
    server: str,
    round_number: int,
    rate: float,
    cell: BrokerCell = PUSH,
    error: str | None = None,
) -> ServerRun:
    values = {} if error else {metric.name: rate for metric in METRICS[cell.kind]}
    return ServerRun(cell.key, server, round_number, error, values)


def report_of(
    runs: list[ServerRun], cells: tuple[BrokerCell, ...] = (PUSH,), *, is_complete: bool = True
) -> ServerReport:
    return ServerReport(
        "python -m loadtest bench-broker", "today", {"cores": "2"}, cells, runs, is_complete
    )


def test_a_ratio_compares_the_two_runs_of_one_round():
    report = report_of(
        [
            *(run_of("faktory", 1, 100.0), run_of("broker", 1, 300.0)),
            *(run_of("faktory", 2, 200.0), run_of("broker", 2, 200.0)),
            *(run_of("faktory", 3, 100.0), run_of("broker", 3, 200.0)),
        ]
    )
    ratio = report.ratio(PUSH, RATE)
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.0, 3.0)


def test_a_round_in_which_one_failed_has_no_ratio_and_its_number_does_not_count():
    report = report_of(
        [
            *(run_of("faktory", 1, 100.0), run_of("broker", 1, 0.0, error="a job is missing")),
            *(run_of("faktory", 2, 100.0), run_of("broker", 2, 400.0)),
        ]
    )
    ratio, rate = report.ratio(PUSH, RATE), report.spread(PUSH, "broker", RATE)
    assert ratio is not None and ratio.median == 4.0
    assert rate is not None and rate.low == 400.0
    text = broker_markdown(report)
    assert "## Runs that failed" in text
    assert "push/100/16, round 1, Manyhands broker: a job is missing" in text


def test_a_cell_of_one_server_alone_has_no_ratio():
    text = broker_markdown(report_of([run_of("broker", 1, 5.0)]))
    assert "| push, PUSHB of 100, 16 clients, jobs/s | - | 5 | - | 1 |" in text


def test_latencies_are_shown_in_hundredths_of_a_millisecond():
    cell = LatencyCell(500)
    runs = [run_of("faktory", 1, 0.5, cell), run_of("broker", 1, 1.25, cell)]
    text = broker_markdown(report_of(runs, (cell,)))
    assert "idle server, p99 ms (less is better) | 0.50 | 1.25 | 2.50 (2.50 to 2.50) | 1 |" in text
    assert outcome(runs[1], METRICS) == "1.25 p50 ms, 1.25 p99 ms"


def test_an_interrupted_benchmark_says_so():
    assert "**Interrupted" in broker_markdown(report_of([], is_complete=False))
    assert "**Interrupted" not in broker_markdown(report_of([]))


@pytest.mark.parametrize("is_run", [True, False])
def test_every_kind_of_cell_can_be_written_and_shown(tmp_path, is_run):
    runs = [run_of(server, 1, 2.0**20, cell) for cell in FULL for server in SERVERS]
    report = report_of(runs if is_run else [], FULL)
    write_broker_report(report, tmp_path)
    text = (tmp_path / "broker.md").read_text()
    assert all(f"## {title}" in text for title, _ in SECTIONS.values())
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    picture = (tmp_path / "broker.svg").read_text()
    assert all(cell.title in picture for cell in FULL)
    assert len(json.loads((tmp_path / "broker.json").read_text())["runs"]) == len(report.runs)
    console = Console(width=80, file=StringIO(), record=True)
    print_broker_report(console, report)
    assert "backlog of 1,000,000 jobs" in console.export_text()

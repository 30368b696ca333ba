"""What bench-network writes: measured against predicted, what limits a run, failures apart."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.consumer.report import DrainReport
from loadtest.bench.network.cells import CONTENDERS, NETWORK
from loadtest.bench.network.report import (
    BUSY_MARK,
    network_markdown,
    network_section,
    print_network_report,
    write_network_report,
)
from loadtest.lab.cells import Cell
from loadtest.lab.measure import Run

CELL = Cell("100ms", 50, 2000)
# 2,000 slots ÷ (50 + 5 + 100 ms), and 1,900 ÷ (2 × 50 + 100 ms).
PREDICTED, PREDICTED_FOR_RUST = 12_903, 9_500


def run_of(
    consumer: str,
    round_number: int,
    rate: float,
    cell: Cell = CELL,
    server_us: float = 10.0,
    error: str | None = None,
) -> Run:
    slots = 1900 if consumer == "rust" else cell.slots
    return Run(
        *(cell.key, consumer, round_number, slots, 1000),
        error=error,
        jobs_per_s=rate,
        sockets=96,
        cpu_us_per_job=5.0,
        server_cpu_us_per_job=server_us,
        relay_cpu_us_per_job=5.0,
        rss_idle_bytes=47 * 2**20,
        bytes_per_slot=2048,
    )


def report_of(
    runs: list[Run], cells: tuple[Cell, ...] = (CELL,), *, is_complete: bool = True
) -> DrainReport:
    machine = {"cores": "2", "cpu": "some cpu", "Faktory": "1.10.0"}
    command = "python -m loadtest bench-network"
    return DrainReport(command, "today", machine, cells, runs, is_complete)


def summary_of(report: DrainReport) -> list[str]:
    lines = network_section(report)
    row = next(line for line in lines if line.startswith("| 50 ms"))
    return [word.strip() for word in row.strip("|").split("|")]


def test_the_measured_rate_stands_beside_the_predicted_one_and_their_ratio():
    runs = [run_of("ours", number, rate) for number, rate in enumerate((6000, 6451.6, 7000), 1)]
    words = summary_of(report_of(runs))
    assert words[:3] == ["50 ms", "2,000", f"{PREDICTED:,}"]
    assert words[3:5] == ["6,452 (6,000 to 7,000)", "0.50"]


def test_a_socket_per_slot_is_predicted_for_the_slots_that_it_had():
    runs = [run_of("ours", 1, 9500), run_of("rust", 1, 4750)]
    words = summary_of(report_of(runs))
    assert words[7:] == [
        f"{PREDICTED_FOR_RUST:,}",
        "4,750 (4,750 to 4,750)",
        "0.50",
        "2.00 (2.00 to 2.00)",
    ]


def test_who_did_not_run_has_no_figures():
    words = summary_of(report_of([run_of("ours", 1, 1000)]))
    assert words[5:7] == words[8:10] == ["-", "-"]
    assert words[10] == "-"


def test_a_ratio_is_marked_where_the_cores_were_busy():
    # 10 + server CPU, in µs/job: 1.5 and 1.7 of two cores.
    idle, busy = run_of("ours", 1, 5000, server_us=290), run_of("ours", 1, 5000, server_us=330)
    assert BUSY_MARK not in summary_of(report_of([idle]))[4]
    assert summary_of(report_of([busy]))[4].endswith(BUSY_MARK)


def test_a_run_that_failed_does_not_count_and_is_named():
    runs = [run_of("ours", 1, 9, error="a job\nis missing"), run_of("ours", 2, 6451.6)]
    report = report_of(runs)
    assert summary_of(report)[3] == "6,452 (6,452 to 6,452)"
    text = network_markdown(report)
    assert "Manyhands, Faktory [1 failed]" in text
    assert "- 100ms/50/2000, round 1, Manyhands, Faktory: a job is missing" in text


def test_the_guide_shows_nothing_that_the_report_does_not():
    runs = [run_of(name, number, 1000.0 * number) for name in CONTENDERS for number in (1, 2, 3)]
    report = report_of(runs)
    text = network_markdown(report)
    section = network_section(report)
    assert {line for line in section if line.startswith("|")} <= set(text.splitlines())
    assert any("benchmarks/network.md" in line for line in section)
    assert "3 rounds, today." in section


def test_an_interrupted_benchmark_says_so():
    assert "**Interrupted" in network_markdown(report_of([], is_complete=False))
    assert "**Interrupted" not in network_markdown(report_of([]))


@pytest.mark.parametrize("is_run", [True, False])
def test_every_cell_can_be_written_drawn_and_shown(tmp_path, is_run):
    runs = [run_of(name, 1, 4321.0, cell) for cell in NETWORK for name in CONTENDERS]
    report = report_of(runs if is_run else [], NETWORK)
    write_network_report(report, tmp_path)
    text = (tmp_path / "network.md").read_text()
    picture = (tmp_path / "network.svg").read_text()
    assert all(f"## {cell.title}" in text and cell.title in picture for cell in NETWORK)
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    assert picture.count(">4,321<") == len(report.runs)
    assert len(json.loads((tmp_path / "network.json").read_text())["runs"]) == len(report.runs)
    console = Console(width=80, file=StringIO(), record=True)
    print_network_report(console, report)
    shown = console.export_text()
    assert "200 ms round trip, 2,000 slots" in shown
    assert shown.count("4,321") == 3 * len(report.runs)

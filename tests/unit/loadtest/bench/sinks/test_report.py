"""What bench-sinks writes: ratios round by round, verdicts, every cell, and runs that failed."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.sinks.cells import (
    ALL,
    CELLS,
    COST_PLAIN,
    COST_TLS,
    MADE_UP,
    PARALLEL,
    SEQUENTIAL,
    SERVERS,
    WITH,
    WITHOUT,
    BatchCell,
    CostCell,
    SinksCell,
)
from loadtest.bench.sinks.report import (
    BATCH_FIGURES,
    COST_FIGURES,
    CPU,
    END,
    TOOK,
    SinksReport,
    print_sinks_report,
    sinks_markdown,
    sinks_outcome,
    verdict_rows,
    write_sinks_report,
)
from loadtest.lib.runs import SideRun


def run_of(cell: SinksCell, side: str, round_number: int, **values: float) -> SideRun:
    figures = (CPU, END, *COST_FIGURES) if isinstance(cell, CostCell) else (TOOK, *BATCH_FIGURES)
    all_values = {figure.name: 1.0 for figure in figures} | values
    return SideRun(cell.key, side, round_number, None, all_values)


def batches(cell: BatchCell, round_number: int, *times_ms: float) -> list[SideRun]:
    """Of the three sinks alone, all at once, and one after the other."""
    return [
        run_of(cell, side, round_number, ms=ms)
        for side, ms in zip(cell.sides, times_ms, strict=True)
    ]


def report_of(runs: list[SideRun], *, is_complete: bool = True) -> SinksReport:
    return SinksReport(
        "python -m loadtest bench-sinks", "today", {"cores": "2"}, CELLS, runs, is_complete
    )


def verdicts(runs: list[SideRun]) -> list[tuple[str, str]]:
    return [(found, verdict) for _, found, verdict in verdict_rows(report_of(runs))]


def shown(report: SinksReport) -> str:
    console = Console(width=80, file=StringIO(), record=True)
    print_sinks_report(console, report)
    return console.export_text()


@pytest.mark.parametrize(
    ("parallel", "sequential", "expected"),
    [
        (115, 170, [("1.15 (1.15 to 1.15)", "met"), ("1.00 (1.00 to 1.00)", "met")]),
        (116, 204, [("1.16 (1.16 to 1.16)", "missed"), ("1.20 (1.20 to 1.20)", "missed")]),
        # Quicker than the sum: they did not take turns.
        (100, 102, [("1.00 (1.00 to 1.00)", "met"), ("0.60 (0.60 to 0.60)", "missed")]),
    ],
)
@pytest.mark.parametrize("cell", [MADE_UP, SERVERS])
def test_all_at_once_take_as_long_as_the_slowest_and_in_turns_the_sum(
    cell, parallel, sequential, expected
):
    assert verdicts(batches(cell, 1, 20, 50, 100, parallel, sequential)) == expected


def test_rounds_are_compared_with_themselves():
    runs = [
        *batches(MADE_UP, 1, 20, 50, 100, 110, 170),
        *batches(MADE_UP, 2, 20, 200, 100, 200, 320),
        # Without one of the sinks alone there is nothing to compare with.
        *batches(MADE_UP, 3, 1, 1, 1, 99, 99)[1:],
    ]
    assert verdicts(runs) == [("1.05 (1.00 to 1.10)", "met"), ("1.00 (1.00 to 1.00)", "met")]


@pytest.mark.parametrize(("us", "verdict"), [(1250, "met"), (1251, "missed")])
@pytest.mark.parametrize("cell", [COST_PLAIN, COST_TLS])
def test_a_crawl_into_sinks_may_cost_three_tenths_more_with_the_end_of_the_sinks(cell, us, verdict):
    # Of the end, 50 are what it costs more than one without sinks.
    runs = [
        run_of(cell, WITHOUT, 1, us=1000, us_end=70),
        run_of(cell, WITH, 1, us=us, us_end=120),
    ]
    assert verdicts(runs) == [("1.30 (1.30 to 1.30)", verdict)]


def test_what_was_not_run_or_has_nothing_to_compare_with_has_no_verdict():
    assert verdicts([]) == []
    assert verdicts([run_of(COST_PLAIN, WITH, 1), run_of(COST_PLAIN, WITHOUT, 2)]) == []
    assert verdicts([SideRun(MADE_UP.key, ALL, 1, "a record is missing")]) == []


def test_the_page_shows_the_ratios_of_what_has_all_sinks():
    text = sinks_markdown(report_of(batches(MADE_UP, 1, 20, 50, 100, 101, 171)))
    assert "| 100 ms alone | 100.0 (100.0 to 100.0) |  |  |" in text
    assert (
        "| all three at once | 101.0 (101.0 to 101.0) | 1.01 (1.01 to 1.01) | 0.59 (0.59 to 0.59) |"
        in text
    )
    assert "| one after the other | 171.0 (171.0 to 171.0) | 1.71 (1.71 to 1.71) |" in text


def test_the_page_shows_what_each_sink_costs_and_what_of_it_the_end_is():
    runs = [
        run_of(COST_TLS, WITHOUT, 1, us=1000, us_end=70),
        run_of(COST_TLS, "parquet", 1, us=1100, us_end=100),
    ]
    text = sinks_markdown(report_of(runs))
    assert "| no sink | 1,000 (1,000 to 1,000) | 0 (0 to 0) |  |" in text
    assert (
        "| Parquet alone | 1,130 (1,130 to 1,130) | 30 (30 to 30) | 1.13 (1.13 to 1.13) |" in text
    )
    assert "| all three |" not in text


def test_failed_runs_and_an_interruption_are_told():
    runs = [
        SideRun(SERVERS.key, ALL, 2, "s3 of parallel has 1 of 2"),
        SideRun(COST_PLAIN.key, WITH, 3, "not polite"),
    ]
    report = report_of(runs, is_complete=False)
    text = sinks_markdown(report)
    assert "**Interrupted" in text
    assert "- batch/servers, round 2, all sides: s3 of parallel has 1 of 2" in text
    assert "- crawl/plain20, round 3, all three: not polite" in text
    assert "FAILED batch/servers round 2 all sides: s3 of parallel has 1 of 2" in shown(report)


def test_a_run_is_told_in_one_line():
    told = sinks_outcome(batches(MADE_UP, 1, 20, 50, 100, 101.25, 171))
    assert f"{PARALLEL} 101.2 ms per batch, {SEQUENTIAL} 171.0 ms per batch" in told
    assert sinks_outcome([run_of(COST_TLS, WITH, 1, us=1234.4)]) == "with 1,234 CPU µs per page"


@pytest.mark.parametrize("is_run", [True, False])
def test_every_cell_can_be_written_and_shown(tmp_path, is_run):
    runs = [run_of(cell, side, 1) for cell in CELLS for side in cell.sides]
    report = report_of(runs if is_run else [])
    write_sinks_report(report, tmp_path)
    text = (tmp_path / "sinks.md").read_text()
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    picture = (tmp_path / "sinks.svg").read_text()
    assert all(cell.title in picture for cell in CELLS)
    assert len(json.loads((tmp_path / "sinks.json").read_text())["runs"]) == len(report.runs)
    assert ("all three at once" in shown(report)) == is_run

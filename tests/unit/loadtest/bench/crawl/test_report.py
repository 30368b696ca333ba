"""What bench-crawl writes: verdicts from values of one round, every cell, the profiles."""

import json
from io import StringIO

import pytest
from rich.console import Console

from loadtest.bench.crawl.cells import (
    CELLS,
    NATIVE_PROFILE,
    OURS,
    PLAIN,
    POSTGRES,
    POSTGRES_AWAY,
    PYTHON_PROFILE,
    RECORDS,
    SCALING,
    STORES,
    TLS,
    CrawlCell,
    sides_of,
)
from loadtest.bench.crawl.report import (
    COSTS,
    CRAWLED,
    PER_CPU,
    RATE,
    SCALED,
    STEADY,
    CrawlReport,
    crawl_markdown,
    crawl_outcome,
    print_crawl_report,
    verdict_rows,
    write_crawl_report,
)
from loadtest.lib.runs import SideRun

FIGURES = (RATE, STEADY, PER_CPU, *CRAWLED, *SCALED, *COSTS)


def run_of(
    cell: CrawlCell, round_number: int, side: str = OURS, error: str | None = None, **values: float
) -> SideRun:
    all_values = {figure.name: 1.0 for figure in FIGURES} | values
    return SideRun(cell.key, side, round_number, error, {} if error else all_values)


def report_of(runs: list[SideRun], *, is_complete: bool = True) -> CrawlReport:
    cells = (*CELLS, PYTHON_PROFILE, NATIVE_PROFILE)
    return CrawlReport(
        "python -m loadtest bench-crawl", "today", {"cores": "2"}, cells, runs, is_complete
    )


def steady(round_number: int, *rates: float) -> list[SideRun]:
    return [
        run_of(cell, round_number, steady_pages_per_s=rate)
        for cell, rate in zip(SCALING, rates, strict=True)
    ]


def verdicts(runs: list[SideRun]) -> list[tuple[str, str]]:
    return [(found, verdict) for _, found, verdict in verdict_rows(report_of(runs))]


@pytest.mark.parametrize(("ours", "verdict"), [(500, "met"), (499, "missed")])
def test_five_times_scrapy_is_asked_in_pages_per_cpu_second(ours, verdict):
    runs = [
        run_of(PLAIN, 1, OURS, pages_per_cpu_s=ours, pages_per_s=1),
        run_of(PLAIN, 1, "scrapy", pages_per_cpu_s=100, pages_per_s=900),
        run_of(PLAIN, 1, "colly", pages_per_cpu_s=9999),
    ]
    times = f"{ours / 100:.2f}"
    assert verdicts(runs) == [(f"{times} ({times} to {times})", verdict)]


@pytest.mark.parametrize("cell", RECORDS)
@pytest.mark.parametrize(("default", "verdict"), [(150, "met"), (151, "missed")])
def test_a_record_costs_half_as_much_again_as_links_alone(cell, default, verdict):
    runs = [
        run_of(cell, 1, "links", us=100),
        run_of(cell, 1, "default", us=default),
        run_of(cell, 1, "markdown", us=200),
        run_of(cell, 1, "scrapy_text", us=9000),
    ]
    default_verdict, markdown_verdict = verdicts(runs)
    assert default_verdict[1] == verdict
    assert markdown_verdict == ("2.00 (2.00 to 2.00)", "met")
    said = crawl_markdown(report_of(runs))
    assert said.count("| Scrapy with trafilatura | 90.00 (90.00 to 90.00) |") == 1
    assert said.count("## Records, ") == 1


def test_rounds_are_compared_with_themselves():
    runs = [
        run_of(PLAIN, 1, OURS, pages_per_cpu_s=600),
        run_of(PLAIN, 1, "scrapy", pages_per_cpu_s=100),
        run_of(PLAIN, 2, OURS, pages_per_cpu_s=300),
        run_of(PLAIN, 2, "scrapy", pages_per_cpu_s=75),
        # Nothing to compare with in this one.
        run_of(PLAIN, 3, OURS, pages_per_cpu_s=9000),
    ]
    assert verdicts(runs) == [("5.00 (4.00 to 6.00)", "met")]


@pytest.mark.parametrize(("rate", "verdict"), [(180, "met"), (179, "missed")])
def test_with_tls_180_pages_per_cpu_second_are_asked(rate, verdict):
    runs = [run_of(TLS, 1, pages_per_cpu_s=rate)]
    assert verdicts(runs) == [(f"{rate} ({rate} to {rate})", verdict)]


@pytest.mark.parametrize(("rate", "verdict"), [(80, "met"), (79, "missed")])
def test_four_fifths_of_what_files_allow_are_asked_of_postgresql(rate, verdict):
    runs = [
        run_of(STORES, 1, OURS, pages_per_cpu_s=100),
        run_of(STORES, 1, POSTGRES, pages_per_cpu_s=rate),
        run_of(STORES, 1, POSTGRES_AWAY, pages_per_cpu_s=1),
    ]
    of_files = f"{rate / 100:.2f}"
    assert verdicts(runs) == [(f"{of_files} ({of_files} to {of_files})", verdict)]


def test_nine_tenths_of_linear_are_asked_of_two_and_three_processes():
    runs = [*steady(1, 100, 180, 240), *steady(2, 90, 180, 270)]
    assert verdicts(runs) == [("0.95 (0.90 to 1.00)", "met"), ("0.90 (0.80 to 1.00)", "met")]
    assert verdicts(steady(1, 100, 179, 269)) == [
        ("0.90 (0.90 to 0.90)", "missed"),
        ("0.90 (0.90 to 0.90)", "missed"),
    ]


def test_what_was_not_run_or_failed_has_no_verdict():
    assert verdicts([]) == []
    assert verdicts([run_of(TLS, 1, error="not polite")]) == []
    # Without one process there is no linear.
    assert verdicts(steady(1, 100, 200, 300)[1:]) == []


def test_the_page_shows_median_and_range_of_each_crawler():
    runs = [
        run_of(PLAIN, number, side, pages_per_s=number * rate, pages_per_cpu_s=rate)
        for number in (1, 2, 4)
        for side, rate in ((OURS, 500.0), ("scrapy", 50.0))
    ]
    text = crawl_markdown(report_of(runs))
    assert "| Manyhands |  | 1,000 (500 to 2,000) | 500 (500 to 500) |" in text
    assert "| Scrapy | 10.00 (10.00 to 10.00) | 100 (50 to 200) |" in text
    assert "Colly |" not in text


def test_what_a_crawler_does_not_tell_is_left_open():
    run = run_of(PLAIN, 1, "scrapy")
    del run.values["slots_busy"]
    [row] = [line for line in crawl_markdown(report_of([run])).splitlines() if "| Scrapy" in line]
    assert "| - |" in row


def test_failed_runs_and_an_interruption_are_told():
    report = report_of([run_of(PLAIN, 3, "colly", error="a page is missing")], is_complete=False)
    text = crawl_markdown(report)
    assert "**Interrupted" in text
    assert "plain20, round 3, Colly: a page is missing" in text
    console = Console(width=80, file=StringIO(), record=True)
    print_crawl_report(console, report)
    assert "FAILED plain20 round 3 Colly: a page is missing" in console.export_text()


def test_a_run_is_told_in_one_line():
    text = crawl_outcome(run_of(PLAIN, 1, pages_per_s=1234.4, pages_per_cpu_s=567, coverage=0.5))
    assert text.startswith("1,234 pages/s, ")
    assert "567 pages per CPU-second" in text
    assert "50.00 coverage %" in text


def test_a_profile_shows_the_largest_shares_of_each_process():
    shares = {f"crawl: worker/x.py f{number}": number / 1000 for number in range(1, 31)}
    shares |= {"broker: broker/y.py g": 0.5, "parse: worker/pages/html.py extract": 0.25}
    run = SideRun(PYTHON_PROFILE.key, OURS, 1, None, shares)
    text = crawl_markdown(report_of([run]))
    assert "| `broker/y.py g` | 50.0 % |" in text
    assert "| `worker/pages/html.py extract` | 25.0 % |" in text
    assert "f30`" in text and "f16`" in text and "f15`" not in text
    assert crawl_outcome(run) == "crawl: 3 % in worker/x.py f30"


def test_libraries_and_native_functions_have_tables_of_their_own():
    shares = {"crawl: libc": 0.3, "crawl: libc :: malloc": 0.1, "crawl, other threads: libc": 1.0}
    run = SideRun(NATIVE_PROFILE.key, OURS, 1, None, shares)
    text = crawl_markdown(report_of([run]))
    libraries, functions = text.index("| crawl, library"), text.index("| crawl, native function")
    assert libraries < text.index("| `libc` | 30.0 % |") < functions
    assert functions < text.index("| `libc :: malloc` | 10.0 % |")
    assert "| crawl, other threads, library | share |" in text


@pytest.mark.parametrize("is_run", [True, False])
def test_every_cell_can_be_written_and_shown(tmp_path, is_run):
    runs = [run_of(cell, 1, side) for cell in CELLS for side in sides_of(cell, with_peers=True)]
    report = report_of(runs if is_run else [])
    write_crawl_report(report, tmp_path)
    text = (tmp_path / "crawl.md").read_text()
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    picture = (tmp_path / "crawl.svg").read_text()
    assert all(cell.title in picture for cell in CELLS)
    assert len(json.loads((tmp_path / "crawl.json").read_text())["runs"]) == len(report.runs)
    console = Console(width=80, file=StringIO(), record=True)
    print_crawl_report(console, report)
    assert ("scaling/3, Manyhands" in console.export_text()) == is_run

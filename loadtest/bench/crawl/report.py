"""Show the runs of `bench-crawl`: on the terminal, in crawl.json, crawl.md and crawl.svg."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from loadtest.bench.crawl.cells import (
    CONCURRENCY,
    DUPLICATE_SHARE,
    NATIVE_PROFILE,
    OUR_SIDES,
    OURS,
    PARSE_STAGE,
    PLAIN,
    POSTGRES,
    PYTHON_PROFILE,
    RECORDS,
    SCALING,
    SIDES,
    STORES,
    TLS,
    CrawlCell,
)
from loadtest.bench.crawl.profiles import LOOKED_AT, OF_LIBRARY, by_process
from loadtest.bench.crawl.record_report import (
    COST,
    MOST,
    of_links_alone,
    record_lines,
)
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import MIB, Figure
from loadtest.lib.plot import Bar, Group, bars_of, draw
from loadtest.lib.report import SideReport
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.targets import Target, Verdict, verdict_lines, verdicts
from loadtest.lib.terminal import print_failed, print_verdicts, terminal_table

TIMES_SCRAPY = 5.0
LEAST_TLS_PAGES_PER_CPU_S = 180.0
LEAST_OF_LINEAR = 0.9
LEAST_OF_FILES = 0.8
PROFILE_ROWS = 15
NATIVE_ROWS = 8
PROFILE_KINDS = (PYTHON_PROFILE.kind, NATIVE_PROFILE.kind)


RATE = Figure("pages_per_s", "pages/s")
STEADY = Figure("steady_pages_per_s", "pages/s in the steady middle", 1)
PER_CPU = Figure("pages_per_cpu_s", "pages per CPU-second")
CRAWLED = (
    Figure("max_rss_bytes", "memory MiB", per_unit=MIB),
    Figure("at_once", "at once at the origin", 1),
    Figure("slots_busy", "slots in use", 1),
    Figure("hosts_ready", "ready hosts", 1),
    Figure("violations", "violations"),
    Figure("two_of_domain", "two of a domain at a time"),
    Figure("coverage", "coverage %", 2, 0.01),
    Figure("twice", "fetched twice"),
)
SCALED = (
    PER_CPU,
    *CRAWLED,
    Figure("end_s", "s from the last page to the end", 1),
)
COSTS = (
    Figure("us_crawl", "crawl"),
    Figure("us_crawl_threads", "of it its other threads"),
    Figure("us_parse", "parse"),
    Figure("us_broker", "broker"),
    Figure("us_broker_threads", "of it its other threads"),
    Figure("us_supervisor", "supervisor"),
    Figure("us_database", "beside ours: the database"),
)
SHORT_COLUMNS = ("median", "pages/s", "per CPU-s", "ours ÷ it", "MiB", "violations")

HOW = (
    "The synthetic web (`loadtest/go/web`, one process) has hosts with names and addresses of "
    f"their own, a robots.txt each, and pages of whose links {DUPLICATE_SHARE:.0%} lead to a page "
    "that is linked elsewhere, too. Every run has a web of its own, fresh, with the same pages. A "
    "crawler starts from the front pages of all hosts, obeys robots.txt, takes the links out of "
    "every page, follows those within the web, and fetches each page once; no delay, "
    f"{CONCURRENCY} requests at a time, and one at a time of a host. A limit of Colly's counts for "
    "all hosts together, so it has the first alone; how far the others keep to the second is in "
    "the column of violations. The crawlers take turns within a round, in an order that rotates.",
    f"Ours is a broker and a worker service with `{PLAIN.stages}`, state and queues on disk, and "
    "no sink. Its CPU is that of all its processes, broker and supervisor included, also of those "
    "that ended, from the moment that the crawl is created to that at which it has ended; its "
    "memory is the most that each process had, added up. The others are one process each, with "
    "all they know in memory; they tell their CPU themselves, without their start, and are spared "
    "the DNS, which ours asks. Pages per second are counted by the origin for all of them, from "
    "the first request of a page to the end of the last answer. *At once at the origin* is how "
    "many pages it was answering, in the mean. *Slots in use* and *ready hosts* (domains that may "
    "be asked now and wait for a slot) are what our processes say of themselves, in the mean from "
    "10 % to 90 % of the pages.",
    "A run of ours counts only if the origin's ledger has every page of a perfect crawl exactly "
    "once and no other, and no violation of politeness (two requests of a host or a domain at a "
    "time, a page before its host's robots.txt or against it, no contact in the user agent), and "
    "if the crawl counts as many pages as the origin. The others must have fetched the same pages.",
)
SCALING_TEXT = (
    "The origin takes 500 ms for an answer. A web has 400 hosts and 2,500 pages for each process "
    "that crawls, so that each of several has as much to choose from as one alone; one process "
    f"parses (`{PARSE_STAGE}`), and all share the cores with broker and origin. Counted from 10 % "
    "to 90 % of the pages, by the origin. *Of linear* is the rate of so many processes to that of "
    "one, times their number, round by round."
)
COSTS_TEXT = (
    "Of the runs above, from the kernel's count for each process: CPU µs per page. The other "
    "threads of `crawl` are those of the state store, the ones of the broker write its file."
)
PYTHON_TEXT = (
    "One more crawl of plain20 with cProfile in each process, of the thread that runs the event "
    "loop: the time in each function itself, without those that it calls, as a share of the "
    "thread's. cProfile looks at every call, so functions that are called often look larger than "
    "they are."
)
NATIVE_TEXT = (
    "One more crawl of plain20 under `perf` (499 samples a second of the processor time): "
    "libraries first, then native functions. The interpreter is `python` or `libpython`."
)


@dataclass(frozen=True, slots=True)
class CrawlReport(SideReport[CrawlCell]):
    def times(self, cell: CrawlCell, side: str) -> Spread | None:
        """Pages per CPU-second of ours to those of another, round by round."""
        ours, theirs = (self.values(cell, one, PER_CPU.name) for one in (OURS, side))
        return Spread.of_ratios(ours, theirs)

    def of_linear(self, cell: CrawlCell) -> Spread | None:
        """The steady rate to as many times that of one process, round by round."""
        rates = self.values(cell, OURS, STEADY.name)
        one = self.values(SCALING[0], OURS, STEADY.name)
        linear = {number: rate * cell.processes for number, rate in one.items()}
        return Spread.of_ratios(rates, linear)


def _of_files(report: CrawlReport) -> Spread | None:
    """Pages per CPU-second with the state in PostgreSQL to those with files, round by round."""
    theirs, files = (report.values(STORES, one, PER_CPU.name) for one in (POSTGRES, OURS))
    return Spread.of_ratios(theirs, files)


def _of_linear(cell: CrawlCell, report: CrawlReport) -> Spread | None:
    return report.of_linear(cell)


TARGETS: tuple[Target[CrawlReport], ...] = (
    Target(
        f"{PLAIN.title}: at least {TIMES_SCRAPY:g} × Scrapy in pages per CPU-second",
        lambda report: report.times(PLAIN, "scrapy"),
        least=TIMES_SCRAPY,
    ),
    Target(
        f"on PostgreSQL: at least {LEAST_OF_FILES:g} × SQLite in pages per CPU-second of our own",
        _of_files,
        least=LEAST_OF_FILES,
    ),
    Target(
        f"{TLS.title}: at least {LEAST_TLS_PAGES_PER_CPU_S:g} pages per CPU-second",
        lambda report: report.spread(TLS, OURS, PER_CPU.name),
        least=LEAST_TLS_PAGES_PER_CPU_S,
        digits=0,
    ),
    *(
        Target(
            f"{cell.title}: {SIDES[side]}, at most {most:g} × the CPU time of links alone",
            partial(of_links_alone, cell, side),
            most=most,
        )
        for cell in RECORDS
        for side, most in MOST.items()
    ),
    *(
        Target(
            f"{cell.title}, 500 ms origin: at least {LEAST_OF_LINEAR:g} × linear",
            partial(_of_linear, cell),
            least=LEAST_OF_LINEAR,
        )
        for cell in SCALING[1:]
    ),
)


def verdict_rows(report: CrawlReport) -> list[Verdict]:
    return verdicts(report, TARGETS)


def crawl_outcome(run: SideRun) -> str:
    """Say in one line what a run gave."""
    if run.cell in PROFILE_KINDS:
        crawl = by_process(run.values)["crawl"]
        label, share = max(crawl.items(), key=lambda item: item[1])
        return f"crawl: {share * 100:.0f} % in {label}"
    words = [
        f"{run.values[figure.name] / figure.per_unit:,.{figure.digits}f} {figure.title}"
        for figure in (RATE, COST, STEADY, PER_CPU, *CRAWLED)
        if figure.name in run.values
    ]
    return ", ".join(words)


def print_crawl_report(console: Console, report: CrawlReport) -> None:
    table = terminal_table(SHORT_COLUMNS, wraps_first=True)
    for cell in _measured(report):
        if cell.kind == RECORDS[0].kind:
            continue
        for side in _sides(report, cell):
            table.add_row(*_short_row(report, cell, side))
    console.print(table, "")
    for cell in report.cells:
        if cell.kind == RECORDS[0].kind:
            for side in _sides(report, cell):
                times = spread_text(of_links_alone(cell, side, report), 2)
                cost = report.shown(cell, side, COST)
                console.print(
                    f"{cell.key}, {SIDES[side]}: {cost} {COST.title}, {times} x links alone"
                )
    print_verdicts(console, verdict_rows(report))
    print_failed(console, report.errors, lambda run: SIDES[run.side])


def _short_row(report: CrawlReport, cell: CrawlCell, side: str) -> list[str]:
    memory, violations = CRAWLED[0], CRAWLED[4]
    figures = [
        report.shown(cell, side, RATE),
        report.shown(cell, side, PER_CPU),
        "" if side == OURS else spread_text(report.times(cell, side), 2),
        report.shown(cell, side, memory),
        report.shown(cell, side, violations),
    ]
    return [f"{cell.key}, {SIDES[side]}", *(figure.partition(" (")[0] for figure in figures)]


def crawl_markdown(report: CrawlReport) -> str:
    lines = head_lines(report, "The crawl")
    if rows := verdict_rows(report):
        lines += [*verdict_lines(rows), ""]
    lines += ["![the crawl](crawl.svg)", ""]
    for paragraph in HOW:
        lines += [*textwrap.wrap(paragraph, 100), ""]
    lines += machine_lines(report, "crawl")
    for cell in report.cells:
        if cell.kind in (PLAIN.kind, STORES.kind, TLS.kind):
            lines += _comparison_lines(report, cell)
        elif cell.kind == RECORDS[0].kind:
            lines += record_lines(report, cell)
    lines += _scaling_lines(report)
    lines += _cost_lines(report)
    lines += _python_lines(report)
    lines += _native_lines(report)
    return "\n".join([*lines, *failed_lines(report, lambda run: SIDES[run.side])]) + "\n"


def _comparison_lines(report: CrawlReport, cell: CrawlCell) -> list[str]:
    figures = (RATE, PER_CPU, *CRAWLED)
    titles = ("median (min to max)", "ours ÷ it, per CPU", *(figure.title for figure in figures))
    lines = ["", f"## {cell.title[0].upper()}{cell.title[1:]}", ""]
    lines += textwrap.wrap(
        f"{cell.web.hosts:,} hosts, {cell.web.pages:,} pages, {cell.web.latency_ms:g} ms until an "
        "answer begins.",
        100,
    )
    lines += ["", *table_head(titles)]
    for side in _sides(report, cell):
        times = "" if side == OURS else spread_text(report.times(cell, side), 2)
        shown = (report.shown(cell, side, figure) for figure in figures)
        lines.append(table_line([SIDES[side], times, *shown]))
    return lines


def _scaling_lines(report: CrawlReport) -> list[str]:
    cells = [cell for cell in report.cells if cell.kind == SCALING[0].kind]
    if not cells:
        return []
    titles = ("median (min to max)", STEADY.title, "of linear")
    lines = ["", "## One to three processes", "", textwrap.fill(SCALING_TEXT, 100), ""]
    lines += table_head((*titles, *(figure.title for figure in SCALED)))
    for cell in cells:
        rate = report.shown(cell, OURS, STEADY)
        shown = (report.shown(cell, OURS, figure) for figure in SCALED)
        lines.append(table_line([cell.title, rate, spread_text(report.of_linear(cell), 2), *shown]))
    return lines


def _cost_lines(report: CrawlReport) -> list[str]:
    rows = [
        (cell, side)
        for cell in _measured(report)
        for side in OUR_SIDES
        if report.spread(cell, side, PER_CPU.name)
    ]
    if not rows:
        return []
    lines = ["", "## Where the CPU goes: processes", "", textwrap.fill(COSTS_TEXT, 100), ""]
    lines += table_head(("CPU µs per page", *(figure.title for figure in COSTS)))
    for cell, side in rows:
        shown = (report.shown(cell, side, figure) for figure in COSTS)
        title = f"{cell.title}: {SIDES[side]}" if cell.kind == STORES.kind else cell.title
        lines.append(table_line([title, *shown]))
    return lines


def _python_lines(report: CrawlReport) -> list[str]:
    shares = _shares(report, PYTHON_PROFILE)
    if not shares:
        return []
    lines = ["", "## Where the CPU goes: Python functions", "", textwrap.fill(PYTHON_TEXT, 100)]
    for process in LOOKED_AT:
        lines += _share_lines(
            f"{process}, function", largest(shares[process].items(), PROFILE_ROWS)
        )
    return lines


def _native_lines(report: CrawlReport) -> list[str]:
    shares = _shares(report, NATIVE_PROFILE)
    if not shares:
        return []
    lines = ["", "## Where the CPU goes: libraries", "", textwrap.fill(NATIVE_TEXT, 100)]
    for process, of_process in sorted(shares.items()):
        libraries = [item for item in of_process.items() if OF_LIBRARY not in item[0]]
        functions = [item for item in of_process.items() if OF_LIBRARY in item[0]]
        lines += _share_lines(f"{process}, library", largest(libraries, NATIVE_ROWS))
        lines += _share_lines(f"{process}, native function", largest(functions, NATIVE_ROWS))
    return lines


def _share_lines(title: str, rows: Iterable[tuple[str, float]]) -> list[str]:
    lines = ["", *table_head((title, "share"))]
    return lines + [table_line([f"`{label}`", f"{share * 100:.1f} %"]) for label, share in rows]


def largest(shares: Iterable[tuple[str, float]], count: int) -> list[tuple[str, float]]:
    return sorted(shares, key=lambda item: -item[1])[:count]


def _shares(report: CrawlReport, cell: CrawlCell) -> dict[str, dict[str, float]]:
    """By process; empty when there was no such run."""
    runs = [run for run in report.runs if run.cell == cell.key and run.error is None]
    return by_process(runs[0].values) if runs else {}


def _measured(report: CrawlReport) -> list[CrawlCell]:
    """Without the profiles."""
    return [cell for cell in report.cells if cell.kind not in PROFILE_KINDS]


def _sides(report: CrawlReport, cell: CrawlCell) -> list[str]:
    """Those that ran it."""
    ran = {run.side for run in report.runs if run.cell == cell.key}
    return [side for side in SIDES if side in ran]


def write_crawl_report(report: CrawlReport, directory: Path) -> None:
    groups = [
        Group(f"{cell.title}, pages per CPU-second", _bars(report, cell, PER_CPU))
        for cell in _measured(report)
        if cell.kind not in (SCALING[0].kind, RECORDS[0].kind)
    ]
    groups += [
        Group(f"records, {cell.title}, CPU µs per page", _bars(report, cell, COST))
        for cell in report.cells
        if cell.kind == RECORDS[0].kind
    ]
    groups += [
        Group(f"{cell.title}, 500 ms origin, pages/s", _bars(report, cell, STEADY))
        for cell in report.cells
        if cell.kind == SCALING[0].kind
    ]
    picture = draw(groups, "The crawl", is_one_scale=False)
    write_document(report, directory, "crawl", markdown=crawl_markdown(report), picture=picture)


def _bars(report: CrawlReport, cell: CrawlCell, figure: Figure) -> list[Bar]:
    return bars_of(SIDES, lambda side: report.spread(cell, side, figure.name))

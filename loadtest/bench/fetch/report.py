"""Show the runs of `bench-fetch`: on the terminal, in fetch.json, fetch.md and fetch.svg."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtest.bench.fetch.cells import HOSTS, OURS, SIDES, THINK_MS, FetchCell
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.plot import Bar, Group, bars_of, draw
from loadtest.lib.report import SideReport
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed, terminal_table

COLUMNS = ("client", "CPU µs/page", "pages/s", "its CPU ÷ ours", "CPU µs per new host")
# What fits on a terminal of 80 columns: medians.
SHORT_COLUMNS = ("client", "µs/page", "pages/s", "ratio", "µs/host")
HOW = f"""\
One process on one core fetches from {HOSTS} hosts, each over one connection and one page at a time,
as a polite crawl does; the origin, a Go program, has the other core, waits {THINK_MS} ms and
answers. Every client connects to an address that it is given and asks nobody for the name; every
page is checked for its path and its length, and a run with a wrong one does not count. The clients
take turns within each round, in an order that rotates. CPU is that of the client's process with all
its threads. *New connections* are made by the origin's `Connection: close`.

Our fetcher does what a crawl needs besides: the check before connect and before send, limits on
headers and on bytes before and after decompression, a time-out for each stage, and phases. The
others have none of that here. pyreqwest takes the address of a name only when a client is made, so
it needs a client for each host, which costs what the last column says and keeps memory; httpx has
one small pool per host, because it looks through a whole pool for every request.
"""


@dataclass(frozen=True, slots=True)
class FetchReport(SideReport[FetchCell]):
    def ratio(self, cell: FetchCell, side: str) -> Spread | None:
        """CPU per page of a client to that of ours, round by round."""
        theirs = self.values(cell, side, "cpu_us")
        return Spread.of_ratios(theirs, self.values(cell, OURS, "cpu_us"))


def outcome(run: SideRun) -> str:
    return f"{run.values['cpu_us']:,.0f} µs/page, {run.values['pages_per_s']:,.0f} pages/s"


def print_fetch_report(console: Console, report: FetchReport) -> None:
    for cell in report.cells:
        table = terminal_table(SHORT_COLUMNS, title=cell.title)
        for row in _rows(report, cell):
            title, *figures = row
            table.add_row(title, *(figure.partition(" (")[0] for figure in figures))
        console.print(table, "")
    print_failed(console, report.errors, lambda run: run.side)


def markdown(report: FetchReport) -> str:
    lines = head_lines(report, "Fetching a page: what a hop costs")
    lines += ["![CPU per page](fetch.svg)", "", HOW, *machine_lines(report, "fetch")]
    for cell in report.cells:
        lines += ["", f"## {cell.title}", "", *table_head(COLUMNS)]
        lines += [table_line(row) for row in _rows(report, cell)]
    return "\n".join([*lines, *failed_lines(report, lambda run: SIDES[run.side])]) + "\n"


def write_fetch_report(report: FetchReport, directory: Path) -> None:
    groups = [Group(cell.title, _bars(report, cell)) for cell in report.cells]
    picture = draw(groups, "CPU µs per page (less is better)")
    write_document(report, directory, "fetch", markdown=markdown(report), picture=picture)


def _bars(report: FetchReport, cell: FetchCell) -> list[Bar]:
    return bars_of(SIDES, lambda side: report.spread(cell, side, "cpu_us"))


def _rows(report: FetchReport, cell: FetchCell) -> list[list[str]]:
    return [
        [
            title,
            spread_text(report.spread(cell, side, "cpu_us")),
            spread_text(report.spread(cell, side, "pages_per_s")),
            "" if side == OURS else spread_text(report.ratio(cell, side), 2),
            spread_text(report.spread(cell, side, "host_cpu_us")),
        ]
        for side, title in SIDES.items()
        if report.spread(cell, side, "cpu_us")
    ]

"""Show the runs of `bench-hosts`: on the terminal, in hosts.json, hosts.md and hosts.svg."""

import textwrap
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from loadtest.bench.crawl.cells import OURS
from loadtest.bench.hosts.cells import (
    ANSWER_MS,
    BESIDE_NONE,
    CRAWL,
    DISTANCE_MS,
    IMPOLITE,
    JOBS,
    MANNERS_ANSWER_MS,
    PAGES,
    PARSE_STAGE,
    POLITE,
    SCALING,
    SIDES,
    SITES,
    SLOTS,
    HostsCell,
)
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import Figure
from loadtest.lib.plot import Bar, Group, bars_of, draw
from loadtest.lib.report import SideReport
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.targets import Target, Verdict, verdict_lines, verdicts
from loadtest.lib.terminal import print_failed, print_verdicts, terminal_table

LEAST_OF_LINEAR = 0.9
LEAST_OF_IMPOLITE = 0.7
TITLES = {CRAWL: "One crawl", JOBS: "One load of fetch jobs"}

STEADY = Figure("steady_pages_per_s", "pages/s in the steady middle", 1)
RATE = Figure("pages_per_s", "pages/s in all", 1)
VIOLATIONS = Figure("violations", "violations")
MANNERED = (
    VIOLATIONS,
    Figure("two_of_domain", "two of a domain at a time"),
    Figure("coverage", "coverage %", 2, 0.01),
    Figure("twice", "fetched twice"),
)
SCALED = (
    RATE,
    Figure("at_once", "at once at the origin", 1),
    Figure("cores_busy", "cores busy", 2),
    *MANNERED,
)
JOBS_RATE = Figure("jobs_per_s", "jobs/s")
BESIDE = (
    STEADY,
    Figure("at_once", "at once at the origin", 1),
    *(Figure(f"us_{role}", f"CPU µs/job, {role}") for role in ("fetch", "parse", "broker")),
    *MANNERED,
)
SHORT_COLUMNS = ("median", "pages/s", "of linear", "violations")

HOW = (
    "Each worker host is a network namespace with an address of its own; a switch joins it to the "
    "host that has the synthetic web, our broker and a PostgreSQL with the crawls' state. Broker "
    f"and database are {DISTANCE_MS:g} ms away (relays; there and back), the web is not. The "
    f"origin takes {ANSWER_MS:g} ms for an answer, so that slots are the limit: each host has one "
    f"worker service with `crawl:1x{SLOTS} {PARSE_STAGE}`, or `fetch` in place of `crawl`, and "
    f"{SLOTS} slots fetch {SLOTS * 1000 / ANSWER_MS:.0f} pages/s at most. All hosts share two "
    "cores with the rest, which carry three of them; *cores busy* says how far.",
    f"A web has {SITES} sites and {PAGES:,} pages of 20 KB for each worker host, so that each of "
    "several has as much to choose from as one alone. Either one crawl starts from all front "
    "pages, or all pages come as `fetch` jobs. No delay; one page at a time of a domain. The rate "
    "is counted by the origin from 10 % to 90 % of the pages. *Of linear* is the rate of so many "
    "hosts to that of one, times their number, round by round. A run counts only if the origin's "
    "ledger has every page exactly once and no other, no violation of politeness (the columns), "
    "and if the store counts as many pages.",
)
BESIDE_TEXT = (
    f"{BESIDE_NONE.web.pages:,} `fetch` jobs over {BESIDE_NONE.web.hosts:,} sites, one job for "
    f"each page, in the broker before the worker starts; answers after {MANNERS_ANSWER_MS:g} ms, "
    f"no delay. One worker service with `{BESIDE_NONE.stages}` on this machine, records as JSON "
    "lines: polite with its store in SQLite files, and with `FETCH_POLITE=false`. The rate counts "
    "from the first page to the last record. A run counts only if the origin gave every page "
    "exactly once and each job has left one record; how polite it was is in the columns."
)


@dataclass(frozen=True, slots=True)
class HostsReport(SideReport[HostsCell]):
    def of_linear(self, cell: HostsCell) -> Spread | None:
        """The steady rate to as many times that of one host, round by round."""
        rates = self.values(cell, OURS, STEADY.name)
        one = self.values(SCALING[cell.kind][0], OURS, STEADY.name)
        linear = {number: rate * cell.hosts for number, rate in one.items()}
        return Spread.of_ratios(rates, linear)

    def of_impolite(self) -> Spread | None:
        """The rate of polite jobs to that of the others, round by round."""
        polite, impolite = (
            self.values(BESIDE_NONE, side, JOBS_RATE.name) for side in (POLITE, IMPOLITE)
        )
        return Spread.of_ratios(polite, impolite)


def _of_linear(cell: HostsCell, report: HostsReport) -> Spread | None:
    return report.of_linear(cell)


TARGETS: tuple[Target[HostsReport], ...] = (
    *(
        Target(
            f"{TITLES[kind].lower()}, {cell.title}: at least {LEAST_OF_LINEAR:g} × linear",
            partial(_of_linear, cell),
            least=LEAST_OF_LINEAR,
        )
        for kind, cells in SCALING.items()
        for cell in cells[1:]
    ),
    Target(
        f"polite fetch jobs: at least {LEAST_OF_IMPOLITE:g} × the rate of FETCH_POLITE=false",
        HostsReport.of_impolite,
        least=LEAST_OF_IMPOLITE,
    ),
)


def verdict_rows(report: HostsReport) -> list[Verdict]:
    return verdicts(report, TARGETS)


def hosts_outcome(run: SideRun) -> str:
    """Say in one line what a run gave."""
    figures = {figure.name: figure for figure in (JOBS_RATE, STEADY, *SCALED)}
    return ", ".join(
        f"{run.values[name] / figure.per_unit:,.{figure.digits}f} {figure.title}"
        for name, figure in figures.items()
        if name in run.values
    )


def print_hosts_report(console: Console, report: HostsReport) -> None:
    table = terminal_table(SHORT_COLUMNS, wraps_first=True)
    for cell in report.cells:
        for side in cell.sides:
            table.add_row(*_short_row(report, cell, side))
    console.print(table, "")
    print_verdicts(console, verdict_rows(report))
    print_failed(console, report.errors, lambda run: SIDES[run.side])


def _short_row(report: HostsReport, cell: HostsCell, side: str) -> list[str]:
    rate = STEADY if cell.kind in SCALING else JOBS_RATE
    figures = [
        report.shown(cell, side, rate),
        spread_text(report.of_linear(cell), 2) if cell.kind in SCALING else "",
        report.shown(cell, side, VIOLATIONS),
    ]
    return [f"{cell.key}, {SIDES[side]}", *(figure.partition(" (")[0] for figure in figures)]


def hosts_markdown(report: HostsReport) -> str:
    lines = head_lines(report, "Worker hosts, and fetch jobs on them")
    if rows := verdict_rows(report):
        lines += [*verdict_lines(rows), ""]
    lines += ["![worker hosts](hosts.svg)", ""]
    for paragraph in HOW:
        lines += [*textwrap.wrap(paragraph, 100), ""]
    lines += machine_lines(report, "hosts")
    for kind in SCALING:
        lines += _scaling_lines(report, kind)
    lines += _beside_lines(report)
    return "\n".join([*lines, *failed_lines(report, lambda run: SIDES[run.side])]) + "\n"


def _scaling_lines(report: HostsReport, kind: str) -> list[str]:
    cells = [cell for cell in report.cells if cell.kind == kind]
    if not cells:
        return []
    titles = ("median (min to max)", STEADY.title, "of linear")
    lines = ["", f"## {TITLES[kind]}", ""]
    lines += table_head((*titles, *(figure.title for figure in SCALED)))
    for cell in cells:
        rate = report.shown(cell, OURS, STEADY)
        shown = (report.shown(cell, OURS, figure) for figure in SCALED)
        lines.append(table_line([cell.title, rate, spread_text(report.of_linear(cell), 2), *shown]))
    return lines


def _beside_lines(report: HostsReport) -> list[str]:
    cells = [cell for cell in report.cells if cell.kind == BESIDE_NONE.kind]
    if not cells:
        return []
    titles = ("median (min to max)", JOBS_RATE.title, "of FETCH_POLITE=false")
    lines = ["", "## Polite fetch jobs, and others", "", textwrap.fill(BESIDE_TEXT, 100), ""]
    lines += table_head((*titles, *(figure.title for figure in BESIDE)))
    for cell in cells:
        for side in cell.sides:
            ratio = spread_text(report.of_impolite(), 2) if side == POLITE else ""
            rate = report.shown(cell, side, JOBS_RATE)
            shown = (report.shown(cell, side, figure) for figure in BESIDE)
            lines.append(table_line([SIDES[side], rate, ratio, *shown]))
    return lines


def write_hosts_report(report: HostsReport, directory: Path) -> None:
    groups = [Group(_group_title(cell), _bars(report, cell)) for cell in report.cells]
    picture = draw(groups, "Worker hosts, pages/s", is_one_scale=False)
    write_document(report, directory, "hosts", markdown=hosts_markdown(report), picture=picture)


def _group_title(cell: HostsCell) -> str:
    return f"{TITLES[cell.kind]}, {cell.title}" if cell.kind in SCALING else cell.title


def _bars(report: HostsReport, cell: HostsCell) -> list[Bar]:
    rate = STEADY if cell.kind in SCALING else JOBS_RATE
    titles = {side: SIDES[side] for side in cell.sides}
    return bars_of(titles, lambda side: report.spread(cell, side, rate.name))

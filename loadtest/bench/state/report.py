"""Show the runs of `bench-state`: on the terminal, in state.json, state.md and state.svg."""

import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.bench.state.cells import (
    KINDS,
    LAYOUTS,
    MANY_WRITERS,
    POSTGRES,
    WRITE_S,
    kind_of,
    seen_cell,
    title_of,
)
from loadtest.bench.state.measure import BATCH, HOSTS, SETTLED_AT_ONCE, SHARDS, SMALL_BATCH
from loadtest.bench.state.urls import KNOWN_SHARE, SAME_HOST_SHARE
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import MIB, Figure
from loadtest.lib.plot import Bar, Group, draw
from loadtest.lib.report import Report
from loadtest.lib.stats import Spread
from loadtest.lib.tables import table_head, table_line
from loadtest.lib.targets import Target, verdict_lines, verdicts
from loadtest.lib.terminal import print_verdicts

LEAST_LINKS_PER_S = 45_000
MANY, FEW = 20_000_000, 1_000_000
LEAST_OF_FEWER = 0.5
RATE = Figure("links_per_s", "links/s")
FIGURES = {
    "writers": (
        RATE,
        Figure("client_us", "CPU µs per link", 1),
        Figure("server_us", "CPU µs of the server per link", 1),
        Figure("slowest_links_per_s", "links/s of the slowest process"),
        Figure("wait_p50_ms", "wait p50 ms", 2),
        Figure("wait_p99_ms", "wait p99 ms", 2),
        Figure("wait_max_ms", "longest wait ms"),
    ),
    "costs": (
        Figure("admit_us", f"admit, {BATCH} at once", 1),
        Figure("admit_small_us", f"admit, {SMALL_BATCH} at once", 1),
        Figure("claim_us", "claim", 1),
        Figure("settle_us", "settle", 1),
        Figure("parsed_us", "parsed", 1),
        Figure("takeover_ms", "takeover, ms in all", 1),
        Figure("url_bytes", "bytes on disk per URL"),
    ),
    "seen": (
        RATE,
        Figure("admit_us", "CPU µs per link", 1),
        Figure("batch_p99_ms", "transaction p99 ms", 1),
        Figure("duplicates_share", "known", 2),
        Figure("key_bytes", "bytes on disk per key", 1),
        Figure("rss_bytes", "memory of all files MiB", per_unit=MIB),
        Figure("preload_s", "s to preload"),
    ),
}
SECTIONS = {
    "writers": (
        "How many processes write",
        f"Processes admit batches of {BATCH} links without a pause, for {WRITE_S:g} seconds: all "
        "to one shard, or each to one of its own. *Wait* is the time until a transaction begins; "
        "with PostgreSQL that is a round trip. The server runs on the same processors as the "
        "writers. SQLite lets one write to a file at a time; who waits looks again after up to "
        "100 ms, so that the wait is long although the file is free, and one process may be served "
        "much more often than another.",
    ),
    "costs": (
        "What a URL costs",
        f"One process, one shard of {HOSTS} hosts; µs of CPU time per URL. Claims are 8 of a host "
        f"for 50 hosts in a transaction; {SETTLED_AT_ONCE} URLs are settled, or parsed, in one. "
        "The takeover is that of the same shard by a new owner.",
    ),
    "seen": (
        "Many seen URLs",
        f"{SHARDS} shards, all open in one process. Their tables of seen keys are filled "
        "beforehand, in the order of the keys; then batches of links come for one shard after the "
        "other. Memory is by how much the process has grown; the files themselves are in the "
        "system's cache as far as it has room.",
    ),
}
HOW = textwrap.fill(
    f"Of the links, {KNOWN_SHARE:.0%} are known to the crawl; {SAME_HOST_SHARE:.0%} of the others "
    f"lead to one host of the {HOSTS} of a shard, the rest to any of them. A batch is one "
    "transaction: seen, frontier, hosts and counters.",
    100,
)


@dataclass(frozen=True, slots=True)
class StateRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateReport(Report[str, StateRun]):
    def of_kind(self, kind: str) -> list[str]:
        return list(dict.fromkeys(run.cell for run in self.runs if kind_of(run.cell) == kind))

    def spread(self, cell: str, figure: Figure) -> Spread | None:
        return Spread.of(
            run.values[figure.name] for run in self.runs if run.cell == cell and run.error is None
        )

    def of_fewer(self, many: int, few: int) -> Spread | None:
        """Links/s in PostgreSQL among many known ones to those among few, round by round."""
        among_many, among_few = (
            {
                run.round: run.values[RATE.name]
                for run in self.runs
                if run.cell == seen_cell(POSTGRES, seen) and run.error is None
            }
            for seen in (many, few)
        )
        return Spread.of_ratios(among_many, among_few)


TARGETS: tuple[Target[StateReport], ...] = (
    Target(
        f"{title_of(MANY_WRITERS)}: at least {LEAST_LINKS_PER_S:,} links/s",
        lambda report: report.spread(MANY_WRITERS, RATE),
        least=LEAST_LINKS_PER_S,
        digits=0,
    ),
    Target(
        f"PostgreSQL: among {MANY:,} seen URLs at least {LEAST_OF_FEWER:g} × of the links/s among"
        f" {FEW:,}",
        lambda report: report.of_fewer(MANY, FEW),
        least=LEAST_OF_FEWER,
    ),
)


def outcome(run: StateRun) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in run.values.items())


def print_state_report(console: Console, report: StateReport) -> None:
    for kind, figures in FIGURES.items():
        if not report.of_kind(kind):
            continue
        table = Table(box=None, pad_edge=False)
        for index, column in enumerate(("median", *(figure.title for figure in figures))):
            table.add_column(column, justify="right" if index else "left")
        for cell in report.of_kind(kind):
            medians = (figure.median(report.spread(cell, figure)) for figure in figures)
            table.add_row(title_of(cell), *medians)
        console.print(table, "")
    print_verdicts(console, verdicts(report, TARGETS))


def state_markdown(report: StateReport) -> str:
    lines = head_lines(report, "The state store of the crawls")
    if rows := verdicts(report, TARGETS):
        lines += [*verdict_lines(rows), ""]
    lines += ["![the state store](state.svg)", "", HOW, "", *machine_lines(report, "state")]
    for kind, (title, text) in SECTIONS.items():
        if report.of_kind(kind):
            lines += ["", f"## {title}", "", textwrap.fill(text, 100), "", *_table(report, kind)]
    lines += failed_lines(report, lambda run: title_of(run.cell))
    return "\n".join(lines) + "\n"


def write_state_report(report: StateReport, directory: Path) -> None:
    picture = draw(_groups(report), "The state store of the crawls", is_one_scale=False)
    write_document(report, directory, "state", markdown=state_markdown(report), picture=picture)


def _table(report: StateReport, kind: str) -> list[str]:
    figures = FIGURES[kind]
    lines = table_head(("median (min to max)", *(figure.title for figure in figures)))
    for cell in report.of_kind(kind):
        values = [figure.shown(report.spread(cell, figure)) for figure in figures]
        lines.append(table_line([title_of(cell), *values]))
    return lines


def _groups(report: StateReport) -> list[Group]:
    colours = {"sqlite": "broker", "postgres": "faktory"}
    groups = []
    for figure in (FIGURES["writers"][0], FIGURES["writers"][5]):
        bars = []
        for cell in report.of_kind("writers"):
            found = report.spread(cell, figure)
            _, store, number, layout = cell.split("/")
            if found:
                label = f"{KINDS[store]}, {number}, {LAYOUTS[layout]}"
                bars.append(
                    Bar(colours[store], label, found.median, found.low, found.high, figure.digits)
                )
        groups.append(Group(f"processes that write, {figure.title}", bars))
    return groups

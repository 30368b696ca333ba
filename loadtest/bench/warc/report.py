"""Show the runs of `bench-warc`: on the terminal, in warc.json, warc.md and warc.svg."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtest.bench.warc.cells import EXPORT, OURS, PEERS, SIDES, TARGETS, TITLES
from loadtest.bench.warc.files import LARGEST_PAGE, SMALLEST_PAGE, Made
from loadtest.bench.warc.measure import WarcRun
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.plot import Bar, Group, bars_of, draw
from loadtest.lib.report import Report
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed, terminal_table

COLUMNS = ("by", "MB/s of pages", "pages/s", "CPU µs/page", "peak MiB", "× the peer's rate")
# What fits on a terminal of 80 columns: medians.
SHORT_COLUMNS = ("by", "MB/s", "pages/s", "µs/page", "MiB", "ratio")
MEMORY_COLUMNS = ("file", "pages", "decode: peak MiB", "export: peak MiB", "row groups")
HOW = f"""\
The file is made up: pages of {SMALLEST_PAGE // 1000} to {LARGEST_PAGE // 1000} KB of HTML, each
with its request, each record compressed by itself (gzip). Each run is a process of its own, and its
imports do not count; the sides take turns within each round, in an order that rotates. Every run is
checked: the number of pages and of the bytes of their bodies, and of an export the whole table,
read back.

*The bare FastWARC loop* reads every record (`for record in ArchiveIterator(file, parse_http=True):
record.reader.read()`) and keeps none. Ours reads every member by itself, so that a damaged one
costs no other, checks the checksum of each before its record is given out, knows where each begins
and ends, and hands the records on. *Digests checked* reckons the SHA-1 of every record besides,
which the bare loop does not. *The plain way* is warcio's `ArchiveIterator`, a list of dicts,
`Table.from_pylist` and `write_table` with zstd, with the same columns: it holds the whole file in
memory, so a page takes it longer in a longer file, and one row group is as long as the file.
Archives of Common Crawl have about 1 GB; what `--size-mb 200` gives is in
[warc-200-mb.md](warc-200-mb.md).
"""


@dataclass(frozen=True, slots=True)
class WarcReport(Report[Made, WarcRun]):
    """Its cells are the files."""

    def values(self, work: str, side: str, name: str) -> dict[int, float]:
        """By round."""
        return {
            run.round: run.values[name]
            for run in self.runs
            if (run.cell, run.side) == (work, side) and not run.error and not run.is_for_memory
        }

    def spread(self, work: str, side: str, name: str) -> Spread | None:
        return Spread.of(self.values(work, side, name).values())

    def ratio(self, work: str, side: str) -> Spread | None:
        """The rate of one side to that of the peer, round by round."""
        peer = self.values(work, PEERS[work], "mb_per_s")
        return Spread.of_ratios(self.values(work, side, "mb_per_s"), peer)

    def memory(self) -> dict[int, dict[str, WarcRun]]:
        """By the size of the file and by the work."""
        found: dict[int, dict[str, WarcRun]] = {}
        for run in self.runs:
            if run.is_for_memory and not run.error:
                found.setdefault(run.size_mb, {})[run.cell] = run
        return found


def outcome(run: WarcRun) -> str:
    return f"{run.values['mb_per_s']:,.0f} MB/s, {run.values['peak_mb']:,.0f} MiB"


def verdicts(report: WarcReport) -> list[str]:
    """One line for each target: what was reached, and whether that is enough."""
    lines = []
    for work, target in TARGETS.items():
        ratio = report.ratio(work, OURS)
        if ratio is not None:
            word = "reached" if ratio.median >= target else "MISSED"
            peer = SIDES[work][PEERS[work]]
            lines.append(f"{work}: {ratio.median:.2f} x {peer}, {target:g} is the aim: {word}")
    return lines


def print_warc_report(console: Console, report: WarcReport) -> None:
    for work in SIDES:
        table = terminal_table(SHORT_COLUMNS, title=TITLES[work])
        for title, *figures in _rows(report, work):
            table.add_row(title, *(figure.partition(" (")[0] for figure in figures))
        console.print(table, "")
    for size, runs in report.memory().items():
        shown = ", ".join(f"{work} {run.values['peak_mb']:,.0f} MiB" for work, run in runs.items())
        console.print(f"peak memory with {size} MB: {shown}")
    for line in verdicts(report):
        console.print(line)
    print_failed(console, report.errors, lambda run: run.side)


def markdown(report: WarcReport) -> str:
    lines = head_lines(report, "WARC in, Parquet out")
    lines += ["![Rates](warc.svg)", "", HOW, *machine_lines(report, "warc")]
    for made in report.cells[:1]:
        ratio = made.payload_bytes / made.size
        lines += ["", f"The bodies are {ratio:.1f} times as long as the compressed file.", ""]
    for work in SIDES:
        lines += ["", f"## {TITLES[work]}", "", *table_head(COLUMNS)]
        lines += [table_line(row) for row in _rows(report, work)]
    lines += ["", *(f"- {line}" for line in verdicts(report))]
    if report.memory():
        lines += ["", "## Memory by the length of the file", "", *table_head(MEMORY_COLUMNS)]
        lines += [table_line(row) for row in _memory_rows(report)]
    return "\n".join([*lines, *failed_lines(report, _who)]) + "\n"


def write_warc_report(report: WarcReport, directory: Path) -> None:
    groups = [Group(TITLES[work], _bars(report, work)) for work in SIDES]
    picture = draw(groups, "MB of pages per second (more is better)", is_one_scale=False)
    write_document(report, directory, "warc", markdown=markdown(report), picture=picture)


def _bars(report: WarcReport, work: str) -> list[Bar]:
    return bars_of(SIDES[work], lambda side: report.spread(work, side, "mb_per_s"))


def _rows(report: WarcReport, work: str) -> list[list[str]]:
    return [
        [
            title,
            spread_text(report.spread(work, side, "mb_per_s")),
            spread_text(report.spread(work, side, "pages_per_s")),
            spread_text(report.spread(work, side, "cpu_us")),
            spread_text(report.spread(work, side, "peak_mb")),
            "" if side == PEERS[work] else spread_text(report.ratio(work, side), 2),
        ]
        for side, title in SIDES[work].items()
        if report.spread(work, side, "mb_per_s")
    ]


def _memory_rows(report: WarcReport) -> list[list[str]]:
    rows = []
    for size, runs in report.memory().items():
        some = next(iter(runs.values())).values
        peaks = [f"{runs[work].values['peak_mb']:,.0f}" if work in runs else "-" for work in SIDES]
        groups = runs[EXPORT].values["row_groups"] if EXPORT in runs else 0
        rows.append([f"{size:,} MB", f"{some['pages']:,.0f}", *peaks, f"{groups:,.0f}"])
    return rows


def _who(run: WarcRun) -> str:
    return SIDES[run.cell][run.side]

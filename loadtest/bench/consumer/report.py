"""Show the runs: a table on the terminal, consumer.json with all of them, consumer.md to read."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtest.bench.consumer.summary import Row, paired_ratio, rows
from loadtest.lab.cells import Cell
from loadtest.lab.measure import Run
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import KIB, MIB
from loadtest.lib.plot import Bar, Group, draw
from loadtest.lib.report import Report
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed, terminal_table

TITLES = {
    "ours": "Manyhands",
    "rust": "faktory (Rust)",
    "go": "faktory_worker_go",
    "pypi": "faktory (PyPI)",
}
RIVALS = {"rust", "go"}
COLUMNS = (
    "consumer",
    "jobs/s (min to max)",
    "ours ÷ it (min to max)",
    "slots",
    "sockets",
    "most jobs in hand",
    "consumer CPU µs/job",
    "server CPU µs/job",
    "relay CPU µs/job",
    "memory idle",
    "memory per slot",
)
# What fits on a terminal of 80 columns.
SHORT_COLUMNS = ("consumer", "jobs/s", "min", "max", "ratio", "slots", "sockets", "µs/job", "KiB")

HOW = """\
Every consumer drains the same kind of jobs from a real Faktory, fresh for each run (one that has
served a thousand connections keeps as many to its Redis), through the same kind of relay, which
adds the round trip (at 0 ms too, so its cost counts for all). The consumer connects and waits for
work; then all jobs become visible in one step, so that pushing is not measured. The rate counts
from the moment when the server has 10 % of the jobs done until it has 90 % done or its queue is
empty: from then on no FETCH competes with the ACKs. Within a round the consumers take turns, in an
order that rotates; a ratio compares two runs of one round, and the median of these ratios is shown
with the smallest and the largest. A run counts only if the server has every job done exactly once:
as many processed as pushed, none failed, none left anywhere.

*Memory per slot* is the most memory during the run less that before the first job, divided by the
slots. *Most jobs in hand* is the largest number of reserved jobs that the server saw. Server CPU
is that of Faktory and its Redis. The server accepts 2,000 connections; a consumer with one socket
per slot therefore runs with 1,900 slots where the cell has more.
"""


@dataclass(frozen=True, slots=True)
class DrainReport(Report[Cell, Run]):
    """Of a benchmark in which consumers drain; `bench-network` has it, too."""


def _cells_of(row: Row, runs: list[Run]) -> list[str]:
    ratio = None if row.consumer == "ours" else paired_ratio(runs, row.cell, {row.consumer})
    name = TITLES[row.consumer] + (f" [{row.errors} failed]" if row.errors else "")
    return [
        name,
        spread_text(row.rate),
        spread_text(ratio, 2),
        f"{row.slots:,}",
        *cost_texts(row),
    ]


def cost_texts(row: Row) -> list[str]:
    """From the sockets to the memory per slot."""
    return [
        f"{row.sockets:,.0f}",
        f"{row.busy_peak:,.0f}",
        f"{row.cpu_us:,.0f}",
        f"{row.server_cpu_us:,.0f}",
        f"{row.relay_cpu_us:,.0f}",
        f"{row.rss_idle_bytes / MIB:,.0f} MiB",
        f"{row.bytes_per_slot / KIB:,.1f} KiB",
    ]


def _short_cells_of(row: Row, runs: list[Run]) -> list[str]:
    ratio = paired_ratio(runs, row.cell, {row.consumer})
    rate = row.rate
    return [
        TITLES[row.consumer],
        f"{rate.median:,.0f}" if rate else "-",
        f"{rate.low:,.0f}" if rate else "-",
        f"{rate.high:,.0f}" if rate else "-",
        f"{ratio.median:.2f}" if ratio else "-",
        f"{row.slots:,}",
        f"{row.sockets:,.0f}",
        f"{row.cpu_us:,.0f}",
        f"{row.bytes_per_slot / 1024:,.1f}",
    ]


def _in_order(report: DrainReport, cell: Cell) -> list[Row]:
    order = list(TITLES)
    found = [row for row in rows(report.runs) if row.cell == cell.key]
    return sorted(found, key=lambda row: order.index(row.consumer))


def print_report(console: Console, report: DrainReport) -> None:
    for cell in report.cells:
        best = spread_text(paired_ratio(report.runs, cell.key, RIVALS), 2)
        caption = f"Manyhands ÷ the better of Rust and Go: {best}"
        table = terminal_table(SHORT_COLUMNS, title=cell.title, caption=caption)
        for row in _in_order(report, cell):
            table.add_row(*_short_cells_of(row, report.runs))
        console.print(table, "")
    print_failed(console, report.errors, lambda run: run.consumer)


def markdown(report: DrainReport) -> str:
    lines = head_lines(report, "Four consumers, one Faktory")
    lines += ["![jobs per second](consumer.svg)", "", *_summary(report), "", HOW]
    lines += machine_lines(report, "consumer")
    for cell in report.cells:
        lines += ["", f"## {cell.title}", "", *table_head(COLUMNS)]
        lines += [table_line(_cells_of(row, report.runs)) for row in _in_order(report, cell)]
    return "\n".join([*lines, *failed_lines(report, lambda run: TITLES[run.consumer])]) + "\n"


def source_lines(report: DrainReport, name: str) -> list[str]:
    """Return where the tables of the guide come from."""
    machine = report.machine
    rounds = max((run.round for run in report.runs), default=0)
    return [
        f"From [docs/benchmarks/{name}.md](benchmarks/{name}.md): {machine['cores']} cores "
        f"({machine['cpu']}), Faktory {machine['Faktory']},",
        f"{rounds} rounds, {report.date}.",
    ]


def consumer_section(report: DrainReport) -> list[str]:
    """Return what the guide shows of this benchmark."""
    return [*_summary(report), "", *source_lines(report, "consumer")]


def _summary(report: DrainReport) -> list[str]:
    lines = table_head(
        ("jobs/s, median", *TITLES.values(), "Manyhands ÷ better of Rust, Go", "rounds")
    )
    for cell in report.cells:
        found = {row.consumer: row for row in _in_order(report, cell)}
        words = [cell.title]
        for name in TITLES:
            row = found.get(name)
            capped = f" at {row.slots:,}" if row and row.slots < cell.slots else ""
            words.append(f"{row.rate.median:,.0f}{capped}" if row and row.rate else "-")
        words.append(spread_text(paired_ratio(report.runs, cell.key, RIVALS), 2))
        words.append(str(max((row.runs for row in found.values()), default=0)))
        lines.append(table_line(words))
    return lines


def _groups(report: DrainReport) -> list[Group]:
    groups = []
    for cell in report.cells:
        bars = [
            Bar(row.consumer, TITLES[row.consumer], row.rate.median, row.rate.low, row.rate.high)
            for row in _in_order(report, cell)
            if row.rate
        ]
        groups.append(Group(cell.title, bars))
    return groups


def write_report(report: DrainReport, directory: Path) -> None:
    picture = draw(_groups(report), "Jobs per second, one Faktory")
    write_document(report, directory, "consumer", markdown=markdown(report), picture=picture)

"""Show what `--against` found: on the terminal, and in NAME-against.json and NAME-against.md."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.against.turns import NEW, OLD, AgainstReport
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import Figure
from loadtest.lib.stats import Spread
from loadtest.lib.tables import median_text, spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed

# A new revision may cost so much: less than what differs between two runs of the same.
LEAST = 0.97
HOW = """\
Both checkouts do every cell in every round, one right after the other and each first in turn. A run
has processes of its own, started from the checkout whose product it measures and measured by that
checkout's own load test. *New : old* compares the two runs of a round: the median of these ratios,
the smallest and the largest. It is turned round where less is better, so that above 1 the new one
is always the better.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one cell, in the unit that it is shown in."""

    cell: str
    figure: Figure
    old: Spread
    new: Spread
    gain: Spread

    @property
    def verdict(self) -> str:
        return f"under {LEAST}" if self.gain.median < LEAST else ""


COLUMNS = ("cell", "figure", "old", "new", "new : old", "")


def print_against_report(console: Console, report: AgainstReport) -> None:
    """What fits on a terminal of 80 columns: medians, and the range of the ratios alone."""
    table = Table(*COLUMNS)
    for row in report_rows(report):
        medians = (median_text(value, row.figure.digits) for value in (row.old, row.new))
        table.add_row(row.cell, row.figure.title, *medians, spread_text(row.gain, 2), row.verdict)
    console.print(table)
    print_failed(console, report.errors, lambda run: run.checkout)


def write_against_report(report: AgainstReport, directory: Path) -> None:
    name = f"{report.benchmark}-against"
    lines = [
        *head_lines(report, f"bench-{report.benchmark}, new against old"),
        *(HOW, *table_head(COLUMNS, texts=2)),
    ]
    for row in report_rows(report):
        values = [spread_text(value, row.figure.digits) for value in (row.old, row.new)]
        words = [report.cells[row.cell], row.figure.title, *values, spread_text(row.gain, 2)]
        lines.append(table_line([*words, row.verdict]))
    lines += failed_lines(report, lambda run: run.checkout)
    lines += ["", *machine_lines(report, name)]
    write_document(report, directory, name, markdown="\n".join(lines))


def report_rows(report: AgainstReport) -> list[Row]:
    """Without the figures that a cell has none of."""
    rows = []
    for cell in report.cells:
        for figure in report.figures:
            gain = report.gain(cell, figure.name, is_less_better=figure.is_less_better)
            old, new = (report.spread(cell, one, figure.name) for one in (OLD, NEW))
            if gain and old and new:
                rows.append(Row(cell, figure, figure.in_unit(old), figure.in_unit(new), gain))
    return rows

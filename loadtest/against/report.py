"""Show what `--against` found: on the terminal, and in NAME-against.json and NAME-against.md."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.against.turns import NEW, OLD, AgainstReport
from loadtest.lab.server_runs import median_text
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line

# A new revision may cost so much: less than what differs between two runs of the same.
LEAST = 0.97
MIB = 2.0**20
HOW = """\
Both checkouts do every cell in every round, one right after the other and each first in turn. A run
has processes of its own, started from the checkout whose product it measures; what measures them is
the new one's. *New : old* compares the two runs of a round: the median of these ratios, the
smallest and the largest. It is turned round where less is better, so that above 1 the new one is
always the better.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a run: its name there, and how it is shown. Not every cell has every number."""

    name: str
    title: str
    digits: int = 0
    is_less_better: bool = False
    per_unit: float = 1.0

    def shown(self, value: Spread) -> Spread:
        unit = self.per_unit
        return Spread(value.median / unit, value.low / unit, value.high / unit)


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


def _cost(name: str, title: str, digits: int = 1) -> Figure:
    return Figure(name, title, digits, is_less_better=True)


JOBS = Figure("jobs_per_s", "jobs/s")
P50 = _cost("p50_ms", "p50 ms", 2)
FIGURES: dict[str, tuple[Figure, ...]] = {
    "broker": (
        JOBS,
        P50,
        Figure("push_jobs_per_s", "push jobs/s"),
        Figure("drain_jobs_per_s", "drain jobs/s"),
        _cost("server_cpu_us", "broker CPU µs/job"),
        _cost("consumer_cpu_us", "worker CPU µs/job"),
    ),
    "ingest": (
        JOBS,
        P50,
        _cost("service_cpu_us", "API CPU µs/job"),
        _cost("broker_cpu_us", "broker CPU µs/job"),
    ),
    "fetch": (Figure("pages_per_s", "pages/s"), _cost("cpu_us", "CPU µs/page")),
    "crawl": (
        Figure("pages_per_s", "pages/s"),
        Figure("pages_per_cpu_s", "pages per CPU-second", 1),
        Figure("parsed_bytes_per_cpu_s", "MiB parsed per CPU-second", 2, per_unit=MIB),
        _cost("us_crawl", "crawl CPU µs/page", 0),
        _cost("us_parse", "parse CPU µs/page", 0),
        _cost("us_broker", "broker CPU µs/page", 0),
    ),
}
COLUMNS = ("cell", "figure", "old", "new", "new : old", "")


def print_against_report(console: Console, report: AgainstReport) -> None:
    """What fits on a terminal of 80 columns: medians, and the range of the ratios alone."""
    table = Table(*COLUMNS)
    for row in report_rows(report):
        medians = (median_text(value, row.figure.digits) for value in (row.old, row.new))
        table.add_row(row.cell, row.figure.title, *medians, spread_text(row.gain, 2), row.verdict)
    console.print(table)
    for run in report.errors:
        console.print(f"FAILED {run.cell} round {run.round} {run.checkout}: {run.error}")


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
        for figure in FIGURES[report.benchmark]:
            gain = report.gain(cell, figure.name, is_less_better=figure.is_less_better)
            old, new = (report.spread(cell, one, figure.name) for one in (OLD, NEW))
            if gain and old and new:
                rows.append(Row(cell, figure, figure.shown(old), figure.shown(new), gain))
    return rows

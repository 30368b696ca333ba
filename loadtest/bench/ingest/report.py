"""Show the runs of `bench-ingest`: on the terminal, in ingest.json, ingest.md and ingest.svg."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtest.bench.ingest.cells import SIDES, IngestCell
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import Figure
from loadtest.lib.plot import Group, bars_of, draw
from loadtest.lib.report import SideReport
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread
from loadtest.lib.tables import median_text, spread_text, table_head, table_line
from loadtest.lib.targets import Verdict, verdict_lines
from loadtest.lib.terminal import print_failed, print_verdicts, terminal_table

RATE = Figure("jobs_per_s", "jobs/s")
P50 = Figure("p50_ms", "answer p50 ms", 2)
P99 = Figure("p99_ms", "answer p99 ms", 2)
FIGURES = (
    RATE,
    P50,
    P99,
    Figure("service_cpu_us", "service CPU µs/job", 1),
    Figure("broker_cpu_us", "broker CPU µs/job", 1),
    Figure("client_cpu_us", "client CPU µs/job", 1),
)
# What a cell is about; less is better of the times.
HEADLINES = {"single": RATE, "lone": P99, "list": RATE, "stream": RATE}


@dataclass(frozen=True, slots=True)
class Target:
    """What the median of a kind of cell must reach: a ratio to another side, or a figure."""

    kind: str
    text: str
    limit: float
    side: str | None = None
    is_most: bool = False

    def is_met(self, value: float) -> bool:
        return value <= self.limit if self.is_most else value >= self.limit


TARGETS = (
    Target("single", "at least 0.7 of an empty FastAPI", 0.7, side="fastapi"),
    Target("single", "10,000 jobs/s", 10_000),
    Target("stream", "at least 0.7 of raw PUSHB", 0.7, side="pushb"),
    Target("lone", "p99 at most 10 ms", 10.0, is_most=True),
)

SECTIONS = {
    "single": (
        "Single POSTs",
        'The guide\'s own `POST /jobs/add` with `{"a": 1, "b": 1}`, for four seconds, over '
        "connections that stay open, each with one request under way at a time. The API answers "
        "when the broker has the job on disk; the other two answer at once and do nothing.",
    ),
    "lone": (
        "A lone POST",
        "One request at a time on idle servers, over one connection, each 2 to 10 ms after the "
        "answer before it. The batcher must not make it wait.",
    ),
    "list": (
        "Lists",
        "A JSON list per POST, for four seconds. Compared with PUSHBs of as many jobs over as many "
        "connections straight to the broker, whose client has made its jobs beforehand.",
    ),
    "stream": (
        "NDJSON",
        "One request with all lines, over one connection, to one API process, which makes PUSHBs "
        "of 1,000 of them. Compared with one client that pushes as many jobs straight to the "
        "broker, 1,000 per PUSHB, one after the other, and has made them beforehand.",
    ),
}
HOW = """\
The sides of a cell take turns within each round, in an order that rotates; every run has processes
of its own, the broker an empty directory, and the services are warmed up with 200 requests. The API
runs as one process with the settings that it comes with; the empty FastAPI route and the raw ASGI
application run under uvicorn with the same settings, except that the API's connections are
stricter with what strangers send. All are posted to by one program of one thread, which shares the
machine with them, as the broker does. A ratio compares the two runs of one round; the median of
these ratios is shown with the smallest and the largest. A run counts only if every answer was 202
and the broker has exactly as many jobs as were accepted.
"""


@dataclass(frozen=True, slots=True)
class IngestReport(SideReport[IngestCell]):
    def ratio(self, cell: IngestCell, side: str) -> Spread | None:
        """Compare the API with another side round by round; a round without one is left out."""
        name = HEADLINES[cell.kind].name
        return Spread.of_ratios(self.values(cell, "api", name), self.values(cell, side, name))

    def reached(self, cell: IngestCell, target: Target) -> Spread | None:
        if target.side is not None:
            return self.ratio(cell, target.side)
        return self.spread(cell, "api", HEADLINES[cell.kind].name)


def outcome(run: SideRun) -> str:
    values = run.values
    return (
        f"{values['jobs_per_s']:,.0f} jobs/s, p50 {values['p50_ms']:.2f} ms, "
        f"p99 {values['p99_ms']:.2f} ms"
    )


def _targets(report: IngestReport) -> list[Verdict]:
    """What was asked of which cell, what came out, and whether that is enough."""
    found = []
    for target in TARGETS:
        digits = 0 if target.limit >= 100 else 2
        for cell in report.cells:
            value = report.reached(cell, target) if cell.kind == target.kind else None
            if value is not None:
                is_met = "met" if target.is_met(value.median) else "missed"
                found.append((f"{cell.title}: {target.text}", spread_text(value, digits), is_met))
    return found


def print_ingest_report(console: Console, report: IngestReport) -> None:
    columns = ("median", "side", "jobs/s", "p50 ms", "p99 ms", "ratio")
    table = terminal_table(columns, texts=2, wraps_first=True)
    for cell in report.cells:
        for side in cell.sides:
            table.add_row(
                cell.title if side == "api" else "",
                SIDES[side],
                *(
                    figure.median(report.spread(cell, side, figure.name))
                    for figure in (RATE, P50, P99)
                ),
                "" if side == "api" else median_text(report.ratio(cell, side), 2),
            )
    console.print(table, "")
    print_verdicts(console, _targets(report))
    print_failed(console, report.errors, lambda run: run.side)


def ingest_markdown(report: IngestReport) -> str:
    lines = head_lines(report, "Handing jobs in")
    lines += ["![handing jobs in](ingest.svg)", "", *verdict_lines(_targets(report)), "", HOW]
    lines += machine_lines(report, "ingest")
    for kind, (title, text) in SECTIONS.items():
        cells = [cell for cell in report.cells if cell.kind == kind]
        if cells:
            lines += ["", f"## {title}", "", textwrap.fill(text, 100), "", *_section(report, cells)]
    lines += failed_lines(report, lambda run: SIDES[run.side])
    return "\n".join(lines) + "\n"


def _section(report: IngestReport, cells: list[IngestCell]) -> list[str]:
    ratio = f"API ÷ it, {HEADLINES[cells[0].kind].title}"
    titles = ("median (min to max)", "side", *(figure.title for figure in FIGURES), ratio)
    lines = table_head(titles, texts=2)
    for cell in cells:
        for side in cell.sides:
            values = [report.shown(cell, side, figure) for figure in FIGURES]
            compared = "" if side == "api" else spread_text(report.ratio(cell, side), 2)
            lines.append(table_line([cell.title, SIDES[side], *values, compared]))
    return lines


def _group(report: IngestReport, cell: IngestCell) -> Group:
    figure = HEADLINES[cell.kind]
    titles = {side: SIDES[side] for side in cell.sides}
    bars = bars_of(titles, lambda side: report.spread(cell, side, figure.name), figure.digits)
    return Group(f"{cell.title}, {figure.title}", bars)


def write_ingest_report(report: IngestReport, directory: Path) -> None:
    groups = [_group(report, cell) for cell in report.cells]
    picture = draw(groups, "Handing jobs in", is_one_scale=False)
    write_document(report, directory, "ingest", markdown=ingest_markdown(report), picture=picture)

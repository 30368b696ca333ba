"""Show the runs of `bench-sinks`: on the terminal, in sinks.json, sinks.md and sinks.svg."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.bench.sinks.cells import (
    COST_PLAIN,
    COST_TLS,
    LINKS,
    MADE_UP,
    PARALLEL,
    RECORDS,
    REST_S,
    SEQUENTIAL,
    SERVERS,
    WARM_UP_BATCHES,
    WITH,
    WITHOUT,
    BatchCell,
    CostCell,
    SinksCell,
)
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import MIB, Figure
from loadtest.lib.plot import Bar, Group, bars_of, draw
from loadtest.lib.report import SideReport
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.targets import Target, Verdict, verdict_lines, verdicts
from loadtest.lib.terminal import print_failed, print_verdicts

MOST_OF_SLOWEST = 1.15
# "The sum": neither quicker than it, which cannot be, nor slower.
ABOUT_SUM = (0.9, 1.1)
MOST_COST = 1.3

TOOK = Figure("ms", "ms per batch", 1)
BATCH_FIGURES = (
    Figure("slowest_ms", "its slowest batch, ms", 1),
    Figure("cpu_ms", "our CPU, ms per batch", 1),
)
CPU = Figure("us", "CPU µs per page")
END = Figure("us_end", "of it the end")
COST_FIGURES = (
    Figure("pages_per_s", "pages/s"),
    Figure("us_crawl", "crawl"),
    Figure("us_parse", "parse"),
    Figure("us_broker", "broker"),
    Figure("us_supervisor", "supervisor"),
    Figure("us_server", "PostgreSQL, not counted"),
    Figure("max_rss_bytes", "memory MiB", per_unit=MIB),
)

BATCH_TEXT = (
    f"A batch is {RECORDS} records of pages with {LINKS} links each, handed to the sinks of a "
    "worker (`worker.sinks`) in a process of its own. Measured is the time from handing it over "
    "until every sink has said that it is durable; nothing is gathered before "
    "(`SINKS_DELAY_S=0`). The sides take turns batch by batch, in an order that changes by chance "
    f"and with {REST_S:g} s of rest between two, all with the same records, and each with places "
    f"of its own. The first {WARM_UP_BATCHES} batches of each do not count. A round's time is the "
    "median of its batches. *All three at once* is `SINKS_PARALLEL=true`, the default; "
    "*one after the other* is `SINKS_PARALLEL=false`. A round counts only if no write had to be "
    "repeated, and if every place has every record exactly once when it is read back.",
)
SERVERS_TEXT = (
    "S3 is a sink of Parquet files: what is waited for is its local spool, on disk by fsync; "
    "objects are uploaded when they are large enough, and at the end. PostgreSQL commits, and "
    "Elasticsearch answers, when the disk has it. All servers and the process share the cores of "
    "this machine, so the processor time of the three adds up even where their waiting does not."
)
COST_TEXT = (
    "The crawls of `bench-crawl` with fewer pages, with and without sinks in turns; *all three* is "
    "`SINKS=warc:DIR,parquet:DIR,postgres://…`. Each sink alone is run in the first round only. "
    "Every run has a web, a service and a database of its own, fresh.",
    "CPU is that of our own processes: broker, supervisor, crawl and parse with all their threads, "
    "from the moment that the crawl is created to that at which it has ended. The service is ended "
    "by SIGTERM then, because that is when sinks finish their files: what the end costs more than "
    "the end of the run without sinks in the same round counts, too, and is in the ratio. Opening "
    "the sinks, before there is a crawl, does not count. The processor time of the PostgreSQL "
    "server is shown and not counted.",
    "A run counts only if it was a perfect crawl (as in `bench-crawl`), if the service ended in an "
    "orderly way, and if each sink has each page exactly once: answers in the WARC files by "
    "FastWARC, rows of the Parquet files by pyarrow, rows of the table in PostgreSQL.",
)


@dataclass(frozen=True, slots=True)
class SinksReport(SideReport[SinksCell]):
    def to_alone(
        self, cell: BatchCell, side: str, together: Callable[[Iterable[float]], float]
    ) -> Spread | None:
        """A side's time to that of the sinks alone, put together by max or sum; round by round."""
        times = [self.values(cell, sink, TOOK.name) for sink in cell.alone]
        rounds = set.intersection(*(set(of_sink) for of_sink in times))
        alone = {number: together(of_sink[number] for of_sink in times) for number in rounds}
        return Spread.of_ratios(self.values(cell, side, TOOK.name), alone)

    def ends(self, cell: CostCell, side: str) -> dict[int, float]:
        """What the end of a service costs more than one without sinks in the same round."""
        bare = self.values(cell, WITHOUT, END.name)
        ends = self.values(cell, side, END.name)
        return {number: end - bare[number] for number, end in ends.items() if number in bare}

    def costs(self, cell: CostCell, side: str) -> dict[int, float]:
        """CPU per page, by round."""
        crawls = self.values(cell, side, CPU.name)
        return {number: crawls[number] + end for number, end in self.ends(cell, side).items()}

    def cost_ratio(self, cell: CostCell, side: str) -> Spread | None:
        """To that without sinks, round by round."""
        return Spread.of_ratios(self.costs(cell, side), self.costs(cell, WITHOUT))


def _batch_targets(cell: BatchCell) -> tuple[Target[SinksReport], Target[SinksReport]]:
    return (
        Target(
            f"{cell.title}, all at once: at most {MOST_OF_SLOWEST:g} × the slowest alone",
            lambda report: report.to_alone(cell, PARALLEL, max),
            most=MOST_OF_SLOWEST,
        ),
        Target(
            f"{cell.title}, one after the other: about the sum of all three alone",
            lambda report: report.to_alone(cell, SEQUENTIAL, sum),
            least=ABOUT_SUM[0],
            most=ABOUT_SUM[1],
        ),
    )


def _cost_target(cell: CostCell) -> Target[SinksReport]:
    return Target(
        f"{cell.title}, into WARC, Parquet and PostgreSQL: at most {MOST_COST:g} × the CPU per "
        "page without sinks",
        lambda report: report.cost_ratio(cell, WITH),
        most=MOST_COST,
    )


TARGETS = (
    *_batch_targets(MADE_UP),
    *_batch_targets(SERVERS),
    _cost_target(COST_PLAIN),
    _cost_target(COST_TLS),
)


def verdict_rows(report: SinksReport) -> list[Verdict]:
    return verdicts(report, TARGETS)


def sinks_outcome(runs: Sequence[SideRun]) -> str:
    """Say in one line what the sides of a run gave."""
    told = []
    for run in runs:
        figure = TOOK if TOOK.name in run.values else CPU
        told.append(f"{run.side} {run.values[figure.name]:,.{figure.digits}f} {figure.title}")
    return ", ".join(told)


def print_sinks_report(console: Console, report: SinksReport) -> None:
    for cell in report.cells:
        columns, rows = _shown(report, cell)
        table = Table(title=cell.title, title_justify="left", box=None, pad_edge=False)
        # What fits on a terminal of 80 columns.
        for index, column in enumerate(("median", *columns[1:5])):
            table.add_column(
                column, justify="right" if index else "left", no_wrap=not index, min_width=9
            )
        for row in rows:
            table.add_row(*(word.partition(" (")[0] for word in row[:5]))
        console.print(table, "")
    print_verdicts(console, verdict_rows(report))
    print_failed(console, report.errors, lambda run: _who(report, run))


def sinks_markdown(report: SinksReport) -> str:
    lines = head_lines(report, "Sinks")
    if rows := verdict_rows(report):
        lines += [*verdict_lines(rows), ""]
    lines += ["![sinks](sinks.svg)", "", *machine_lines(report, "sinks")]
    batches = [cell for cell in report.cells if isinstance(cell, BatchCell)]
    costs = [cell for cell in report.cells if isinstance(cell, CostCell)]
    for heading, texts, cells in (
        ("Written in parallel", BATCH_TEXT, batches),
        ("What sinks cost", COST_TEXT, costs),
    ):
        if cells:
            lines += ["", f"## {heading}", "", *_paragraphs(texts)]
        for cell in cells:
            lines += _cell_lines(report, cell)
    return "\n".join([*lines, *failed_lines(report, lambda run: _who(report, run))]).rstrip() + "\n"


def _cell_lines(report: SinksReport, cell: SinksCell) -> list[str]:
    lines = [f"### {cell.title[0].upper()}{cell.title[1:]}", ""]
    if cell.key == SERVERS.key:
        lines += _paragraphs((SERVERS_TEXT,))
    if isinstance(cell, CostCell):
        web = cell.crawl.web
        lines += [f"{web.hosts:,} hosts, {web.pages:,} pages, `{cell.crawl.stages}`.", ""]
    columns, rows = _shown(report, cell)
    return [*lines, *table_head(columns), *map(table_line, rows), ""]


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in (*textwrap.wrap(text, 100), "")]


def _shown(report: SinksReport, cell: SinksCell) -> tuple[tuple[str, ...], list[list[str]]]:
    """Columns and rows of a cell's table; only what was run."""
    if isinstance(cell, CostCell):
        return _cost_columns(), [_cost_row(report, cell, side) for side in _ran(report, cell, CPU)]
    titles = (figure.title for figure in BATCH_FIGURES)
    columns = ("median (min to max)", TOOK.title, "÷ the slowest alone", "÷ the sum", *titles)
    return columns, [_batch_row(report, cell, side) for side in _ran(report, cell, TOOK)]


def _batch_row(report: SinksReport, cell: BatchCell, side: str) -> list[str]:
    ratios = ["", ""]
    if side not in cell.alone:
        ratios = [spread_text(report.to_alone(cell, side, how), 2) for how in (max, sum)]
    shown = (report.shown(cell, side, figure) for figure in BATCH_FIGURES)
    return [cell.sides[side], report.shown(cell, side, TOOK), *ratios, *shown]


def _cost_columns() -> tuple[str, ...]:
    titles = (figure.title for figure in COST_FIGURES)
    return ("median (min to max)", CPU.title, END.title, "÷ no sink", *titles)


def _cost_row(report: SinksReport, cell: CostCell, side: str) -> list[str]:
    cpu, end = report.costs(cell, side), report.ends(cell, side)
    ratio = "" if side == WITHOUT else spread_text(report.cost_ratio(cell, side), 2)
    shown = (report.shown(cell, side, figure) for figure in COST_FIGURES)
    return [
        cell.sides[side],
        *(spread_text(Spread.of(some.values())) for some in (cpu, end)),
        ratio,
        *shown,
    ]


def _ran(report: SinksReport, cell: SinksCell, figure: Figure) -> list[str]:
    return [side for side in cell.sides if report.spread(cell, side, figure.name)]


def _who(report: SinksReport, run: SideRun) -> str:
    titles = {cell.key: cell.sides for cell in report.cells}
    return titles.get(run.cell, {}).get(run.side, "all sides")


def write_sinks_report(report: SinksReport, directory: Path) -> None:
    groups = []
    for cell in report.cells:
        figure = CPU if isinstance(cell, CostCell) else TOOK
        groups.append(Group(f"{cell.title}, {figure.title}", _bars(report, cell)))
    picture = draw(groups, "Sinks (less is better)", is_one_scale=False)
    write_document(report, directory, "sinks", markdown=sinks_markdown(report), picture=picture)


def _bars(report: SinksReport, cell: SinksCell) -> list[Bar]:
    if isinstance(cell, CostCell):
        return bars_of(
            cell.sides, lambda side: Spread.of(report.costs(cell, side).values()), CPU.digits
        )
    return bars_of(cell.sides, lambda side: report.spread(cell, side, TOOK.name), TOOK.digits)

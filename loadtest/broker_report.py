"""Show the runs of `bench-broker`: on the terminal, in broker.json, broker.md and broker.svg."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from loadtest.broker_cells import SERVERS, BrokerCell
from loadtest.broker_measure import ServerRun
from loadtest.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.plot import Bar, Group, draw
from loadtest.stats import Spread
from loadtest.tables import spread_text, table_head, table_line


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of a run: its name there, how a column is titled, and in which unit it is shown."""

    name: str
    title: str
    per_unit: float = 1.0
    digits: int = 0
    # Its row in the summary is the cell's title and this; None: it is not there.
    headline: str | None = None
    is_less_better: bool = False

    def label(self, cell: BrokerCell) -> str:
        less = " (less is better)" if self.is_less_better else ""
        return f"{cell.title}{self.headline or ''}{less}"

    def shown(self, value: Spread) -> Spread:
        unit = self.per_unit
        return Spread(value.median / unit, value.low / unit, value.high / unit)


MIB = 2.0**20
RATE = Metric("jobs_per_s", "jobs/s", headline=", jobs/s")
ANSWERS = (
    Metric("answer_p50_ms", "answer p50 ms", digits=2),
    Metric("answer_p99_ms", "answer p99 ms", digits=2),
)
SERVER_CPU = Metric("server_cpu_us", "server CPU µs/job", digits=1)
CONSUMER_CPU = Metric("consumer_cpu_us", "consumer CPU µs/job", digits=1)
PUSHER_CPU = Metric("pusher_cpu_us", "pusher CPU µs/job", digits=1)
METRICS: dict[str, tuple[Metric, ...]] = {
    "push": (RATE, *ANSWERS, SERVER_CPU, PUSHER_CPU),
    "drain": (
        RATE,
        CONSUMER_CPU,
        SERVER_CPU,
        Metric("relay_cpu_us", "relay CPU µs/job", digits=1),
        Metric("sockets", "sockets"),
        Metric("busy_peak", "most jobs in hand"),
        Metric("window_s", "window s", digits=1),
    ),
    "sustained": (
        RATE,
        CONSUMER_CPU,
        SERVER_CPU,
        PUSHER_CPU,
        *ANSWERS,
        Metric("queued_peak", "most jobs queued"),
        Metric("window_s", "window s", digits=1),
    ),
    "latency": (
        Metric("p50_ms", "p50 ms", digits=2, headline=", p50 ms", is_less_better=True),
        Metric("p99_ms", "p99 ms", digits=2, headline=", p99 ms", is_less_better=True),
        Metric("most_ms", "longest ms", digits=2),
        *ANSWERS,
    ),
    "backlog": (
        Metric("push_jobs_per_s", "push jobs/s", headline=", push jobs/s"),
        Metric("drain_jobs_per_s", "drain jobs/s", headline=", drain jobs/s"),
        Metric(
            *("started_rss_bytes", "memory MiB", MIB),
            headline=", memory MiB",
            is_less_better=True,
        ),
        Metric("start_s", "start s", digits=2, headline=", start s", is_less_better=True),
        Metric("fill_jobs_per_s", "fill jobs/s"),
        Metric("filled_rss_bytes", "memory when filled MiB", MIB),
        Metric("disk_bytes", "on disk MiB", MIB),
        CONSUMER_CPU,
        SERVER_CPU,
    ),
}

SECTIONS = {
    "push": (
        "Push",
        "Clients push jobs of about 200 bytes for four seconds; each is a connection with one "
        "PUSHB under way at a time. All are in one process, which makes its jobs beforehand; its "
        "processor time shows how far it is from being the limit. *Answer* is the time from a "
        "PUSHB to its answer. Afterwards the queue must hold exactly what was answered.",
    ),
    "drain": (
        "Drain",
        "A consumer drains no-op jobs of about 200 bytes. They are pushed into the paused queue "
        "while the consumer connects; then the queue is resumed. The rate counts from the moment "
        "when the server has 10 % of the jobs done until it has 90 % done or its queue is empty. A "
        "real Faktory sleeps up to 2 s over the FETCH of a paused queue, so there the count begins "
        "2 s after the RESUME at the soonest; the broker answers waiting FETCHes at once. "
        "Afterwards the server must have every job done exactly once. *Most jobs in hand* is the "
        "largest number of reserved jobs that the server saw.",
    ),
    "sustained": (
        "Push and drain together",
        "16 clients push, 100 jobs per PUSHB, while our consumer drains, directly. No more than "
        "10,000 jobs are pushed and not yet processed at any time, so that neither side runs away "
        "from the other. The rate is that of jobs done, between 10 % and 90 % of them.",
    ),
    "latency": (
        "From push to handler",
        "One job at a time on an idle server, each 2 to 10 ms after the one before it began, with "
        "our consumer connected directly: from just before the PUSH is written to the first line "
        "of the handler. *Answer* is the time until the server has answered the PUSH.",
    ),
    "backlog": (
        "Backlog",
        "The queue is filled over four connections, 1,000 jobs per PUSHB; the server is stopped "
        "and started again (*start*: from starting the process to its greeting; *memory* "
        "afterwards, with Redis where there is one); 16 clients push for three seconds, 100 jobs "
        "per PUSHB; then our consumer drains the first jobs, with 500 slots, directly. Afterwards "
        "every job must be either done once or still queued. Jobs in the queue are as large as "
        "elsewhere, about 200 bytes.",
    ),
}
HOW = """\
A real Faktory and the broker take turns within each round, in an order that rotates; every run has
a server of its own that begins with an empty directory, and nothing else runs beside it. A ratio
compares the two runs of one round; the median of these ratios is shown with the smallest and the
largest. A run counts only if the server's own counters show every job exactly where it must be and
none failed. Server CPU and memory are those of Faktory and its Redis together.

The two do not promise the same. The broker answers a push or an ACK when it is on the disk
(`BROKER_SYNC=full`, the default), so its single pushes wait for the disk; *one page to disk* below
says how long that takes here. Faktory's Redis answers from memory and saves a snapshot from time to
time: a crash loses what came after the last one.
"""


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """Everything that is written down about one benchmark."""

    command: str
    date: str
    machine: dict[str, str]
    cells: tuple[BrokerCell, ...]
    runs: list[ServerRun]
    is_complete: bool

    @property
    def errors(self) -> list[ServerRun]:
        return [run for run in self.runs if run.error]

    def good(self, cell: BrokerCell, server: str) -> list[ServerRun]:
        return [
            run
            for run in self.runs
            if run.cell == cell.key and run.server == server and run.error is None
        ]

    def spread(self, cell: BrokerCell, server: str, metric: Metric) -> Spread | None:
        """Return the metric's values over the rounds, in the unit that it is shown in."""
        values = [run.values[metric.name] for run in self.good(cell, server)]
        found = Spread.of(values)
        return metric.shown(found) if found else None

    def ratio(self, cell: BrokerCell, metric: Metric) -> Spread | None:
        """Compare the broker with Faktory round by round; a round without one is left out."""
        by_round = {
            server: {run.round: run.values[metric.name] for run in self.good(cell, server)}
            for server in SERVERS
        }
        ours, theirs = by_round["broker"], by_round["faktory"]
        return Spread.of_ratios(ours, theirs)


def _headlines(report: BrokerReport) -> list[tuple[BrokerCell, Metric]]:
    return [
        (cell, metric)
        for cell in report.cells
        for metric in METRICS[cell.kind]
        if metric.headline is not None
    ]


def print_broker_report(console: Console, report: BrokerReport) -> None:
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(("median", "Faktory", "broker", "ratio", "min", "max")):
        table.add_column(column, justify="right" if index else "left", no_wrap=bool(index))
    for cell, metric in _headlines(report):
        ratio = report.ratio(cell, metric)
        table.add_row(
            metric.label(cell),
            *(_median(report.spread(cell, server, metric), metric.digits) for server in SERVERS),
            *((f"{x:.2f}" for x in (ratio.median, ratio.low, ratio.high)) if ratio else "---"),
        )
    console.print(table, "")
    for run in report.errors:
        console.print(f"FAILED {run.cell} round {run.round} {run.server}: {run.error}")


def _median(value: Spread | None, digits: int) -> str:
    return f"{value.median:,.{digits}f}" if value else "-"


def broker_markdown(report: BrokerReport) -> str:
    lines = head_lines(report, "A real Faktory and the broker")
    lines += ["![Faktory and the broker](broker.svg)", "", *_summary(report), "", HOW]
    lines += machine_lines(report, "broker")
    for kind, (title, text) in SECTIONS.items():
        cells = [cell for cell in report.cells if cell.kind == kind]
        if cells:
            lines += ["", f"## {title}", "", textwrap.fill(text, 100), "", *_section(report, cells)]
    lines += failed_lines(report, lambda run: SERVERS[run.server])
    return "\n".join(lines) + "\n"


def _summary(report: BrokerReport) -> list[str]:
    lines = table_head(("median", *SERVERS.values(), "broker ÷ Faktory (min to max)", "rounds"))
    for cell, metric in _headlines(report):
        words = [metric.label(cell)]
        words += [_median(report.spread(cell, server, metric), metric.digits) for server in SERVERS]
        words.append(spread_text(report.ratio(cell, metric), 2))
        words.append(str(max(len(report.good(cell, server)) for server in SERVERS)))
        lines.append(table_line(words))
    return lines


def _section(report: BrokerReport, cells: list[BrokerCell]) -> list[str]:
    metrics = METRICS[cells[0].kind]
    titles = ("median (min to max)", "server", *(metric.title for metric in metrics))
    lines = table_head(titles, texts=2)
    for cell in cells:
        for server, title in SERVERS.items():
            if any(run.cell == cell.key and run.server == server for run in report.runs):
                values = [
                    spread_text(report.spread(cell, server, metric), metric.digits)
                    for metric in metrics
                ]
                lines.append(table_line([cell.title, title, *values]))
    return lines


def _groups(report: BrokerReport) -> list[Group]:
    groups = []
    for cell, metric in _headlines(report):
        bars = []
        for server, title in SERVERS.items():
            found = report.spread(cell, server, metric)
            if found:
                bars.append(Bar(server, title, found.median, found.low, found.high, metric.digits))
        groups.append(Group(metric.label(cell), bars))
    return groups


def write_broker_report(report: BrokerReport, directory: Path) -> None:
    picture = draw(_groups(report), "A real Faktory and the broker", is_one_scale=False)
    write_document(report, directory, "broker", markdown=broker_markdown(report), picture=picture)

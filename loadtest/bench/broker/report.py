"""Show the runs of `bench-broker`: on the terminal, in broker.json, broker.md and broker.svg."""

from pathlib import Path

from rich.console import Console

from loadtest.lab.server_runs import (
    SERVERS,
    Metric,
    Metrics,
    ServerReport,
    bar_groups,
    section_lines,
)
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import MIB
from loadtest.lib.plot import draw
from loadtest.lib.tables import median_text, spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed, terminal_table

RATE = Metric("jobs_per_s", "jobs/s", headline=", jobs/s")
ANSWERS = (
    Metric("answer_p50_ms", "answer p50 ms", digits=2),
    Metric("answer_p99_ms", "answer p99 ms", digits=2),
)
SERVER_CPU = Metric("server_cpu_us", "server CPU µs/job", digits=1)
CONSUMER_CPU = Metric("consumer_cpu_us", "consumer CPU µs/job", digits=1)
PUSHER_CPU = Metric("pusher_cpu_us", "pusher CPU µs/job", digits=1)
METRICS: Metrics = {
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
            *("started_rss_bytes", "memory MiB"),
            per_unit=MIB,
            headline=", memory MiB",
            is_less_better=True,
        ),
        Metric("start_s", "start s", digits=2, headline=", start s", is_less_better=True),
        Metric("fill_jobs_per_s", "fill jobs/s"),
        Metric("filled_rss_bytes", "memory when filled MiB", per_unit=MIB),
        Metric("disk_bytes", "on disk MiB", per_unit=MIB),
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


def print_broker_report(console: Console, report: ServerReport) -> None:
    columns = ("median", "Faktory", "broker", "ratio", "min", "max")
    table = terminal_table(columns, wraps_first=True)
    for cell, metric in report.headlines(METRICS):
        ratio = report.ratio(cell, metric)
        table.add_row(
            metric.label(cell),
            *(
                median_text(report.spread(cell, server, metric), metric.digits)
                for server in SERVERS
            ),
            *((f"{x:.2f}" for x in (ratio.median, ratio.low, ratio.high)) if ratio else "---"),
        )
    console.print(table, "")
    print_failed(console, report.errors, lambda run: run.server)


def broker_markdown(report: ServerReport) -> str:
    lines = head_lines(report, "A real Faktory and the broker")
    lines += ["![Faktory and the broker](broker.svg)", "", *_summary(report), "", HOW]
    lines += machine_lines(report, "broker")
    for kind, (title, text) in SECTIONS.items():
        lines += section_lines(report, kind, title, text, METRICS)
    lines += failed_lines(report, lambda run: SERVERS[run.server])
    return "\n".join(lines) + "\n"


def _summary(report: ServerReport) -> list[str]:
    lines = table_head(("median", *SERVERS.values(), "broker ÷ Faktory (min to max)", "rounds"))
    for cell, metric in report.headlines(METRICS):
        words = [metric.label(cell)]
        words += [
            median_text(report.spread(cell, server, metric), metric.digits) for server in SERVERS
        ]
        words.append(spread_text(report.ratio(cell, metric), 2))
        words.append(str(max(len(report.good(cell, server)) for server in SERVERS)))
        lines.append(table_line(words))
    return lines


def write_broker_report(report: ServerReport, directory: Path) -> None:
    picture = draw(bar_groups(report, METRICS), "A real Faktory and the broker", is_one_scale=False)
    write_document(report, directory, "broker", markdown=broker_markdown(report), picture=picture)

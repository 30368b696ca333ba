"""Show the runs of `bench-worker`: on the terminal, in worker.json, worker.md and worker.svg."""

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console

from loadtest.bench.worker.cells import (
    ONE_SERVICE,
    PACE_JOBS_PER_S,
    PACED,
    PACED_SHARE,
    SLOTS,
    TWO_PROCESSES,
    ProcessesCell,
    ProfileCell,
    ServiceCell,
)
from loadtest.lab.server_runs import (
    SERVERS,
    Metric,
    Metrics,
    ServerReport,
    ServerRun,
    bar_groups,
    outcome,
    section_lines,
)
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.figures import KIB, MIB
from loadtest.lib.plot import draw
from loadtest.lib.stats import Spread
from loadtest.lib.tables import median_text, spread_text, table_head, table_line
from loadtest.lib.targets import Target, Verdict, verdict_lines, verdicts
from loadtest.lib.terminal import print_failed, print_verdicts, terminal_table

LEAST_JOBS_PER_S = 9000
MOST_LAG_MS = 50
MOST_UNEVENNESS = 0.20
LEAST_OF_BARE_GAIN = 0.85
PROFILE_ROWS = 10

RATE = Metric("jobs_per_s", "jobs/s", headline=", jobs/s")
CPU = Metric("consumer_cpu_us", "service CPU µs/job", digits=1)
BARE = Metric("bare_per_s", "times/s without a queue", headline=" without a queue, times/s")
LAG = Metric("lag_p99_ms", "loop lag p99 ms", digits=1)
COSTS = (
    Metric("server_cpu_us", "server CPU µs/job", digits=1),
    Metric("rss_idle_bytes", "memory idle MiB", per_unit=MIB),
    Metric("rss_peak_bytes", "memory at most MiB", per_unit=MIB),
    Metric("slot_bytes", "memory per busy slot KiB", per_unit=KIB, digits=1),
    Metric("busy_peak", "most jobs in hand"),
    Metric("sockets", "sockets"),
    Metric("window_s", "window s", digits=1),
)
METRICS: Metrics = {
    "slots": (RATE, CPU, LAG, *COSTS),
    "ten_thousand": (
        RATE,
        CPU,
        Metric(
            *("lag_p99_ms", "loop lag p99 ms"),
            digits=1,
            headline=", loop lag p99 ms",
            is_less_better=True,
        ),
        *COSTS,
    ),
    "paced": (
        Metric("jobs_per_s", "jobs/s"),
        Metric(
            *("consumer_cpu_us", "service CPU µs/job"),
            digits=1,
            headline=", service CPU µs/job",
            is_less_better=True,
        ),
        LAG,
        *COSTS,
    ),
    "processes": (
        Metric("jobs_per_s", "jobs/s", headline=" of jobs that compute, jobs/s"),
        BARE,
        Metric("consumer_cpu_us", "service CPU µs/job"),
        Metric("server_cpu_us", "server CPU µs/job"),
    ),
    # Shares by function: a table of its own.
    "profile": (),
}

SECTIONS = {
    "slots": (
        "Slots",
        "One process drains jobs that do nothing, or wait for 100 ms or 1 s. They are all at the "
        "server before it may take the first. The rate counts from the moment when the server has "
        "10 % of the jobs done until it has 90 % done or its queue is empty. A real Faktory gives "
        "no more, however many slots there are, so it has a few cells only.",
    ),
    "ten_thousand": (
        "Ten thousand slots",
        "The same with jobs of 1 s and 10,000 slots in one service, as one process and as two. A "
        "run lasts at least eleven seconds, so that one of the five-second intervals of which the "
        "service tells its lag lies within it.",
    ),
    "paced": (
        "The same work for any number of slots",
        f"Jobs arrive evenly, {PACE_JOBS_PER_S:,} a second, and wait so long that "
        f"{PACED_SHARE * 100:.0f} % of the slots are busy. So every number of slots does the same "
        "work at the same rate, and only the number of jobs in hand differs. A drain cannot show "
        "that: "
        "with 50 slots it takes jobs in small groups, with 20,000 in large ones, and with jobs "
        "that wait it has another rate for each number of slots; both change the cost of a job "
        "more than the slots themselves do. Counted from half a second after the first jobs have "
        "ended until no more arrive. A run that does less than 95 % of what arrives does not "
        "count.",
    ),
    "processes": (
        "Processes",
        "Jobs that compute for some two milliseconds in Python, 20 slots to a process. *Without a "
        "queue* is the same function in a loop, in as many processes, for a second before and a "
        "second after each run. The server needs the same cores, a real Faktory more of them than "
        "the broker: what it takes a second process cannot have.",
    ),
}
HOW = """\
A service is `manyhands worker`: a supervisor and its children. Its CPU and memory are those of all
its processes together (memory that they share counts more than once). Every run has a server of its
own, fresh, and a service of its own; where a cell is run on both servers, they take turns within a
round, in an order that rotates. A run counts only if the server has every job done exactly once,
with none failed and none left, and the service itself counts as many.

*Loop lag p99* is the service's own figure (`manyhands_worker_loop_lag_seconds`): how late an event
loop was, as the 99th percentile of five seconds. Of the intervals in which it had jobs and of its
processes the worst is shown. *Memory per busy slot* is the most memory during a run less that
before the first job, divided by the most jobs that the server saw in hand. *Window* is the part of
a run that counts for the rate.
"""
PROFILE_TEXT = """\
Of one child's main thread in one run: the processor time in each function itself, without the
Python functions that it calls. It was taken with cProfile, which looks at every call, so functions
that are called often look larger than they are. *uvloop and the kernel* is what is left when all
others are counted."""


def unevenness(report: ServerReport, server: str) -> Spread | None:
    """Return by how much the CPU per job of a number of slots is off the middle one of all numbers
    of slots at the most, round by round; a round that lacks one is left out."""
    by_cell = [report.by_round(cell, server, CPU.name) for cell in PACED]
    found = []
    for number in _common_rounds(by_cell):
        costs = [costs_by_round[number] for costs_by_round in by_cell]
        middle = statistics.median(costs)
        found.append(max(abs(cost / middle - 1) for cost in costs))
    return Spread.of(found)


def gains(report: ServerReport, server: str, processes: int, name: str) -> dict[int, float]:
    """Return by round how many times as much so many processes do as one."""
    one, many = (report.by_round(ProcessesCell(count), server, name) for count in (1, processes))
    return {number: many[number] / one[number] for number in _common_rounds((one, many))}


def gain_of_bare(report: ServerReport, server: str, processes: int) -> Spread | None:
    """Compare what processes gain with what they gain without a queue, round by round."""
    ours, bare = (gains(report, server, processes, name) for name in (RATE.name, BARE.name))
    return Spread.of_ratios(ours, bare)


def _common_rounds(by_round: Iterable[Mapping[int, float]]) -> list[int]:
    return sorted(set.intersection(*(set(values) for values in by_round)))


def _service_targets(cell: ServiceCell) -> tuple[Target[ServerReport], Target[ServerReport]]:
    what = f"{cell.slots:,} slots as {cell.processes} × {cell.slots_each:,}, 1 s jobs, broker"
    return (
        Target(
            f"{what}: at least {LEAST_JOBS_PER_S:,} jobs/s",
            lambda report: report.spread(cell, "broker", RATE),
            least=LEAST_JOBS_PER_S,
            digits=0,
        ),
        Target(
            f"{what}: loop lag p99 at most {MOST_LAG_MS} ms",
            lambda report: report.spread(cell, "broker", LAG),
            most=MOST_LAG_MS,
            digits=1,
        ),
    )


TARGETS: tuple[Target[ServerReport], ...] = (
    *_service_targets(ONE_SERVICE),
    *_service_targets(TWO_PROCESSES),
    Target(
        f"CPU per job from {min(SLOTS)} to {max(SLOTS):,} slots, broker: no further than "
        f"{MOST_UNEVENNESS * 100:.0f} % from the middle one",
        lambda report: unevenness(report, "broker"),
        most=MOST_UNEVENNESS,
    ),
    Target(
        f"gain of 2 processes ÷ that of a bare loop, broker: at least {LEAST_OF_BARE_GAIN}",
        lambda report: gain_of_bare(report, "broker", 2),
        least=LEAST_OF_BARE_GAIN,
    ),
)


def target_rows(report: ServerReport) -> list[Verdict]:
    return verdicts(report, TARGETS)


def profile_rows(run: ServerRun) -> list[tuple[str, float]]:
    """Return the functions with the largest shares of processor time, each with its share."""
    return sorted(run.values.items(), key=lambda item: -item[1])[:PROFILE_ROWS]


def worker_outcome(run: ServerRun) -> str:
    """Say in one line what a run gave."""
    if not _is_profile(run):
        return outcome(run, METRICS)
    label, share = profile_rows(run)[0]
    return f"{share * 100:.0f} % in {label}"


def _is_profile(run: ServerRun) -> bool:
    return run.cell.partition("/")[0] == ProfileCell.kind


def print_worker_report(console: Console, report: ServerReport) -> None:
    table = terminal_table(("median", *SERVERS.values(), "rounds"), wraps_first=True)
    for words in _summary_rows(report):
        table.add_row(*words)
    console.print(table, "")
    print_verdicts(console, target_rows(report))
    print_failed(console, report.errors, lambda run: run.server)


def _summary_rows(report: ServerReport) -> list[list[str]]:
    rows = []
    for cell, metric in report.headlines(METRICS):
        medians = (report.spread(cell, server, metric) for server in SERVERS)
        rows.append(
            [
                metric.label(cell),
                *(median_text(value, metric.digits) for value in medians),
                str(max(len(report.good(cell, server)) for server in SERVERS)),
            ]
        )
    return rows


def worker_markdown(report: ServerReport) -> str:
    lines = head_lines(report, "The worker service")
    if rows := target_rows(report):
        lines += [*verdict_lines(rows), ""]
    lines += ["![the worker service](worker.svg)", ""]
    lines += table_head(("median", *SERVERS.values(), "rounds"))
    lines += [table_line(words) for words in _summary_rows(report)]
    lines += ["", HOW, *machine_lines(report, "worker")]
    for kind, (title, text) in SECTIONS.items():
        lines += section_lines(report, kind, title, text, METRICS)
        if kind == "processes":
            lines += _gain_lines(report)
    lines += _profile_lines(report)
    lines += failed_lines(report, lambda run: SERVERS[run.server])
    return "\n".join(lines) + "\n"


def _gain_lines(report: ServerReport) -> list[str]:
    """Return how many times as much several processes do as one, with and without a queue."""
    columns = ("gain over 1 process", "server", "ours", "without a queue", "ours ÷ without")
    lines = []
    for cell in report.cells:
        if not isinstance(cell, ProcessesCell) or cell.processes == 1:
            continue
        for server, title in SERVERS.items():
            ratio = gain_of_bare(report, server, cell.processes)
            if ratio is None:
                continue
            spreads = [
                Spread.of(gains(report, server, cell.processes, name).values())
                for name in (RATE.name, BARE.name)
            ]
            texts = [spread_text(value, 2) for value in (*spreads, ratio)]
            lines.append(table_line([cell.title, title, *texts]))
    return ["", *table_head(columns, texts=2), *lines] if lines else []


def _profile_lines(report: ServerReport) -> list[str]:
    titles = {cell.key: cell.title for cell in report.cells}
    lines = []
    for run in report.runs:
        if _is_profile(run) and run.error is None:
            heading = titles[run.cell].capitalize()
            lines += ["", f"## {heading}", "", *PROFILE_TEXT.splitlines(), ""]
            lines += table_head(("function", "share of the processor time"))
            lines += [
                table_line([f"`{label}`", f"{share * 100:.1f} %"])
                for label, share in profile_rows(run)
            ]
    return lines


def write_worker_report(report: ServerReport, directory: Path) -> None:
    picture = draw(bar_groups(report, METRICS), "The worker service", is_one_scale=False)
    write_document(report, directory, "worker", markdown=worker_markdown(report), picture=picture)

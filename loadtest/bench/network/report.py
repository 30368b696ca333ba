"""Show the runs of `bench-network`: on the terminal, in network.json, network.md and network.svg,
and in the guide, as the section that `network_section` returns."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from loadtest.bench.consumer.report import DrainReport, cost_texts, source_lines
from loadtest.bench.consumer.summary import Row, paired_ratio, rows
from loadtest.bench.network.cells import CONTENDERS, predicted_jobs_per_s
from loadtest.lab.cells import ONE_SOCKET_PER_SLOT_CAP, Cell
from loadtest.lib.document import failed_lines, head_lines, machine_lines, write_document
from loadtest.lib.plot import Bar, Group, draw
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line
from loadtest.lib.terminal import print_failed, terminal_table
from manyhands.shared.sizing import GATHER_S

# With so much of all cores in use, the slots are not what limits a run. It is never all: the
# benchmark itself and the kernel's share of the network count for nobody.
BUSY_SHARE = 0.8
BUSY_MARK = " †"
SUMMARY_COLUMNS = (
    "round trip",
    "slots",
    "predicted by the formula",
    CONTENDERS["ours"],
    "÷ predicted",
    CONTENDERS["on_broker"],
    "÷ predicted",
    "predicted with one socket per slot",
    CONTENDERS["rust"],
    "÷ predicted",
    "Manyhands ÷ Rust, Faktory",
)
# What a client costs, with the digits after the point.
COSTS: dict[str, tuple[Callable[[Row], float], int]] = {
    "sockets": (lambda row: row.sockets, 0),
    "client CPU µs/job": (lambda row: row.cpu_us, 0),
    "server CPU µs/job": (lambda row: row.server_cpu_us, 0),
    "client memory idle, MiB": (lambda row: row.rss_idle_bytes / 2**20, 0),
    "client memory per slot, KiB": (lambda row: row.bytes_per_slot / 1024, 1),
}
COLUMNS = (
    "client and server",
    "slots",
    "predicted by the formula",
    "jobs/s (min to max)",
    "measured ÷ predicted",
    "cores busy",
    "sockets",
    "most jobs in hand",
    "client CPU µs/job",
    "server CPU µs/job",
    "relay CPU µs/job",
    "memory idle",
    "memory per slot",
)
# What fits on a terminal of 80 columns.
SHORT_COLUMNS = ("", "jobs/s", "min", "max", "predicted", "ratio", "cores", "sockets")

NOTE = f"""\
Jobs of 100 ms, in jobs per second: the median of the rounds and their range. † At least
{BUSY_SHARE:.0%} of all cores were busy with client, server and relay: that is the machine's limit,
not that of the slots. The Rust client has one socket per slot, so it runs with
{ONE_SOCKET_PER_SLOT_CAP:,} slots where the table has more, and is predicted for those."""
HOW = f"""\
The formula is that of `manyhands worker size`, without its headroom:
slots ÷ (round trip + {GATHER_S * 1000:.0f} ms + job), and slots ÷ (2 × round trip + job) for a
client that waits for the answer to its ACK before it sends the next FETCH. It knows nothing of the
server, so it is right where the slots are the limit, and too high where the server or the machine
is.

Every client drains jobs that sleep for 100 ms, from a server that is fresh for each run, through a
relay that adds the round trip (at 0 ms too, so its cost counts for all). It connects and waits for
work; then all jobs become visible in one step. The rate counts from the moment when the server has
10 % of the jobs done until it has 90 % done or its queue is empty. Within a round all take turns,
in an order that rotates. A run counts only if the server has every job done exactly once.

*Cores busy* is the processor time of client, server and relay per second of the steady part. Server
CPU is that of Faktory and its Redis. *Memory per slot* is the most memory during the run less that
before the first job, divided by the slots.
"""


def _found(report: DrainReport) -> dict[str, dict[str, Row]]:
    """Return the rows by cell and contender."""
    found: dict[str, dict[str, Row]] = {cell.key: {} for cell in report.cells}
    for row in rows(report.runs):
        found[row.cell][row.consumer] = row
    return found


def cores_busy(row: Row) -> float:
    cpu_us = row.cpu_us + row.server_cpu_us + row.relay_cpu_us
    return row.rate.median * cpu_us / 1e6 if row.rate else 0.0


def _ratio(report: DrainReport, cell: Cell, row: Row) -> str:
    """Say how much of the prediction was measured, with a mark where the machine was busy."""
    if row.rate is None:
        return "-"
    ratio = row.rate.median / predicted_jobs_per_s(cell, row.consumer, row.slots)
    is_busy = cores_busy(row) >= BUSY_SHARE * int(report.machine["cores"])
    return f"{ratio:.2f}{BUSY_MARK if is_busy else ''}"


def _summary(report: DrainReport) -> list[str]:
    lines = table_head(SUMMARY_COLUMNS)
    found = _found(report)
    for cell in report.cells:
        words = [f"{cell.rtt_ms} ms", f"{cell.slots:,}"]
        words.append(f"{predicted_jobs_per_s(cell, 'ours', cell.slots):,.0f}")
        words += _measured(report, cell, found[cell.key].get("ours"))
        words += _measured(report, cell, found[cell.key].get("on_broker"))
        rust = found[cell.key].get("rust")
        rust_slots = rust.slots if rust else min(cell.slots, ONE_SOCKET_PER_SLOT_CAP)
        words.append(f"{predicted_jobs_per_s(cell, 'rust', rust_slots):,.0f}")
        words += _measured(report, cell, rust)
        words.append(spread_text(paired_ratio(report.runs, cell.key, {"rust"}), 2))
        lines.append(table_line(words))
    return lines


def _measured(report: DrainReport, cell: Cell, row: Row | None) -> list[str]:
    return [spread_text(row.rate), _ratio(report, cell, row)] if row else ["-", "-"]


def _costs(report: DrainReport) -> list[str]:
    lines = table_head(("median of all cells (min to max)", *COSTS))
    for name, title in CONTENDERS.items():
        good = [row for row in rows(report.runs) if row.consumer == name and row.rate]
        costs = [
            spread_text(Spread.of(map(value, good)), digits) for value, digits in COSTS.values()
        ]
        lines.append(table_line([title, *costs]))
    return lines


def network_section(report: DrainReport) -> list[str]:
    """Return what the guide shows of this benchmark."""
    plot = "![jobs per second](benchmarks/network.svg)"
    return [plot, "", *_tables(report), "", *source_lines(report, "network")]


def _tables(report: DrainReport) -> list[str]:
    return [*_summary(report), "", *NOTE.splitlines(), "", *_costs(report)]


def print_network_report(console: Console, report: DrainReport) -> None:
    for cell in report.cells:
        table = terminal_table(SHORT_COLUMNS, title=cell.title)
        for row in _in_order(report, cell):
            rate = row.rate
            table.add_row(
                CONTENDERS[row.consumer],
                *((f"{x:,.0f}" for x in (rate.median, rate.low, rate.high)) if rate else "---"),
                f"{predicted_jobs_per_s(cell, row.consumer, row.slots):,.0f}",
                _ratio(report, cell, row),
                f"{cores_busy(row):.1f}",
                f"{row.sockets:,.0f}",
            )
        console.print(table, "")
    print_failed(console, report.errors, lambda run: run.consumer)


def _in_order(report: DrainReport, cell: Cell) -> list[Row]:
    found = _found(report)[cell.key]
    return [found[name] for name in CONTENDERS if name in found]


def network_markdown(report: DrainReport) -> str:
    lines = head_lines(report, "Round trips and slots")
    lines += ["![jobs per second](network.svg)", "", *_tables(report), "", HOW]
    lines += machine_lines(report, "network")
    for cell in report.cells:
        lines += ["", f"## {cell.title}", "", *table_head(COLUMNS)]
        lines += [table_line(_detail(report, cell, row)) for row in _in_order(report, cell)]
    return "\n".join([*lines, *failed_lines(report, lambda run: CONTENDERS[run.consumer])]) + "\n"


def _detail(report: DrainReport, cell: Cell, row: Row) -> list[str]:
    return [
        CONTENDERS[row.consumer] + (f" [{row.errors} failed]" if row.errors else ""),
        f"{row.slots:,}",
        f"{predicted_jobs_per_s(cell, row.consumer, row.slots):,.0f}",
        spread_text(row.rate),
        _ratio(report, cell, row),
        f"{cores_busy(row):.1f}",
        *cost_texts(row),
    ]


def _groups(report: DrainReport) -> list[Group]:
    groups = []
    for cell in report.cells:
        ours = predicted_jobs_per_s(cell, "ours", cell.slots)
        bars = [
            Bar(row.consumer, CONTENDERS[row.consumer], rate.median, rate.low, rate.high)
            for row in _in_order(report, cell)
            if (rate := row.rate)
        ]
        groups.append(Group(f"{cell.title}: {ours:,.0f} predicted for Manyhands", bars))
    return groups


def write_network_report(report: DrainReport, directory: Path) -> None:
    picture = draw(_groups(report), "Jobs of 100 ms per second, over a distance")
    write_document(report, directory, "network", markdown=network_markdown(report), picture=picture)

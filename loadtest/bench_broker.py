"""The plan of `bench-broker`: which server runs in which cell and round, and in which order."""

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from loadtest.broker_cells import SERVERS, BrokerCell, DrainCell, PushCell, is_planned
from loadtest.broker_measure import ServerRun, measure_server
from loadtest.broker_report import METRICS
from loadtest.consumers import Consumer
from loadtest.lab import faktory_version
from loadtest.machine import facts, sync_ms
from loadtest.progress import do_all


@dataclass(frozen=True, slots=True)
class ServerStep:
    """One run to be done."""

    cell: BrokerCell
    round: int
    server: str


def plan_servers(
    cells: tuple[BrokerCell, ...], servers: list[str], rounds: int
) -> Iterator[ServerStep]:
    """Yield every run; in each round both servers run once per cell, in rotated order."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            turn = (round_number + index) % len(servers)
            for server in servers[turn:] + servers[:turn]:
                if is_planned(cell, server, round_number):
                    yield ServerStep(cell, round_number, server)


def needed_consumers(cells: tuple[BrokerCell, ...]) -> list[str]:
    """Return the names of the consumers that take part, each once."""
    names = []
    for cell in cells:
        if isinstance(cell, DrainCell):
            names.append(cell.consumer)
        elif not isinstance(cell, PushCell):
            names.append("ours")
    return list(dict.fromkeys(names))


def possible_cells(
    cells: tuple[BrokerCell, ...], consumers: dict[str, Consumer]
) -> tuple[BrokerCell, ...]:
    """Return the cells without those whose consumer could not be built here."""
    return tuple(cell for cell in cells if set(needed_consumers((cell,))) <= set(consumers))


def run_servers(
    console: Console,
    cells: tuple[BrokerCell, ...],
    servers: list[str],
    consumers: dict[str, Consumer],
    *,
    rounds: int,
    jobs: int | None,
) -> tuple[list[ServerRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    return do_all(
        console,
        list(plan_servers(cells, servers, rounds)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SERVERS[step.server]}",
        run=lambda step: measure_server(step.cell, step.server, step.round, consumers, jobs),
        error=lambda run: run.error,
        result=outcome,
    )


def outcome(run: ServerRun) -> str:
    """Say in one line what a run gave: the numbers that the summary will have."""
    words = []
    for metric in METRICS[run.cell.partition("/")[0]]:
        if metric.headline is not None:
            value = run.values[metric.name] / metric.per_unit
            words.append(f"{value:,.{metric.digits}f} {metric.title}")
    return ", ".join(words)


def server_facts() -> dict[str, str]:
    """Return what the machine and the two servers are, so that a table can be judged later."""
    found = {name: value for name, value in facts().items() if "PyPI" not in name}
    disk = sync_ms(Path(tempfile.gettempdir()))
    return found | {
        "Faktory": faktory_version(),
        "SQLite": sqlite3.sqlite_version,
        "one page to disk": f"{disk:.2f} ms (median of fdatasync)",
    }

"""The plan of `bench-broker`: which server runs in which cell and round, and in which order."""

import sqlite3
import tempfile
from pathlib import Path

from rich.console import Console

from loadtest.bench.broker.cells import BrokerCell, DrainCell, PushCell, is_planned
from loadtest.bench.broker.measure import measure_server
from loadtest.bench.broker.report import METRICS
from loadtest.lab.consumers import Consumer
from loadtest.lab.lab import faktory_version
from loadtest.lab.server_runs import SERVERS, ServerRun, outcome, plan_servers
from loadtest.lib.machine import facts, sync_ms
from loadtest.lib.progress import do_all


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
        list(plan_servers(dict.fromkeys(cells, servers), rounds, is_planned)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SERVERS[step.server]}",
        run=lambda step: measure_server(step.cell, step.server, step.round, consumers, jobs),
        error=lambda run: run.error,
        result=lambda run: outcome(run, METRICS),
    )


def server_facts() -> dict[str, str]:
    """Return what the machine and the two servers are, so that a table can be judged later."""
    found = {name: value for name, value in facts().items() if "PyPI" not in name}
    disk = sync_ms(Path(tempfile.gettempdir()))
    return found | {
        "Faktory": faktory_version(),
        "SQLite": sqlite3.sqlite_version,
        "one page to disk": f"{disk:.2f} ms (median of fdatasync)",
    }

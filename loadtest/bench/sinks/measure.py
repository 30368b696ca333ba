"""One measured run of `bench-sinks`: a round of batches with all its sides, or one crawl."""

import subprocess
from collections.abc import Mapping

import asyncpg
import obstore.exceptions
import pyarrow

from devservers.processes import StartError
from loadtest.bench.sinks.batches import SinkServers, write_made_up, write_to_servers
from loadtest.bench.sinks.cells import ALL, BatchCell, SinksCell
from loadtest.bench.sinks.crawl import crawl_into_sinks
from loadtest.lib.errors import RunError
from loadtest.lib.runs import SideRun, Step

Values = dict[str, float]
# Whatever goes wrong with a server or a process: the run does not count, the others do.
TROUBLES = (
    RunError,
    StartError,
    OSError,
    subprocess.TimeoutExpired,
    asyncpg.InterfaceError,
    asyncpg.PostgresError,
    obstore.exceptions.BaseError,
    pyarrow.ArrowException,
)


def measure_sinks(
    step: Step[SinksCell, str], batches: int, servers: SinkServers | None
) -> list[SideRun]:
    """Do one run and return what each of its sides gave, or its error."""
    try:
        found = _measured(step, batches, servers)
    except TROUBLES as error:
        reason = str(error) or type(error).__name__
        return [SideRun(step.cell.key, step.side, step.round, error=reason)]
    return [
        SideRun(step.cell.key, side, step.round, values=values) for side, values in found.items()
    ]


def _measured(
    step: Step[SinksCell, str], batches: int, servers: SinkServers | None
) -> Mapping[str, Values]:
    if not isinstance(step.cell, BatchCell):
        return {step.side: crawl_into_sinks(step.cell.crawl, step.side)}
    assert step.side == ALL
    if step.cell.is_made_up:
        return write_made_up(step.cell, batches)
    assert servers is not None, "they are started for such cells"
    return write_to_servers(step.cell, step.round, batches, servers)

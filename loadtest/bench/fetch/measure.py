"""One run of `bench-fetch`: an origin on one core, a client on another, every page checked."""

import os
import tempfile
from pathlib import Path

from loadtest.bench.fetch.cells import THINK_MS, FetchCell, FetchOrder
from loadtest.bench.fetch.origin import Origin
from loadtest.lib.answering import answer_of, module_command
from loadtest.lib.errors import RunError
from loadtest.lib.runs import SideRun

# Longer than a run can take.
TIMEOUT_S = 120.0


def measure_fetch(
    cell: FetchCell, side: str, round_number: int, program: Path, run_s: float
) -> SideRun:
    try:
        values = _run(cell, side, program, run_s)
    except RunError as error:
        return SideRun(cell.key, side, round_number, error=str(error))
    return SideRun(cell.key, side, round_number, values=values)


def _run(cell: FetchCell, side: str, program: Path, run_s: float) -> dict[str, float]:
    client_core, *others = sorted(os.sched_getaffinity(0))
    origin = Origin(program, THINK_MS, others[0] if others else client_core)
    with origin as announced, tempfile.NamedTemporaryFile("w", suffix=".pem") as authority:
        authority.write(announced.authority)
        authority.flush()
        order = FetchOrder(
            side=side,
            scheme=cell.scheme,
            connections=cell.connections,
            size=cell.size,
            port=announced.https_port if cell.scheme == "https" else announced.http_port,
            authority_file=authority.name,
            seconds=run_s,
            core=client_core,
        )
        return _fetched(order)


def _fetched(order: FetchOrder) -> dict[str, float]:
    command = module_command("loadtest.bench.fetch.handlers", order.to_dict())
    # The authority that our own fetcher trusts; the others are told.
    env = os.environ | {"SSL_CERT_FILE": order.authority_file}
    values: dict[str, float] = answer_of(command, "the client", TIMEOUT_S, env=env)
    return values

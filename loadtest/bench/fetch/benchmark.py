"""The plan of `bench-fetch`: which client runs in which cell and round, and in which order."""

import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console

from loadtest.bench.fetch.cells import SIDES, FetchCell
from loadtest.bench.fetch.measure import FetchRun, measure_fetch
from loadtest.bench.fetch.origin import build_origin
from loadtest.bench.fetch.report import outcome
from loadtest.lib.machine import facts
from loadtest.lib.progress import do_all

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python", "go")
PACKAGES = ("aiohttp", "httptools", "pyreqwest", "httpx", "uvloop")


@dataclass(frozen=True, slots=True)
class FetchStep:
    """One run to be done."""

    cell: FetchCell
    round: int
    side: str


def plan_fetch(
    cells: Sequence[FetchCell], sides: Sequence[str], rounds: int
) -> Iterator[FetchStep]:
    """Yield every run; in each round all clients run a cell once, in rotated order."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            turn = (round_number + index) % len(sides)
            for side in (*sides[turn:], *sides[:turn]):
                yield FetchStep(cell, round_number, side)


def run_fetch(
    console: Console,
    cells: Sequence[FetchCell],
    sides: Sequence[str],
    *,
    rounds: int,
    run_s: float,
) -> tuple[list[FetchRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    program = build_origin()
    return do_all(
        console,
        list(plan_fetch(cells, sides, rounds)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SIDES[step.side]}",
        run=lambda step: measure_fetch(step.cell, step.side, step.round, program, run_s),
        error=lambda run: run.error,
        result=outcome,
    )


def fetch_facts() -> dict[str, str]:
    found = facts()
    return (
        {name: found[name] for name in MACHINE}
        | {name: version(name) for name in PACKAGES}
        | {"TLS": ssl.OPENSSL_VERSION}
    )

"""`bench-state`: what the state store of the crawls costs, and how it is laid out best."""

import contextlib
import sqlite3
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from loadtest.bench.state.measure import (
    SeenState,
    Values,
    measure_costs,
    measure_writers,
    seen_state,
)
from loadtest.lib.machine import facts, sync_ms
from loadtest.lib.progress import do_all

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python")
WRITERS = (1, 2, 4)
WRITE_S = 4.0
ONE_FILE, OWN_FILE = "one", "own"
LAYOUTS = {ONE_FILE: "one file for all", OWN_FILE: "a file each"}
COST_URLS = 200_000
# For each shard, in a round.
SEEN_BATCHES = 12


@dataclass(frozen=True, slots=True)
class StateRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateStep:
    """One run to be done."""

    cell: str
    round: int


def cells(seen: int) -> list[str]:
    shared = [f"writers/{number}/{layout}" for number in WRITERS for layout in LAYOUTS]
    return [*shared, "costs", f"seen/{seen}"]


class StateBench:
    """State: the files with many seen keys, which are made once for all rounds."""

    def __init__(self, seen: int, opened: contextlib.ExitStack) -> None:
        self._seen = seen
        self._opened = opened
        self._state: SeenState | None = None

    def run(self, step: StateStep) -> StateRun:
        return StateRun(step.cell, step.round, values=self._measure(step))

    def _measure(self, step: StateStep) -> Values:
        kind, _, rest = step.cell.partition("/")
        if kind == "writers":
            writers, _, layout = rest.partition("/")
            return measure_writers(int(writers), layout == ONE_FILE, WRITE_S)
        if kind == "costs":
            return measure_costs(COST_URLS)
        if self._state is None:
            self._state = self._opened.enter_context(seen_state(self._seen))
        return self._state.measure(step.round, SEEN_BATCHES)


def run_state(console: Console, seen: int, rounds: int) -> tuple[list[StateRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    with contextlib.ExitStack() as opened:
        bench = StateBench(seen, opened)
        return do_all(
            console,
            [StateStep(cell, number) for number in range(1, rounds + 1) for cell in cells(seen)],
            label=lambda step: f"{step.cell}  round {step.round}/{rounds}",
            run=bench.run,
            error=lambda run: run.error,
            result=outcome,
        )


def outcome(run: StateRun) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in run.values.items())


def state_facts() -> dict[str, str]:
    found = facts()
    disk = sync_ms(Path(tempfile.gettempdir()))
    return {name: found[name] for name in MACHINE} | {
        "SQLite": sqlite3.sqlite_version,
        "one page to disk": f"{disk:.2f} ms (median of fdatasync)",
    }

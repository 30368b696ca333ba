"""`--against REVISION`: a benchmark of ours by this checkout and by another revision, in turns.

Each run is a process of its own in the checkout whose product it measures, by the load test of that
checkout (one_run.py): modules may have other names there.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from devservers.checkout import ROOT
from loadtest.against.checkouts import other_checkout
from loadtest.lib.figures import Figure
from loadtest.lib.progress import do_all
from loadtest.lib.runs import Step, in_turns
from loadtest.lib.stats import Spread

NEW, OLD = "new", "old"
# Longer than any run takes.
RUN_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class AgainstRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    checkout: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgainstReport:
    """Everything that is written down about one comparison."""

    command: str
    date: str
    machine: dict[str, str]
    benchmark: str
    figures: tuple[Figure, ...]
    # Titles by key, in the order in which they are shown.
    cells: Mapping[str, str]
    runs: list[AgainstRun]
    is_complete: bool

    @property
    def errors(self) -> list[AgainstRun]:
        return [run for run in self.runs if run.error]

    def by_round(self, cell: str, checkout: str, name: str) -> dict[int, float]:
        return {
            run.round: run.values[name]
            for run in self.runs
            if (run.cell, run.checkout) == (cell, checkout) and name in run.values
        }

    def spread(self, cell: str, checkout: str, name: str) -> Spread | None:
        return Spread.of(self.by_round(cell, checkout, name).values())

    def gain(self, cell: str, name: str, *, is_less_better: bool) -> Spread | None:
        """Of each round how many times as good the new one is: above 1 it is better."""
        new, old = (self.by_round(cell, one, name) for one in (NEW, OLD))
        return Spread.of_ratios(old, new) if is_less_better else Spread.of_ratios(new, old)


def plan_turns(cells: Sequence[str], rounds: int) -> Iterator[Step[str, str]]:
    """Every run: of each cell and round both checkouts, one right after the other, and now the one,
    now the other first."""
    return in_turns(cells, rounds, lambda _cell, _round: (OLD, NEW))


def run_against(
    console: Console,
    revision: str,
    benchmark: str,
    cells: Sequence[str],
    *,
    rounds: int,
    size: float | None,
) -> tuple[list[AgainstRun], bool]:
    """Do every run with a progress bar; return them and whether all were done. `size` is that of
    the benchmark's own option: jobs, seconds or pages."""
    with other_checkout(revision) as old:
        directories = {NEW: ROOT, OLD: old}
        return do_all(
            console,
            list(plan_turns(cells, rounds)),
            label=lambda step: f"{step.cell}  round {step.round}/{rounds}  {step.side}",
            run=lambda step: _run(directories[step.side], benchmark, step, size),
            error=lambda run: run.error,
            result=lambda run: ", ".join(
                f"{name} {value:,.4g}" for name, value in list(run.values.items())[:4]
            ),
        )


def _run(directory: Path, benchmark: str, step: Step[str, str], size: float | None) -> AgainstRun:
    command = [sys.executable, "-m", "loadtest.one_run", benchmark, step.cell]
    try:
        done = subprocess.run(
            [*command, *([] if size is None else [str(size)])],
            cwd=directory,
            # Before what is installed, which is this checkout's.
            env=os.environ | {"PYTHONPATH": str(directory / "src")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return _failed(step, f"took more than {RUN_TIMEOUT_S:.0f} s")
    if done.returncode:
        return _failed(step, done.stderr.strip()[-500:] or f"ended with {done.returncode}")
    found = json.loads(done.stdout.splitlines()[-1])
    return AgainstRun(step.cell, step.side, step.round, found["error"], found["values"])


def _failed(step: Step[str, str], reason: str) -> AgainstRun:
    return AgainstRun(step.cell, step.side, step.round, error=reason)

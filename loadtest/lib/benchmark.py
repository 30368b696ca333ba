"""The record of a benchmark: all that the command line and `--against` need to know of it.

A benchmark is a folder of loadtest/bench whose module `benchmark` has such a record as BENCHMARK;
nothing else names it.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console

from loadtest.lib.document import AnyRun
from loadtest.lib.figures import Figure
from loadtest.lib.options import Option
from loadtest.lib.report import Report

# Mostly a tuple of cells.
CellsType = TypeVar("CellsType")
ReportType = TypeVar("ReportType", bound=Report[Any, Any])


class Titled(Protocol):
    """A cell of any benchmark."""

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...


class Measured(AnyRun, Protocol):
    """A run with numbers by their names."""

    @property
    def values(self) -> dict[str, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells(Generic[CellsType]):
    """What is measured unless the command line names something else, and how it does so."""

    default: CellsType
    read: Callable[[str], CellsType]
    help: str
    # What --full measures, in how many rounds if not in as many, and what is said of the option.
    full: CellsType | None = None
    full_rounds: int | None = None
    full_help: str = "all cells instead of the core ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """How two revisions are compared by a benchmark."""

    cells: Sequence[Titled]
    # Not every cell has every number. The first is a rate.
    figures: tuple[Figure, ...]
    # One run of ours, of the cell with this key.
    measure: Callable[[str, float | None], Measured]
    # The option that says how much a run does; what it says is handed to `measure`.
    size: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted(Generic[CellsType]):
    """What a benchmark is asked to do. `options` has those of its own; `machine` is what it said of
    the machine."""

    cells: CellsType
    rounds: int
    options: argparse.Namespace
    machine: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Generic[CellsType, ReportType]):
    name: str
    help: str
    rounds: int
    # What to know of the machine and of what takes part, so that a table can be judged later.
    facts: Callable[[], dict[str, str]]
    # Does every run with a progress bar.
    run: Callable[[Console, Wanted[CellsType]], ReportType]
    show: Callable[[Console, ReportType], None]
    # Writes NAME.md, NAME.json and NAME.svg to a directory.
    write: Callable[[ReportType, Path], None]
    cells: Cells[CellsType] | None = None
    # Of its own, in the order of the help.
    options: tuple[Option, ...] = ()
    against: Against | None = None
    # What the guide shows of it (guide.py).
    section: Callable[[ReportType], list[str]] | None = None

"""What is written down about one benchmark, whatever it measured."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Self, TypeVar

from loadtest.lib.cell_keys import Keyed
from loadtest.lib.document import AnyRun
from loadtest.lib.figures import Figure
from loadtest.lib.runs import SideRun
from loadtest.lib.stats import Spread

CellType = TypeVar("CellType")
KeyedType = TypeVar("KeyedType", bound=Keyed)
RunType = TypeVar("RunType", bound=AnyRun)


def command_line() -> str:
    """As a user would type it."""
    return shlex.join(["python", "-m", "loadtest", *sys.argv[1:]])


def date_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class Report(Generic[CellType, RunType]):
    command: str
    date: str
    machine: dict[str, str]
    cells: Sequence[CellType]
    runs: list[RunType]
    is_complete: bool

    @classmethod
    def of(
        cls, machine: dict[str, str], cells: Sequence[CellType], done: tuple[list[RunType], bool]
    ) -> Self:
        """Of runs that were just done, and whether all of them were."""
        return cls(command_line(), date_text(), machine, cells, *done)

    @property
    def errors(self) -> list[RunType]:
        return [run for run in self.runs if run.error]


@dataclass(frozen=True, slots=True)
class SideReport(Report[KeyedType, SideRun]):
    """Of a benchmark that compares sides."""

    def values(self, cell: Keyed, side: str, name: str) -> dict[int, float]:
        """By round."""
        return {
            run.round: run.values[name]
            for run in self.runs
            if run.cell == cell.key and run.side == side and name in run.values
        }

    def spread(self, cell: Keyed, side: str, name: str) -> Spread | None:
        return Spread.of(self.values(cell, side, name).values())

    def shown(self, cell: Keyed, side: str, figure: Figure) -> str:
        return figure.shown(self.spread(cell, side, figure.name))

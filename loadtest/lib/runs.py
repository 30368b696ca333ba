"""Runs of a benchmark: in which order they are done, and what each gave. Pure."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

CellType = TypeVar("CellType")
SideType = TypeVar("SideType")


@dataclass(frozen=True, slots=True)
class Step(Generic[CellType, SideType]):
    """One run to be done. A side is whatever is compared: a client, a server, a checkout."""

    cell: CellType
    round: int
    side: SideType


@dataclass(frozen=True, slots=True)
class SideRun:
    """What one side gave in one round, by the name of each number; with `error` set, there are
    none."""

    cell: str
    side: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


def in_turns(
    cells: Collection[CellType],
    rounds: int,
    sides_of: Callable[[CellType, int], Sequence[SideType]],
) -> Iterator[Step[CellType, SideType]]:
    """Yield every run; in each round all sides of a cell run once, in an order that rotates. Which
    sides those are may depend on the round."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            for side in rotated(sides_of(cell, round_number), round_number + index):
                yield Step(cell, round_number, side)


def rotated(sides: Sequence[SideType], turn: int) -> tuple[SideType, ...]:
    first = turn % len(sides)
    return (*sides[first:], *sides[:first])

"""What a benchmark must reach, and whether it did. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line

ReportType = TypeVar("ReportType")
# What was asked, what came out, and whether that is enough.
Verdict = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Target(Generic[ReportType]):
    """Between what a number must lie in the median of the rounds."""

    text: str
    found: Callable[[ReportType], Spread | None]
    least: float = -inf
    most: float = inf
    digits: int = 2


def verdicts(report: ReportType, targets: Iterable[Target[ReportType]]) -> list[Verdict]:
    """Of each target; nothing for what was not run."""
    found = ((target, target.found(report)) for target in targets)
    return [
        (
            target.text,
            spread_text(value, target.digits),
            "met" if target.least <= value.median <= target.most else "missed",
        )
        for target, value in found
        if value is not None
    ]


def verdict_lines(rows: Sequence[Verdict]) -> list[str]:
    return [*table_head(("target", "median (min to max)", "")), *map(table_line, rows)]

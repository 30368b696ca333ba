"""Medians, ranges and percentiles. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some values."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        found = list(values)
        return cls(statistics.median(found), min(found), max(found)) if found else None

    @classmethod
    def of_ratios(cls, ours: Mapping[int, float], theirs: Mapping[int, float]) -> "Spread | None":
        """Compare round by round; a round that one of them lacks is left out."""
        return cls.of(ours[number] / theirs[number] for number in ours if theirs.get(number, 0) > 0)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed; 0 of none."""
    if not values:
        return 0.0
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]

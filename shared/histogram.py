"""Counts of values by size, as Prometheus wants them. Pure."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """State: how many values were at most each bound (and above the one before it), one more
    count for those above all bounds, and the sum of all."""

    __slots__ = ("_bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.buckets[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def mean(self) -> float:
        """0 before the first value."""
        return self.sum / max(1, sum(self.buckets))

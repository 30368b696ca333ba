"""How late the event loop runs: the time a job that is ready has to wait for its turn."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

# A hundred samples between two snapshots, so that a 99th percentile means something. Waking an idle
# process for them costs a fifth of a percent of a core.
LOOK_EVERY_S = 0.05


class Lag(NamedTuple):
    p50_s: float
    p99_s: float
    max_s: float


def lags_of(late_s: float, every_s: float) -> list[float]:
    """A late sample has kept others from being taken: what they would have measured counts too, or
    a loop that stood still half the time would be late in only one sample of many."""
    return [late_s - missed * every_s for missed in range(int(late_s / every_s) + 1)]


def summarize(lags: Sequence[float]) -> Lag:
    if not lags:
        return Lag(0.0, 0.0, 0.0)
    ordered = sorted(lags)
    return Lag(percentile(ordered, 50), percentile(ordered, 99), ordered[-1])


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of a hundred do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[rank - 1]


class LoopLag:
    """State: the samples since the last `take`, the worst since the last `take_worst_s`, and when
    the next sample is due."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lags: list[float] = []
        self._worst_s = 0.0
        self._due_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        # Not by the loop's clock: uvloop's stands still while callbacks run.
        self._due_at = time.monotonic() + LOOK_EVERY_S
        self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def take(self) -> Lag:
        lags, self._lags = self._lags, []
        return summarize(lags)

    def take_worst_s(self) -> float:
        worst_s, self._worst_s = self._worst_s, 0.0
        return worst_s

    def _look(self) -> None:
        late_s = max(0.0, time.monotonic() - self._due_at)
        self._lags += lags_of(late_s, LOOK_EVERY_S)
        self._worst_s = max(self._worst_s, late_s)
        self.start()

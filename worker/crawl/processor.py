"""How much of the time a thread has work, be it that it runs or that it waits for a processor."""

import threading
import time
from collections import deque
from pathlib import Path

# Linux: nanoseconds in which the thread ran, and in which it was ready and waited for a processor.
_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_NANOSECONDS = 1e9


class ProcessorShare:
    """Of the thread that made it, over the last seconds. State: what was read in that time."""

    def __init__(self, now: float, over_s: float) -> None:
        self._over_s = over_s
        self._thread = threading.get_ident()
        self._samples: deque[tuple[float, float]] = deque([(now, thread_busy_s())])

    def look(self, now: float) -> None:
        """From time to time, by the same thread."""
        assert threading.get_ident() == self._thread, "it would be another thread's share"
        self._samples.append((now, thread_busy_s()))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self._over_s:
            self._samples.popleft()

    def percent(self) -> int:
        (began_at, busy_before), (ended_at, busy) = self._samples[0], self._samples[-1]
        if ended_at <= began_at:
            return 0
        return min(100, round(100 * (busy - busy_before) / (ended_at - began_at)))


def thread_busy_s() -> float:
    """Where the kernel does not say how long the thread waited, only the time that it ran."""
    try:
        ran, waited, *_ = _SCHEDSTAT.read_text().split()
        return (int(ran) + int(waited)) / _NANOSECONDS
    except (OSError, ValueError):
        return time.thread_time()

"""A call that several parts may ask for, made once per turn of the loop.

The parts that ask need not know who is called.
"""

import asyncio
from collections.abc import Callable
from math import inf


class Wakeup:
    """State: the callback, whether a call is due, and the timer of a later one with its time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._call: Callable[[], None] | None = None
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    def calls(self, call: Callable[[], None]) -> None:
        self._call = call

    def wake(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._ring)

    def wake_at(self, at: float) -> None:
        """On the loop's clock. An earlier timer stays: its call finds out what is due next, and
        a new timer for every page would cost more."""
        if at >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._time_came)

    def _time_came(self) -> None:
        self._timer, self._timer_at = None, inf
        self.wake()

    def _ring(self) -> None:
        self._is_due = False
        if self._call is not None:
            self._call()

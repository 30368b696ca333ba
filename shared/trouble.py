"""Trouble that lasts is logged once, not with every attempt."""

import time
from collections.abc import Callable


class Trouble:
    """Says whether to log: a new trouble at once, the same one again after `again_s`, so that a log
    that was rotated still shows it. State: the last trouble, and when it was logged."""

    def __init__(self, again_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._again_s = again_s
        self._clock = clock
        self._last = ""
        self._logged_at = 0.0

    def is_news(self, trouble: str) -> bool:
        """True if the caller should log it now."""
        now = self._clock()
        if trouble == self._last and now - self._logged_at < self._again_s:
            return False
        self._last, self._logged_at = trouble, now
        return True

    def end(self) -> bool:
        """It works again; True if there was trouble since the last call."""
        had_trouble, self._last = bool(self._last), ""
        return had_trouble

"""Notices that nothing moves. Pure."""

AFTER_S = 30.0


class Stall:
    """State: what was last seen, since when, and whether the stall has been reported."""

    def __init__(self, now: float, after_s: float = AFTER_S) -> None:
        self._after_s = after_s
        self._seen: tuple[object, ...] | None = None
        self._since = now
        self._is_told = False

    def look(self, seen: tuple[object, ...], now: float) -> bool:
        """True once for each long time without a change."""
        if seen != self._seen:
            self._seen, self._since, self._is_told = seen, now, False
        if self._is_told or now - self._since < self._after_s:
            return False
        self._is_told = True
        return True

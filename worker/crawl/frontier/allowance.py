"""How many pages of a crawl with a limit this process may fetch without asking. Pure; `now` is
seconds on a clock that never goes back.

What one process holds, another cannot fetch, so little is asked for where little is needed: a few
pages first, four times as many where they are gone in no time, half as many where they last. It is
asked for ahead, so that a crawl with a limit waits for it no more than one without.
"""

from dataclasses import dataclass

FIRST = 4
MOST_AT_ONCE = 1_000
GROWTH = 4
# A grant that is used up sooner was too small; one that lasts longer, too large.
TOO_FEW_S = 0.5
TOO_MANY_S = 4.0
# A process that fetches nothing for this long returns its pages.
IDLE_S = 2.0
# All pages are granted: some may be returned.
ASK_AGAIN_S = 0.2


@dataclass(slots=True)
class Allowance:
    """State: the pages that may be begun; those begun and not ended, and how many of these come
    from a grant that may have gone to others since; the size and time of the last grant, and when a
    page was last begun."""

    left: int = 0
    begun: int = 0
    _outdated: int = 0
    _size: int = FIRST
    _given_at: float | None = None
    _used_at: float = 0.0

    @property
    def held(self) -> int:
        """Pages that nobody else may fetch, and that no store counts yet."""
        return self.left + self.begun

    @property
    def is_low(self) -> bool:
        """More should be asked for."""
        return self.left <= self._size // 2

    def wanted(self, limit: int, members: int, now: float) -> int:
        """How many to ask for: few enough that all members fetch until the limit is reached."""
        if self._given_at is not None:
            lasted_s = now - self._given_at
            if lasted_s < TOO_FEW_S:
                self._size *= GROWTH
            elif lasted_s > TOO_MANY_S:
                self._size //= 2
        share = min(MOST_AT_ONCE, limit // (2 * max(1, members)))
        self._size = max(1, min(self._size, share))
        return self._size

    def given(self, pages: int, now: float) -> None:
        self.left += pages
        self._given_at = self._used_at = now

    def begin(self, now: float) -> None:
        self.left -= 1
        self.begun += 1
        self._used_at = now

    def came_to_nothing(self) -> None:
        """A request brought no page: another may be sent in its place."""
        if not self._outdated:
            self.left += 1

    def ended(self) -> None:
        """A page that was begun has ended, and the store has recorded it."""
        self.begun -= 1
        self._outdated = max(0, self._outdated - 1)

    def take_unused(self, now: float) -> int:
        """Pages to return, for others to fetch."""
        if now - self._used_at < IDLE_S:
            return 0
        unused, self.left = self.left, 0
        return unused

    def forget(self) -> None:
        """The grant may have gone to others since."""
        self.left = 0
        self._outdated = self.begun

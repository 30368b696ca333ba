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
# Pages that are gone sooner were too few, and those that last longer too many.
TOO_FEW_S = 0.5
TOO_MANY_S = 4.0
# Whoever fetches nothing for so long needs none.
IDLE_S = 2.0
# All pages are given out: some may come back.
ASK_AGAIN_S = 0.2


@dataclass(slots=True)
class Allowance:
    """State: the pages that may be begun; those that were begun and have not come to their end,
    and how many of these were given by somebody who may have given them again since; how many were
    given last and when, and when a page was begun last."""

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
        """How many to ask for: never so many that others could not fetch to the end with us."""
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
        """A page that was begun is none: another may be fetched in its place."""
        if not self._outdated:
            self.left += 1

    def ended(self) -> None:
        """What was begun has come to its end, and the store knows."""
        self.begun -= 1
        self._outdated = max(0, self._outdated - 1)

    def take_unused(self, now: float) -> int:
        """What is to be given to others."""
        if now - self._used_at < IDLE_S:
            return 0
        unused, self.left = self.left, 0
        return unused

    def forget(self) -> None:
        """What was given may have been given to others since."""
        self.left = 0
        self._outdated = self.begun

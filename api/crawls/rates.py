"""Pages per second, from two looks at a counter. Pure."""

from collections import OrderedDict
from typing import NamedTuple

# The least time between two looks, and for how long a look is of use.
APART_S = 2.0
KEPT_S = 60.0
MAX_CRAWLS = 1000


class Look(NamedTuple):
    at: float
    pages: int


class Rates:
    """State: the last two looks at each crawl that clients ask for."""

    def __init__(self) -> None:
        self._looks: OrderedDict[int, tuple[Look, Look]] = OrderedDict()

    def look(self, crawl: int, pages: int, now: float) -> float | None:
        """What the rate was since the look before the last; None without one."""
        this = Look(now, pages)
        older, newer = self._looks.get(crawl, (this, this))
        if now - newer.at > KEPT_S or pages < newer.pages:
            older = newer = this
        elif now - newer.at >= APART_S:
            older, newer = newer, this
        self._looks[crawl] = older, newer
        self._looks.move_to_end(crawl)
        if len(self._looks) > MAX_CRAWLS:
            self._looks.popitem(last=False)
        passed_s = now - older.at
        return (pages - older.pages) / passed_s if passed_s >= APART_S else None

"""Fetches the robots.txt of an origin when its rules are neither in memory nor stored."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import LeaseLost, StoredRobots
from manyhands.shared.errors import ManyhandsError
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.politeness.robots_cache import RobotsCache, fetch_robots
from manyhands.worker.net.fetcher import HopFetcher

CACHE_BYTES = 64 * 1024 * 1024


class NotKept(ManyhandsError):
    """Raised by a fetcher that archives answers: it could not, and we are about to stop."""


class KeptByOwner(Protocol):
    """Where the owner of the origin keeps robots.txt files."""

    async def load(self, origin: str) -> StoredRobots | None: ...

    async def keep(self, origin: str, robots: StoredRobots) -> None: ...

    def under_lease(self) -> AbstractAsyncContextManager[Callable[[], None]]:
        """Requests are made inside, which raises LeaseLost when the lease ends; so does what it
        gives, to be called directly before each request is sent."""


@dataclass(slots=True)
class Learned:
    """`rules` is None when they are unknown: the lease is lost, we stop, or there was an `error`.
    `was_requested`: a request was sent, so the origin's delay applies."""

    rules: RobotsRules | None = None
    was_requested: bool = False
    error: Exception | None = None


class RobotsFetches:
    """State: the rules in memory, and how many requests came to what."""

    def __init__(self, fetcher: HopFetcher, retry_s: float) -> None:
        self.outcomes = Counter({"answered": 0, "unreachable": 0, "cut short": 0})
        self._fetcher = fetcher
        self._cache = RobotsCache(CACHE_BYTES, retry_s, clock.now)

    def known(self, origin: str) -> RobotsRules | None:
        """Rules in memory that have not expired."""
        return self._cache.peek(origin)

    async def learn(
        self,
        origin: str,
        state: OriginState,
        kept: KeptByOwner,
        *,
        user_agent: str,
        patience_s: float,
    ) -> Learned:
        """Raises nothing. Failures are noted in `state`, which the caller stores."""
        source = _Source(kept, self._fetcher, user_agent)
        learned = Learned()
        try:
            learned.rules = await self._cache.get(origin, source, state, patience_s)
        except (LeaseLost, NotKept):
            pass
        except Exception as error:
            learned.error = error
        learned.was_requested = source.was_requested
        if learned.was_requested:
            self.outcomes[_outcome(learned.rules)] += 1
        return learned

    async def close(self) -> None:
        """End what is under way; those who wait for it are cancelled."""
        await self._cache.close()


def _outcome(rules: RobotsRules | None) -> str:
    if rules is None:
        return "cut short"
    return "unreachable" if rules.is_unreachable else "answered"


class _Source:
    """State: whether a request was sent."""

    def __init__(self, kept: KeptByOwner, fetcher: HopFetcher, user_agent: str) -> None:
        self._kept = kept
        self._fetcher = fetcher
        self._user_agent = user_agent
        self.was_requested = False
        self.load = kept.load
        self.keep = kept.keep

    async def fetch(self, origin: str) -> StoredRobots:
        self.was_requested = True
        async with self._kept.under_lease() as check:
            return await fetch_robots(
                self._fetcher, origin, user_agent=self._user_agent, check=check, now=clock.now
            )

"""Finds the rules of an origin: in memory, in the shard's store, on the network, in this order."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Protocol

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.single_flight import SingleFlight
from manyhands.shared.urls import parse_url, resolve_reference
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.robots import (
    MAX_BYTES,
    SHORTEST_CACHE_S,
    UNREACHABLE,
    RobotsRules,
    after_failure,
    judge,
    lifetime_s,
    rules_of,
    unavailable,
    unreachable,
)
from manyhands.worker.net.fetcher import REDIRECTS, FetchError, ForbiddenAddress, HopFetcher

MAX_REDIRECTS = 5
# A larger one takes tens of milliseconds to parse: not in the event loop.
PARSED_IN_A_THREAD_BYTES = 20_000


class RobotsSource(Protocol):
    """Of the origin's shard. `fetch` is `fetch_robots` with its arguments."""

    async def load(self, origin: str) -> StoredRobots | None: ...

    async def keep(self, origin: str, robots: StoredRobots) -> None: ...

    async def fetch(self, origin: str) -> StoredRobots: ...


class RobotsCache:
    """The most recently used rules, parsed, bounded by their bytes.

    State: the rules by origin, their total size, and the requests under way, one per origin.
    """

    def __init__(
        self,
        most_bytes: int,
        retry_s: float,
        now: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.size_bytes = 0
        self._most_bytes = most_bytes
        self._retry_s = retry_s
        self._now = now
        self._jitter = jitter
        self._rules: OrderedDict[str, RobotsRules] = OrderedDict()
        self._asking: SingleFlight[RobotsRules] = SingleFlight("robots of")

    def __len__(self) -> int:
        return len(self._rules)

    def peek(self, origin: str) -> RobotsRules | None:
        """Rules in memory that have not expired."""
        rules = self._rules.get(origin)
        if rules is None:
            return None
        if rules.expires_at <= self._now():
            self._forget(origin)
            return None
        self._rules.move_to_end(origin)
        return rules

    async def get(
        self, origin: str, source: RobotsSource, state: OriginState, patience_s: float = inf
    ) -> RobotsRules:
        """The rules that apply now, also when the robots.txt is unreachable, see `RobotsRules`.
        Failures are noted in `state`, which the caller stores; one attempt is made when the
        patience ends. Raises what the source raises."""
        rules = self.peek(origin)
        if rules is not None:
            return rules
        return await self._asking.run(
            origin, lambda: self._obtain(origin, source, state, patience_s)
        )

    async def close(self) -> None:
        """End what is under way; those who wait for it are cancelled."""
        await self._asking.close()

    async def _obtain(
        self, origin: str, source: RobotsSource, state: OriginState, patience_s: float
    ) -> RobotsRules:
        stored = await source.load(origin)
        if stored is None or stored.expires_at <= self._now():
            stored = await self._refresh(origin, source, state, stored, patience_s)
            await source.keep(origin, stored)
        if len(stored.body) > PARSED_IN_A_THREAD_BYTES:
            rules = await asyncio.to_thread(rules_of, stored)
        else:
            rules = rules_of(stored)
        self._remember(origin, rules)
        return rules

    async def _refresh(
        self,
        origin: str,
        source: RobotsSource,
        state: OriginState,
        previous: StoredRobots | None,
        patience_s: float,
    ) -> StoredRobots:
        fetched = await source.fetch(origin)
        if fetched.kind != UNREACHABLE:
            state.robots_known()
            return fetched
        now = self._now()
        retry_at = state.robots_failed(
            now, retry_s=self._retry_s, patience_s=patience_s, jitter=self._jitter()
        )
        retry_at = max(retry_at, fetched.expires_at)
        return after_failure(
            fetched,
            previous,
            failing_since=state.robots_failing_since,
            now=now,
            retry_at=retry_at,
        )

    def _remember(self, origin: str, rules: RobotsRules) -> None:
        self._forget(origin)
        self._rules[origin] = rules
        self.size_bytes += rules.size_bytes
        while self.size_bytes > self._most_bytes:
            self._forget(next(iter(self._rules)))

    def _forget(self, origin: str) -> None:
        rules = self._rules.pop(origin, None)
        if rules is not None:
            self.size_bytes -= rules.size_bytes


async def fetch_robots(
    fetcher: HopFetcher,
    origin: str,
    *,
    user_agent: str,
    check: Callable[[], None],
    now: Callable[[], float],
) -> StoredRobots:
    """Fetch an origin's robots.txt, following up to five redirects, also to other hosts; the result
    applies to the origin. Raises only what `check` raises.

    A forbidden address counts as a missing robots.txt for a minute: a page at that address is
    refused for the same reason, which is then reported."""
    url = parse_url(f"{origin}/robots.txt")
    cache_control = ""
    for _ in range(MAX_REDIRECTS + 1):
        try:
            answer = await fetcher.get(
                url,
                user_agent=user_agent,
                max_bytes=MAX_BYTES,
                check=check,
                wants_body=_wants_body,
            )
        except ForbiddenAddress:
            return unavailable(now(), SHORTEST_CACHE_S)
        except FetchError as error:
            return unreachable(error.reason, now(), now())
        cache_control = answer.cache_control
        if answer.status not in REDIRECTS or answer.location is None:
            return judge(answer, now())
        try:
            url = resolve_reference(url, answer.location)
        except InvalidUrl:
            break
    return unavailable(now(), lifetime_s(cache_control))


def _wants_body(status: int, _content_type: str) -> bool:
    return 200 <= status < 300

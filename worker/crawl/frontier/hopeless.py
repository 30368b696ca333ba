"""Gives up origins that have been out of reach for longer than their crawls will wait. Checked once
a second, some origins at a time."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.loading import Hopeless, end_hopeless
from manyhands.worker.crawl.shards.owned import OwnedShard

LOOK_S = 1.0


class EndsHopeless(Protocol):
    """Ends URLs that will not be requested, and records them. `room` is for how many more."""

    @property
    def room(self) -> int: ...

    def end_unrequested(self, shard: OwnedShard, claimed: ClaimedUrl, settled: Settled) -> None: ...


class HopelessOrigins:
    """Of one shard. Without `ends` the store ends them. State: when to check (the loop's clock),
    and the `ready_at` up to which origins were checked (the store's clock)."""

    def __init__(self, shard: OwnedShard, crawls: LiveCrawls, ends: "EndsHopeless | None") -> None:
        self._loop = asyncio.get_running_loop()
        self._shard = shard
        self._crawls = crawls
        self._ends = ends
        self._look_at = 0.0
        self._looked_to = 0.0
        self._log = get_logger("crawl")

    def look_if_time(self) -> Callable[[ShardStore], Hopeless] | None:
        """The check to run in the store's thread, if it is time."""
        now = self._loop.time()
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_S
        after = max(self._looked_to, clock.now())
        claims = None if self._ends is None else max(0, self._ends.room)
        return partial(end_hopeless, patiences=self._crawls.patiences, after=after, claims=claims)

    def found(self, found: Hopeless) -> None:
        self._looked_to = found.looked_to
        if self._ends is not None:
            for url, reason in found.claimed:
                settled = Settled(url.id, UrlState.FAILED, reason=reason, attempts=url.attempts)
                self._ends.end_unrequested(self._shard, url, settled)
        for origin, reason, urls in found.given_up:
            self._log.info("host given up", origin=origin, reason=reason, urls=urls)

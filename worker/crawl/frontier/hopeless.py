"""Gives up origins that have been out of reach for longer than their crawls will wait. Checked once
a second, some origins at a time."""

import asyncio
from collections.abc import Callable
from functools import partial

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.loading import Hopeless, end_hopeless

LOOK_S = 1.0


class HopelessOrigins:
    """Of one shard. State: when to check next (the loop's clock), and the `ready_at` up to which
    origins were checked (the store's clock)."""

    def __init__(self, crawls: LiveCrawls) -> None:
        self._loop = asyncio.get_running_loop()
        self._crawls = crawls
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
        return partial(end_hopeless, patiences=self._crawls.patiences, after=after)

    def found(self, found: Hopeless) -> None:
        self._looked_to = found.looked_to
        for origin, reason, urls in found.given_up:
            self._log.info("host given up", origin=origin, reason=reason, urls=urls)

"""Writes to the shards' stores that share transactions: how URLs ended, and what to remember of
domains and hosts."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import Settled
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads

StoreFailed = Callable[[OwnedShard, Exception], None]


class Settling:
    """State: the last shared write of each shard. `settles` announces what the store is going to be
    told. `store_failed` gives a shard up when a write
    fails; its next owner repeats the work."""

    def __init__(self, store: StoreThreads, store_failed: StoreFailed) -> None:
        self._store = store
        self._store_failed = store_failed
        self._last: dict[int, asyncio.Future[None]] = {}
        self.settles: Announcement[[OwnedShard, Settled]] = Announcement()

    def settle(self, shard: OwnedShard, settled: Settled) -> "asyncio.Future[None]":
        """Done when the store has it; fails when the shard is given up."""
        self.settles(shard, settled)
        told = self._store.change_together(shard.number, _settle, settled)
        if told is not self._last.get(shard.number):
            self._last[shard.number] = told
            self._watch(shard, told)
        return told

    def tell(self, shard: OwnedShard, change: Callable[[ShardStore], None]) -> None:
        self._watch(shard, self._store.change_some_time(shard.number, change))

    def hurry(self) -> None:
        """Write now what waits to share a transaction."""
        self._store.lose_patience()

    def _watch(self, shard: OwnedShard, told: "asyncio.Future[Any]") -> None:
        shard.under_way.add(told)
        told.add_done_callback(partial(self._told, shard))

    def _told(self, shard: OwnedShard, told: "asyncio.Future[Any]") -> None:
        shard.under_way.discard(told)
        error = told.exception()
        if isinstance(error, Exception):
            self._store_failed(shard, error)


def _settle(store: ShardStore, settled: list[Settled]) -> None:
    store.settle(settled, clock.now())

"""What the shards' stores are told of URLs: many at a time, and whoever wants to know hears when it
is stored."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from shared.state.model import Settled
from shared.state.protocol import ShardStore
from worker.crawl.hosts import OwnedShard
from worker.crawl.store_thread import StoreThread

StoreFailed = Callable[[OwnedShard, Exception], None]


class _Batch(NamedTuple):
    settled: list[Settled]
    is_over: "asyncio.Future[None]"


class Settling:
    """State: what was not handed to the store yet, by shard. `store_failed` gives a shard up: what
    its store does not take, its next owner does again."""

    def __init__(self, store: StoreThread, store_failed: StoreFailed) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._store_failed = store_failed
        self._waiting: dict[int, _Batch] = {}

    def settle(self, shard: OwnedShard, settled: Settled) -> "asyncio.Future[None]":
        """Done, and never with an error, when the store has it or the shard is given up."""
        batch = self._waiting.get(shard.number)
        if batch is None:
            batch = self._waiting[shard.number] = _Batch([], self._loop.create_future())
            # With all that follows in this turn of the loop.
            self._loop.call_soon(self._flush_soon, shard)
        batch.settled.append(settled)
        return batch.is_over

    def tell(
        self,
        shard: OwnedShard,
        change: Callable[[ShardStore], None],
        is_over: "asyncio.Future[None] | None" = None,
    ) -> None:
        shard.in_flight += 1
        told = self._store.change_some_time(shard.number, change)
        told.add_done_callback(partial(self._told, shard, is_over))

    async def flush(self, shard: OwnedShard) -> None:
        batch = self._waiting.pop(shard.number, None)
        if batch is None:
            return
        try:
            await self._store.change(shard.number, partial(_settle, settled=batch.settled))
        finally:
            _end(batch.is_over)

    def forget(self, shard: OwnedShard) -> None:
        batch = self._waiting.pop(shard.number, None)
        if batch is not None:
            _end(batch.is_over)

    def _flush_soon(self, shard: OwnedShard) -> None:
        batch = self._waiting.pop(shard.number, None)
        if batch is not None:
            self.tell(shard, partial(_settle, settled=batch.settled), batch.is_over)

    def _told(
        self,
        shard: OwnedShard,
        is_over: "asyncio.Future[None] | None",
        told: "asyncio.Future[None]",
    ) -> None:
        shard.in_flight -= 1
        error = told.exception()
        if isinstance(error, Exception):
            self._store_failed(shard, error)
        if is_over is not None:
            _end(is_over)


def _settle(store: ShardStore, settled: list[Settled]) -> None:
    store.settle(settled, time.time())


def _end(is_over: "asyncio.Future[None]") -> None:
    if not is_over.done():
        is_over.set_result(None)

"""What the shards' stores are told of URLs, without waiting for it: many at a time."""

import asyncio
import time
from collections.abc import Callable

from shared.state.model import Settled
from shared.state.protocol import ShardStore
from worker.crawl.hosts import OwnedShard
from worker.crawl.store_thread import StoreThread
from worker.crawl.tasks import Tasks

StoreFailed = Callable[[OwnedShard, Exception], None]


class Settling:
    """State: what was not handed to the store yet, by shard. `store_failed` gives a shard up: what
    its store does not take, its next owner does again."""

    def __init__(self, store: StoreThread, tasks: Tasks, store_failed: StoreFailed) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._tasks = tasks
        self._store_failed = store_failed
        self._waiting: dict[int, list[Settled]] = {}

    def settle(self, shard: OwnedShard, settled: Settled) -> None:
        waiting = self._waiting.setdefault(shard.number, [])
        if not waiting:
            # With all that follows in this turn of the loop.
            self._loop.call_soon(self._flush_soon, shard)
        waiting.append(settled)

    def tell(self, shard: OwnedShard, change: Callable[[ShardStore], None]) -> None:
        self._tasks.spawn(self._told(shard, change))

    async def flush(self, shard: OwnedShard) -> None:
        settled = self._waiting.pop(shard.number, None)
        if settled:
            await self._store.change(shard.number, lambda store: store.settle(settled, time.time()))

    def forget(self, shard: OwnedShard) -> None:
        self._waiting.pop(shard.number, None)

    def _flush_soon(self, shard: OwnedShard) -> None:
        settled = self._waiting.pop(shard.number, None)
        if settled:
            self.tell(shard, lambda store: store.settle(settled, time.time()))

    async def _told(self, shard: OwnedShard, change: Callable[[ShardStore], None]) -> None:
        shard.in_flight += 1
        try:
            await self._store.change_some_time(shard.number, change)
        except Exception as error:
            self._store_failed(shard, error)
        finally:
            shard.in_flight -= 1

"""The robots.txt files that a shard's store keeps, and the lease that asking for them needs."""

from contextlib import AbstractAsyncContextManager

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.shards.open_requests import Check, OpenRequests
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads


class RobotsStores:
    """Of all shards."""

    def __init__(self, store: StoreThreads, requests: OpenRequests) -> None:
        self._store = store
        self._requests = requests

    def of(self, shard: OwnedShard) -> "KeptRobots":
        return KeptRobots(self._store, self._requests, shard)


class KeptRobots:
    """Of one shard."""

    def __init__(self, store: StoreThreads, requests: OpenRequests, shard: OwnedShard) -> None:
        self._store = store
        self._requests = requests
        self._shard = shard

    async def load(self, origin: str) -> StoredRobots | None:
        return await self._store.change_with(self._shard.number, _robots, origin)

    async def keep(self, origin: str, robots: StoredRobots) -> None:
        await self._store.change(
            self._shard.number, lambda store: store.keep_robots(origin, robots)
        )

    def under_lease(self) -> AbstractAsyncContextManager[Check]:
        return self._requests.under_lease_of(self._shard)


def _robots(store: ShardStore, origins: list[str]) -> list[StoredRobots | None]:
    kept = store.robots(origins)
    return [kept.get(origin) for origin in origins]

"""The robots.txt files that a shard's store keeps, and the lease that asking for them needs."""

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads


class RobotsStores:
    """Of all shards."""

    def __init__(self, store: StoreThreads, lease_guard: LeaseGuard) -> None:
        self._store = store
        self._lease_guard = lease_guard

    def of(self, shard: OwnedShard) -> "KeptRobots":
        return KeptRobots(self._store, self._lease_guard, shard)


class KeptRobots:
    """Of one shard."""

    def __init__(self, store: StoreThreads, lease_guard: LeaseGuard, shard: OwnedShard) -> None:
        self._store = store
        self._lease_guard = lease_guard
        self._shard = shard

    async def load(self, origin: str) -> StoredRobots | None:
        return await self._store.change(self._shard.number, lambda store: store.robots(origin))

    async def keep(self, origin: str, robots: StoredRobots) -> None:
        await self._store.change(
            self._shard.number, lambda store: store.keep_robots(origin, robots)
        )

    def check(self) -> None:
        self._lease_guard.check(self._shard.number, self._shard.epoch)

"""A safety net: finds domains with waiting URLs that the store wrongly counts as in memory."""

from functools import partial

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import StoredDomain
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.frontier.working_set import ShardHosts, WorkingSet
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling, StoreFailed
from manyhands.worker.crawl.shards.store_threads import StoreThreads


class ForgottenDomains:
    """State: the domains that seemed forgotten at the last check, by shard."""

    def __init__(
        self,
        store: StoreThreads,
        settling: Settling,
        working_set: WorkingSet,
        store_failed: StoreFailed,
    ) -> None:
        self._store = store
        self._settling = settling
        self._working_set = working_set
        self._store_failed = store_failed
        self._suspects: dict[OwnedShard, set[str]] = {}

    def shard_closed(self, shard: OwnedShard) -> None:
        self._suspects.pop(shard, None)

    async def look(self, shard: OwnedShard) -> int:
        """Load domains that seemed forgotten twice in a row. Returns how many there were."""
        try:
            taken = await self._store.change(shard.number, lambda store: store.taken_domains())
        except Exception as error:
            self._store_failed(shard, error)
            return 0
        hosts = self._working_set.hosts_of(shard)
        if hosts is None:
            return 0
        suspects = {stored.name for stored in taken if _seems_forgotten(hosts, stored)}
        forgotten = suspects & self._suspects.get(shard, set())
        self._suspects[shard] = suspects
        found = 0
        for stored in taken:
            if stored.name not in forgotten:
                continue
            if stored.name in hosts.domains:
                found += await self._working_set.load_one(shard, stored.name)
            else:
                self._settling.tell(shard, partial(_put_back, stored=stored))
                found += 1
        return found


def _seems_forgotten(hosts: ShardHosts, stored: StoredDomain) -> bool:
    domain = hosts.domains.get(stored.name)
    if domain is None:
        return True
    for each in stored.origins:
        origin = domain.origins.get(each.origin)
        is_served = origin is not None and origin.is_served
        if not is_served and each.ready_at <= clock.now():
            return True
    return False


def _put_back(store: ShardStore, stored: StoredDomain) -> None:
    store.put_domain(stored.id, stored.next_at, stored.delay_s)

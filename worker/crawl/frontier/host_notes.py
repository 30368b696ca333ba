"""Writes to the stores and the log about hosts: delays, blocks, trouble, and URLs given back.
Nobody waits for these writes.

The stores' times are on the store's clock, those in memory on the loop's.
"""

import time
from collections.abc import Callable, Iterable

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.frontier.schedule import Domain, Origin
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling

# A shorter wait is over before anybody has read of it.
SHOWN_FROM_S = 1.0


class HostNotes:
    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._log = get_logger("crawl")

    # The two clocks. Not by asking the loop, whose time stands still while callbacks run.

    def store_time(self, loop_time: float) -> float:
        return clock.now() + loop_time - time.monotonic()

    def loop_time(self, store_time: float) -> float:
        return time.monotonic() + store_time - clock.now()

    # Domains

    def keep_delay(self, domain: Domain, delay_s: float) -> None:
        """The store must know the delay before the next request: if this process dies, the next
        owner waits that long."""
        if delay_s != domain.delay_s:
            domain.delay_s = delay_s
            next_at = self.store_time(domain.lasting_next_at)
            self._settling.tell(
                domain.shard, lambda store: store.keep_domain(domain.id, next_at, delay_s)
            )

    def keep_time(self, domain: Domain) -> None:
        """For people who ask until when it waits, if that is worth a write."""
        if domain.delay_s >= SHOWN_FROM_S:
            next_at, delay_s = self.store_time(domain.lasting_next_at), domain.delay_s
            self._settling.tell(
                domain.shard, lambda store: store.keep_domain(domain.id, next_at, delay_s)
            )

    def put_domain(self, domain: Domain, due_at: float) -> None:
        """It left memory, and is due again at that time (the store's clock)."""
        next_at = max(self.store_time(domain.lasting_next_at), due_at)
        delay_s = domain.delay_s
        self._settling.tell(
            domain.shard, lambda store: store.put_domain(domain.id, next_at, delay_s)
        )

    # Origins

    def keep(self, origin: Origin, ready_at: float | None = None) -> None:
        """Store what is known of it, and until when it is left alone (the store's clock; by default
        the end of its block)."""
        until = origin.state.blocked_until if ready_at is None else ready_at
        notes = origin.state.to_bytes()
        self._settling.tell(
            origin.domain.shard, lambda store: store.keep_origin(origin.id, until, notes)
        )

    def in_trouble(self, origin: Origin) -> None:
        """Called once, when the trouble begins."""
        self._log.info("host put off", origin=origin.name, reason=origin.state.trouble)

    def back(self, origin: Origin) -> None:
        self._log.info("host is back", origin=origin.name)
        self.keep(origin)

    def robots_missing(self, origin: Origin, reason: str) -> None:
        """Nothing may be fetched without it. Every crawl that waits for it records the error."""
        now, was_in_trouble = clock.now(), bool(origin.state.trouble)
        origin.state.robots_missing(reason)
        trouble = origin.state.trouble
        if not was_in_trouble:
            self.in_trouble(origin)
        waiting = {url.crawl: url.url for url in reversed(origin.urls)}

        def count(store: ShardStore) -> None:
            for crawl, url in waiting.items():
                store.count_error(crawl, trouble, url, now)

        self._settling.tell(origin.domain.shard, count)

    # URLs

    def give_back(self, shard: OwnedShard, urls: Iterable[ClaimedUrl]) -> None:
        """To the store, as they were."""
        for url in urls:
            self._settling.settle(shard, url.put_back())

    def give_back_unless(self, origin: Origin, may_stay: Callable[[int, str], bool]) -> None:
        """Those of its URLs that may not stay, by their crawl and the domain."""
        name = origin.domain.name
        back = [url for url in origin.urls if not may_stay(url.crawl, name)]
        if back:
            origin.queued_again()
        for url in back:
            origin.urls.remove(url)
        self.give_back(origin.domain.shard, back)

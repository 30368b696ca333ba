"""What /metrics tells of each crawl that has not ended: how much waits, how late it is, and what
came of the rest.

A scrape may come every second, and from several: what was found is told again for a while, so that
looking takes a small share of the time, however large the crawls are.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from manyhands.api.crawls import views
from manyhands.api.crawls.look import Look, crawls_of
from manyhands.api.crawls.store import CrawlStore
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import Due, Layout, Member
from manyhands.shared.crawl.store.protocol import ControlStore, ShardReaders
from manyhands.shared.single_flight import SingleFlight

# A look is told for so long, and for so many times what it took.
TOLD_FOR_S = 4.0
REST = 20
# Crawls that are told of one by one, those that began last: each is a dozen series.
MOST_CRAWLS = 50
_LOOK = "look"


@dataclass(slots=True, frozen=True)
class _Asked:
    """What the control store says. `running` are those crawls that may be late."""

    live: Sequence[int]
    left_out: int
    running: Sequence[int]
    members: Sequence[Member]
    owned: frozenset[int]
    shards: int


class CrawlWatch:
    """State: the last look, and until when it is told."""

    def __init__(self, store: CrawlStore, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock_s = clock_s
        self._looking: SingleFlight[Look] = SingleFlight("crawls")
        self._last = Look()
        self._told_until: float | None = None

    async def look(self) -> Look:
        """Raises Problem."""
        if self._told_until is not None and self._clock_s() < self._told_until:
            return self._last
        return await self._looking.run(_LOOK, self._look)

    async def _look(self) -> Look:
        began_at = self._clock_s()
        asked = await self._store.control(self._ask)
        counters, due = await self._store.shards(partial(_read, asked))
        self._last = Look(
            crawls=crawls_of(asked.members, counters, due, clock.now()),
            left_out=asked.left_out,
            members=len(asked.members),
            unowned_shards=asked.shards - len(asked.owned),
        )
        ended_at = self._clock_s()
        self._told_until = ended_at + max(TOLD_FOR_S, REST * (ended_at - began_at))
        return self._last

    def _ask(self, control: ControlStore) -> _Asked:
        layout = self._store.layout(control)
        crawls = control.live_crawls()
        live = sorted((crawl.id for crawl in crawls), reverse=True)[:MOST_CRAWLS]
        return _Asked(
            live=[NO_CRAWL, *live],
            left_out=len(crawls) - len(live),
            running=[
                NO_CRAWL,
                *(one.id for one in crawls if one.id in live and one.state is CrawlState.RUNNING),
            ],
            members=control.members(),
            owned=frozenset(
                lease.shard
                for lease in control.leases()
                if lease.is_live and lease.shard < layout.shards
            ),
            shards=layout.shards,
        )


def _read(
    asked: _Asked, readers: ShardReaders, layout: Layout
) -> tuple[dict[int, dict[str, int]], list[Due]]:
    counters = {crawl: views.summed(readers.counters(layout, crawl)) for crawl in asked.live}
    return counters, readers.due(layout, asked.running, clock.now(), asked.owned)

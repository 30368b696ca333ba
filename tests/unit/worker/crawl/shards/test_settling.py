"""What becomes of URLs, told to a real store: together, and heard of when it is there."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import ClaimedUrl, LeaseLost
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.sqlite.directory import open_reader, open_shard
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling
from manyhands.worker.crawl.shards.store_threads import StoreThreads

CRAWL = 1
PATIENCE_S = 10.0


class Bench:
    """State: three URLs that are claimed, and the shards whose store failed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = StoreThreads(
            lambda: 0.05, gather_s=0.01, writers=lambda: 1, places=[Absence("")]
        )
        self.shard = OwnedShard(0, 1)
        self.failed: list[tuple[OwnedShard, Exception]] = []
        self.settling = Settling(self.store, self._store_failed)
        self.claimed: list[ClaimedUrl] = []

    async def open(self) -> None:
        await self.store.open(0, partial(open_shard, self.directory, 0, 0, 1, 0.0))
        self.claimed = await self.store.change(0, claim_three)

    def settle(self, place: int, state: UrlState) -> "asyncio.Future[None]":
        return self.settling.settle(self.shard, endings.ended(self.claimed[place], state, ""))

    def stored(self) -> list[UrlState]:
        """As others see it, of each of the three."""
        reader = open_reader(self.directory, 0, 0)
        assert reader is not None
        try:
            rows = [row for state in UrlState for row in reader.urls(CRAWL, state, 0, 10)]
        finally:
            reader.close()
        return [row.state for row in sorted(rows, key=lambda row: row.id)]

    def changes(self) -> int:
        """Transactions that changed the crawl."""
        reader = open_reader(self.directory, 0, 0)
        assert reader is not None
        try:
            return reader.counters(CRAWL)["changes"]
        finally:
            reader.close()

    def lose(self) -> None:
        """Another owner takes the shard: what was claimed is queued again."""
        open_shard(self.directory, 0, 0, 2, 0.0).close()

    def _store_failed(self, shard: OwnedShard, error: Exception) -> None:
        self.failed.append((shard, error))


def claim_three(store: ShardStore) -> list[ClaimedUrl]:
    urls = [new_url(parse_url(f"http://site.example/{number}"), 0) for number in range(3)]
    store.admit(CRAWL, urls, time.time())
    [domain] = store.take_domains(time.time(), 10)
    return store.claim(domain.origins[0].id, CRAWL, time.time(), 10)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.open()
    async with asyncio.timeout(PATIENCE_S):
        yield bench
    await bench.store.stop()


async def test_what_is_settled_in_one_turn_goes_in_one_transaction(bench: Bench) -> None:
    before = bench.changes()
    futures = [bench.settle(place, UrlState.DONE) for place in range(3)]
    await asyncio.gather(*futures)

    assert bench.stored() == [UrlState.DONE] * 3
    assert bench.changes() == before + 1


async def test_whoever_settles_hears_when_the_store_has_it(bench: Bench) -> None:
    is_over = bench.settle(0, UrlState.FAILED)
    assert bench.stored()[0] is UrlState.CLAIMED
    await is_over
    assert bench.stored()[0] is UrlState.FAILED

    await bench.settle(1, UrlState.SKIPPED)
    assert bench.stored() == [UrlState.FAILED, UrlState.SKIPPED, UrlState.CLAIMED]


async def test_a_shard_is_in_flight_until_its_store_has_all_of_it(bench: Bench) -> None:
    is_over = bench.settle(0, UrlState.DONE)
    await asyncio.sleep(0)
    bench.settling.tell(bench.shard, lambda _: None)
    assert bench.shard.in_flight == 2
    await is_over
    await bench.store.change(0, lambda _: None)

    assert bench.shard.in_flight == 0


async def test_a_shard_that_is_lost_is_given_up_and_all_hear_of_it(bench: Bench) -> None:
    bench.lose()
    for told in [bench.settle(place, UrlState.DONE) for place in range(2)]:
        with pytest.raises(LeaseLost):
            await told

    [(shard, error)] = bench.failed
    assert shard is bench.shard
    assert isinstance(error, LeaseLost)
    assert (bench.stored(), shard.in_flight) == ([UrlState.QUEUED] * 3, 0)


async def test_a_change_that_nobody_waits_for_gives_a_shard_up_too(bench: Bench) -> None:
    bench.lose()
    bench.settling.tell(bench.shard, lambda _: None)
    await asyncio.gather(bench.store.change(0, lambda _: None), return_exceptions=True)

    assert [type(error) for _, error in bench.failed] == [LeaseLost]
    assert bench.shard.in_flight == 0


async def test_what_is_settled_after_others_have_gone_goes_by_itself(bench: Bench) -> None:
    await bench.settle(0, UrlState.DONE)
    later = bench.settle(1, UrlState.DONE)
    assert bench.settle(2, UrlState.FAILED) is later
    await later

    assert bench.stored() == [UrlState.DONE, UrlState.DONE, UrlState.FAILED]
    assert bench.shard.in_flight == 0

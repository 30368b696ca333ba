"""Fetch jobs that have ended are forgotten as fast as others end, in a store with millions of them:
it stays as large as it is, takes no memory, and holds nobody up who admits and claims meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import cast

import psutil
import pytest

from loadtest.bench.state.places import GENERATION, Place, Places
from loadtest.lib.figures import MIB
from loadtest.lib.stats import percentile
from manyhands.shared.crawl.fetch_jobs import FetchJob
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import NewUrl, Settled
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.fetch_jobs import FetchJobs
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from tests.acceptance.scale import FORGOTTEN_ROUNDS, KEPT_JOBS
from tests.contract.state.helpers import origin_id

SHARDS = 4
# In a transaction.
FILLED_AT_ONCE = 2500
LIVE_AT_ONCE = 250
# What is kept ended in so many parts; the oldest is forgotten while the next one ends.
PARTS = 20
PART_S = 3600.0
# Of the store after it was filled: what is forgotten makes room. PostgreSQL must vacuum first.
MOST_GROWTH = {"sqlite": 1.1, "postgres": 1.5}
# Caches of the shards, and the batches of this test.
MOST_MEMORY_BYTES = 200 * MIB
PATIENCE_S = 0.05

Record = Callable[[str, object], None]


@dataclass
class Jobs:
    """One shard's site, whose jobs end. State: how many there were, and how long each step took."""

    threads: StoreThreads
    shard: int
    made: int = 0
    steps_s: list[float] = field(default_factory=list)

    async def end(self, number: int, at_once: int, ended_at: float) -> None:
        """Admit, claim and settle so many."""
        for _ in range(number // at_once):
            new = [self._new() for _ in range(at_once)]
            began = time.monotonic()
            await self.threads.change(self.shard, partial(_admit, urls=new))
            ids = await self.threads.change(
                self.shard, partial(_claim, site=new[0].origin, limit=at_once)
            )
            assert len(ids) == at_once
            await self.threads.change(self.shard, partial(_settle, ids=ids, now=ended_at))
            self.steps_s.append(time.monotonic() - began)

    def _new(self) -> NewUrl:
        self.made += 1
        site = f"http://site{self.shard}.example"
        url = f"{site}/page/{self.made}"
        job = FetchJob(f"{self.shard:04}{self.made:020}", url, 0, 0, 25, 300, "", {})
        return NewUrl(job.key, url, site, f"site{self.shard}.example", 0, job=job.to_text())


@dataclass
class Kept:
    """A store and its owner, as far as ended jobs go."""

    threads: StoreThreads
    sites: list[Jobs]

    async def end(self, number: int, at_once: int, ended_at: float) -> float:
        """Side by side in all shards; how long it took, s."""
        began = time.monotonic()
        share = number // SHARDS
        await asyncio.gather(
            *(site.end(share, min(share, at_once), ended_at) for site in self.sites)
        )
        return time.monotonic() - began

    async def forget(self, before: float) -> float:
        """What ended earlier; how long it took, s."""
        began = time.monotonic()
        owned = {site.shard: OwnedShard(site.shard, 1) for site in self.sites}
        admission = cast("Admission", SimpleNamespace(shards=SHARDS))
        jobs = FetchJobs(
            *(self.threads, owned, admission, _push_nothing, _tell_nobody, _tell_nobody),
            kept_s=clock.now() - before,
        )
        await jobs.forget()
        return time.monotonic() - began

    async def done(self) -> int:
        found = [self.threads.change(number, _done) for number in range(SHARDS)]
        return sum(await asyncio.gather(*found))

    def take_steps_s(self) -> list[float]:
        found = [step_s for site in self.sites for step_s in site.steps_s]
        for site in self.sites:
            site.steps_s.clear()
        return found


def _tell_nobody(_shard: int, _new: Sequence[NewUrl]) -> None:
    pass


async def _push_nothing(_jobs: object) -> None:
    raise AssertionError("none of these jobs is dead")


def _admit(store: ShardStore, urls: Sequence[NewUrl]) -> None:
    store.admit(NO_CRAWL, urls, clock.now())


def _claim(store: ShardStore, site: str, limit: int) -> list[int]:
    claimed = store.claim(origin_id(store, site), NO_CRAWL, clock.now(), limit)
    return [one.id for one in claimed]


def _settle(store: ShardStore, ids: Sequence[int], now: float) -> None:
    store.settle([Settled(one, UrlState.DONE, 200, size=20_000) for one in ids], now)


def _done(store: ShardStore) -> int:
    return store.counters(NO_CRAWL)["done"]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with contextlib.ExitStack() as opened, Places(opened).new(request.param) as place:
        yield place


@pytest.fixture
async def kept(place: Place) -> AsyncIterator[Kept]:
    with contextlib.closing(store_at((place.state,))) as store:
        control = store.open_control()
        control.layout(SHARDS)
        threads = StoreThreads(
            lambda: PATIENCE_S,
            gather_s=store.gather_s,
            writers=lambda: store.writers,
            places=store.absences,
        )
        for number in range(SHARDS):
            epoch = control.claim_lease(number, "owner", 1e6) or 0
            await threads.open(
                number, partial(store.open_shard, GENERATION, number, epoch, clock.now())
            )
        yield Kept(threads, [Jobs(threads, number) for number in range(SHARDS)])
        await threads.stop()
        control.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "place",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.proof)],
    indirect=True,
)
async def test_what_ended_long_ago_is_forgotten_while_as_much_ends(
    request: pytest.FixtureRequest, place: Place, kept: Kept, record_property: Record
) -> None:
    kind = request.node.callspec.params["place"]
    in_all = KEPT_JOBS[kind]
    part = in_all // PARTS
    memory = psutil.Process().memory_info().rss
    first_end = clock.now() - PARTS * PART_S
    for number in range(PARTS):
        await kept.end(part, FILLED_AT_ONCE, first_end + number * PART_S)
    filled_bytes = place.bytes_of_shards(SHARDS)
    kept.take_steps_s()
    quiet_s = await kept.end(part, LIVE_AT_ONCE, first_end + PARTS * PART_S)
    quiet_steps_s = kept.take_steps_s()
    ending_s = forgetting_s = 0.0
    forgotten, most_bytes, most_memory = 0, 0, 0
    for number in range(1, FORGOTTEN_ROUNDS + 1):
        # One part more is there than at the beginning: the oldest goes while the next one comes.
        is_due = first_end + (number - 0.5) * PART_S
        ended_s, forgot_s = await asyncio.gather(
            kept.end(part, LIVE_AT_ONCE, first_end + (PARTS + number) * PART_S),
            kept.forget(is_due),
        )
        assert await kept.done() == in_all + part
        ending_s, forgetting_s = ending_s + ended_s, forgetting_s + forgot_s
        forgotten += part
        most_bytes = max(most_bytes, place.bytes_of_shards(SHARDS))
        most_memory = max(most_memory, psutil.Process().memory_info().rss)
    steps_s = kept.take_steps_s()

    record_property("jobs kept", in_all)
    record_property("ended/s", round(forgotten / ending_s))
    record_property("forgotten/s meanwhile", round(forgotten / forgetting_s))
    record_property("ended/s without forgetting", round(part / quiet_s))
    for percent in (50, 99):
        with_it, without = (percentile(each, percent) for each in (steps_s, quiet_steps_s))
        record_property(f"step p{percent}, with ÷ without", round(with_it / without, 2))
    record_property("size ÷ size when filled", round(most_bytes / filled_bytes, 3))
    record_property("bytes per job", round(filled_bytes / in_all))
    record_property("memory, MiB", round((most_memory - memory) / MIB))
    assert most_bytes <= MOST_GROWTH[kind] * filled_bytes * (in_all + part) / in_all
    assert most_memory - memory < MOST_MEMORY_BYTES
    # By the same threads, at the same time: not a question of how fast the machine is.
    assert forgetting_s <= ending_s

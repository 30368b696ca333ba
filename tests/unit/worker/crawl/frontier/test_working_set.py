"""The domains in memory, with a real store: whatever comes between, every URL has its turn."""

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec, PolitenessSpec
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import (
    ClaimedUrl,
    DomainRule,
    NewUrl,
    Settled,
    StoredDomain,
    StoredRobots,
)
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.shard import Shard
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from manyhands.shared.tasks import Tasks
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.fetching.dispatcher import Dispatcher
from manyhands.worker.crawl.fetching.next_url import NextUrls, PageToFetch
from manyhands.worker.crawl.fetching.page_turns import PageTurns
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.recorded_ends import RecordedEnds
from manyhands.worker.crawl.fetching.robots_turns import RobotsTurns
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier import loading, working_set
from manyhands.worker.crawl.frontier.forgotten import ForgottenDomains
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.page_grants import PageGrants
from manyhands.worker.crawl.frontier.schedule import Domain, Origin, Request
from manyhands.worker.crawl.frontier.working_set import ShardHosts, WorkingSet, give_back
from manyhands.worker.crawl.politeness.delays import Delay
from manyhands.worker.crawl.politeness.robots import ALLOW_ALL, rules_of
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.crawl.wakeup import Wakeup
from manyhands.worker.net.byte_budget import ByteBudget

CRAWL = 1
# Three hosts of one domain.
A, B, C = "http://a.site.example/", "http://b.site.example/", "http://c.site.example/"
HOUR_S = 3600.0
# A test that waits for so long has failed.
PATIENCE_S = 10.0
# The owner's are longer.
LOAD_S = 0.02
SOON_S = 0.1


class Visit(NamedTuple):
    request: Request
    claimed: ClaimedUrl

    @property
    def origin(self) -> Origin:
        return self.request.origin

    @property
    def url(self) -> str:
        return self.claimed.url


class ScriptedTurns:
    """What the dispatcher begins; the test says how it ends. State: those that were not looked at,
    and those that were begun in spite of a block."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[Visit] = asyncio.Queue()
        self.impolite: list[Visit] = []

    def begin(self, request: Request, page: PageToFetch) -> None:
        visit = Visit(request, page.url)
        self.begun.put_nowait(visit)
        # The clocks of the loop and of the wall may differ by as little.
        if request.origin.state.blocked_until > time.time() + 0.005:
            self.impolite.append(visit)


class Bench:
    """One shard, and the dispatcher and the working set over it. What the page fetches and the
    admission do, a test does: requests that end, answers that are settled, URLs that are admitted.
    """

    def __init__(self, directory: Path, connections: int) -> None:
        self.directory = directory
        self.patience_s = 0.05
        self.store = StoreThreads(
            lambda: self.patience_s, gather_s=0.01, writers=lambda: 1, places=[Absence("")]
        )
        self.failures: list[Exception] = []
        politeness = PolitenessSpec(delay_s=0, connections_per_host=connections)
        spec = CrawlSpec(contact="me@example.org", politeness=politeness)
        scope = Scope(spec.scope, Exclusions.parse([]))
        self.crawl = LiveCrawl(CRAWL, spec, CrawlState.RUNNING, scope, "Manyhands")
        self.crawls = LiveCrawls({CRAWL: self.crawl})
        self.crawls.obey([])
        self.settling = Settling(self.store, self._store_failed)
        wakeup = Wakeup()
        self.hosts = WorkingSet(
            self.store,
            self.crawls,
            HostNotes(self.settling),
            Tasks("crawl"),
            self._store_failed,
            wakeup,
        )
        self.forgotten = ForgottenDomains(self.store, self.settling, self.hosts, self._store_failed)
        rules = rules_of(StoredRobots(ALLOW_ALL, b"", 0.0, time.time() + HOUR_S))
        grants = SimpleNamespace(came=Announcement(), want=lambda _: None)
        ends = RecordedEnds(
            cast("PagePusher", None),
            *(self.settling, self.crawls, self._store_failed, Tasks("crawl"), lambda: "tag"),
            are_on=False,
        )
        self.slots = Slots(1000, ByteBudget(1))
        self.page_fetches = ScriptedTurns()
        self.dispatcher = Dispatcher(
            self.slots,
            self.hosts,
            cast("LeaseGuard", SimpleNamespace(hold=lambda *_: True)),
            NextUrls(self.crawls, self.hosts, self.settling, cast("PageGrants", grants), ends),
            cast("RobotsTurns", SimpleNamespace(known=lambda _: rules)),
            cast("PageTurns", self.page_fetches),
            self.settling,
            wakeup,
        )
        self.shard = OwnedShard(0, 1)
        self.held: ShardHosts | None = None
        self.may_load = asyncio.Event()
        self.may_load.set()

    async def open(self) -> None:
        await self.store.open(0, partial(open_shard, self.directory, 0, 0, 1, 0.0))
        self.hosts.shard_opened(self.shard)
        self.held = self.hosts.hosts_of(self.shard)

    @property
    def domains(self) -> dict[str, Domain]:
        """Of the shard, in memory, also after it was closed."""
        assert self.held is not None
        return self.held.domains

    async def keep_loading(self) -> None:
        while True:
            await self.may_load.wait()
            await self.hosts.load(self.shard)
            await asyncio.sleep(LOAD_S)

    def order(self, *rules: DomainRule) -> None:
        """As `commands` does: from now on these are the rules."""
        self.hosts.orders_changed(self.crawls.obey(rules))

    async def admit(self, *urls: str) -> None:
        """As the admission does."""
        new = new_urls(urls)
        await self.store.change(0, partial(admit, urls=new))
        self.hosts.told_new(0, new)

    async def begun(self) -> Visit:
        async with asyncio.timeout(PATIENCE_S):
            return await self.page_fetches.begun.get()

    async def begun_of(self, *urls: str) -> list[Visit]:
        """Those of these URLs, which have their turns at the same time, in whatever order."""
        page_fetches = {visit.url: visit for visit in [await self.begun() for _ in urls]}
        return [page_fetches[url] for url in urls]

    def end(self, visit: Visit, delay_s: float = 0.0) -> None:
        """The answer is here."""
        self.hosts.turn_ended(visit.request, lambda: Delay(delay_s, delay_s))

    async def settle(self, visit: Visit, settled: Settled) -> None:
        await self.settling.settle(visit.origin.domain.shard, settled)
        if settled.state is UrlState.QUEUED:
            self.hosts.queued_again(visit.origin)
        visit.request.over()

    async def fetch(self, visit: Visit) -> None:
        self.end(visit)
        await self.settle(visit, endings.ended(visit.claimed, UrlState.DONE, "", 200))

    async def block(self, visit: Visit, block_s: float) -> None:
        self.end(visit)
        until = time.time() + block_s
        visit.origin.state.blocked_until = until
        self.hosts.put_off(visit.origin, until)
        await self.settle(visit, endings.put_off(visit.claimed))

    async def quiet(self) -> None:
        """The store has answered all that was asked of it, and what was asked thereupon."""
        for _ in range(3):
            await asyncio.sleep(0)
            await self.store.change(0, lambda _: None)

    @contextlib.asynccontextmanager
    async def slow_store(self, change: Callable[[ShardStore], object]) -> AsyncIterator[None]:
        """It has done what was asked of it just before, and this, and does not answer yet."""
        loop = asyncio.get_running_loop()
        done, go_on = asyncio.Event(), threading.Event()

        def hold(store: ShardStore) -> None:
            change(store)
            loop.call_soon_threadsafe(done.set)
            go_on.wait(PATIENCE_S)

        await asyncio.sleep(0)
        held = self.store.change(0, hold)
        await done.wait()
        try:
            yield
        finally:
            go_on.set()
        await held

    async def queued(self) -> set[str]:
        return await self.store.change(0, partial(urls_in, state=UrlState.QUEUED))

    async def stored(self) -> StoredDomain:
        [domain] = await self.store.change(0, lambda store: store.waiting_domains(10))
        return domain

    async def look(self) -> int:
        return await self.forgotten.look(self.shard)

    def _store_failed(self, _shard: OwnedShard, error: Exception) -> None:
        self.failures.append(error)


def new_urls(urls: Iterable[str]) -> list[NewUrl]:
    return [new_url(parse_url(url), 1) for url in urls]


def admit(store: ShardStore, urls: list[NewUrl]) -> None:
    store.admit(CRAWL, urls, time.time())


def urls_in(store: ShardStore, state: UrlState) -> set[str]:
    return {row.url for row in store.urls(CRAWL, state, 0, 1000)}


@contextlib.asynccontextmanager
async def working(directory: Path, connections: int = 1) -> AsyncIterator[Bench]:
    bench = Bench(directory, connections)
    await bench.open()
    loading_task = asyncio.create_task(bench.keep_loading())
    try:
        yield bench
    finally:
        loading_task.cancel()
        await asyncio.gather(loading_task, return_exceptions=True)
        bench.slots.are_open = False
        await bench.quiet()
        await bench.store.stop()
    assert (bench.failures, bench.page_fetches.impolite) == ([], [])


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with working(tmp_path) as bench:
        yield bench


@pytest.fixture
async def wide_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Two requests at a time to a domain."""
    async with working(tmp_path, connections=2) as bench:
        yield bench


@pytest.fixture
def quick_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What leaves the memory for long comes back in the time of a test."""
    for module in (loading, working_set):
        monkeypatch.setattr(module, "SOON_S", SOON_S)
    monkeypatch.setattr(loading, "AHEAD_S", 0.02)
    monkeypatch.setattr(loading, "NOTHING_FOR_S", 0.02)


# Turns


async def test_a_domain_has_one_request_at_a_time_and_leaves_the_memory_after_the_last(
    bench: Bench,
) -> None:
    await bench.admit(A + "1", A + "2", A + "3", B + "1")
    fetched = []
    for _ in range(4):
        visit = await bench.begun()
        await bench.quiet()
        assert bench.page_fetches.begun.empty()
        fetched.append(visit.url)
        await bench.fetch(visit)
    await bench.quiet()

    assert sorted(fetched) == [A + "1", A + "2", A + "3", B + "1"]
    assert (bench.domains, bench.hosts.origins, bench.shard.in_flight) == ({}, set(), 0)


async def test_a_domain_that_left_the_memory_comes_back_with_new_urls(bench: Bench) -> None:
    await bench.admit(A + "1")
    await bench.fetch(await bench.begun())
    await bench.quiet()
    await bench.admit(A + "2")

    assert (await bench.begun()).url == A + "2"


async def test_a_domain_that_comes_back_waits_for_its_delay(bench: Bench) -> None:
    await bench.admit(A + "1")
    visit = await bench.begun()
    bench.end(visit, HOUR_S)
    await bench.settle(visit, endings.ended(visit.claimed, UrlState.DONE, "", 200))
    await bench.quiet()
    await bench.admit(A + "2")
    await bench.quiet()

    stored = await bench.stored()
    assert bench.page_fetches.begun.empty()
    assert stored.delay_s == HOUR_S
    assert stored.next_at > time.time() + HOUR_S - PATIENCE_S


async def test_a_delay_counts_from_the_end_of_the_answer_not_from_the_turn_of_the_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.admit(A + "1")
    visit = await bench.begun()
    loop = asyncio.get_running_loop()
    turn_began_at = loop.time() - 1.0
    monkeypatch.setattr(loop, "time", lambda: turn_began_at)

    ended_at = time.monotonic()
    bench.end(visit, HOUR_S)

    assert visit.origin.domain.next_at >= ended_at + HOUR_S
    monkeypatch.undo()
    await bench.settle(visit, endings.ended(visit.claimed, UrlState.DONE, "", 200))


# URLs that come while the store is asked


async def test_urls_that_come_during_a_claim_are_found_whatever_else_of_the_domain_is_in_flight(
    wide_bench: Bench,
) -> None:
    bench = wide_bench
    await bench.admit(A + "1", A + "2", B + "1")
    first, _of_other_host = await bench.begun_of(A + "1", B + "1")
    late = new_urls([A + "3"])
    async with bench.slow_store(partial(admit, urls=late)):
        bench.hosts.told_new(0, late)
        bench.end(first)
        [second] = await bench.begun_of(A + "2")
        bench.end(second)

    assert (await bench.begun()).url == A + "3"


async def test_urls_that_come_during_a_claim_do_not_wait_for_a_retry_that_is_due_later(
    bench: Bench,
) -> None:
    await bench.admit(A + "1")
    visit = await bench.begun()
    await bench.quiet()
    retry = endings.try_again(visit.claimed, "time-out", time.time(), 20.0)
    await bench.settle(visit, retry)
    bench.end(visit)
    late = new_urls([A + "2"])
    async with bench.slow_store(partial(admit, urls=late)):
        bench.hosts.told_new(0, late)

    assert (await bench.begun()).url == A + "2"


async def test_a_domain_that_is_given_up_while_its_new_host_is_looked_for_comes_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look takes it in the store once more, and nobody here has it any longer."""
    await bench.admit(A + "1")
    visit = await bench.begun()
    bench.may_load.clear()
    await bench.quiet()
    # So that the look is not yet on its way when the domain is given up.
    monkeypatch.setattr(bench.store, "_gather_s", 0.05)
    bench.patience_s = 1.0
    bench.end(visit)
    late = new_urls([B + "1"])
    async with bench.slow_store(partial(admit, urls=late)):
        bench.hosts.told_new(0, late)
        await asyncio.sleep(0)
    assert bench.domains == {}
    bench.may_load.set()

    assert (await bench.begun()).url == B + "1"


async def test_a_host_that_is_new_brings_no_more_urls_of_those_that_are_here(bench: Bench) -> None:
    await bench.admit(*(f"{A}{number}" for number in range(200)))
    visit = await bench.begun()
    await bench.quiet()
    in_line = len(visit.origin.urls)
    for number in range(5):
        await bench.admit(f"http://host{number}.site.example/")
        await bench.quiet()

    assert len(visit.origin.domain.origins) == 6
    assert len(visit.origin.urls) == in_line


# What the store is asked


@pytest.fixture
def claims_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    asked: list[object] = []
    change_with = bench.store.change_with

    def counted(shard: int, call: Callable[..., list[object]], item: object) -> object:
        asked.append(item)
        return change_with(shard, call, item)

    monkeypatch.setattr(bench.store, "change_with", counted)
    return asked


async def test_a_store_that_has_no_more_is_not_asked_for_more(
    bench: Bench, claims_asked: list[object]
) -> None:
    await bench.admit(A + "1")
    await bench.fetch(await bench.begun())
    await bench.quiet()
    assert (bench.domains, claims_asked) == ({}, [])

    await bench.admit(A + "2", A + "3")
    for _ in range(2):
        await bench.fetch(await bench.begun())
    await bench.quiet()
    # Two had come, which may not have been all.
    assert (bench.domains, len(claims_asked)) == ({}, 1)


async def test_a_store_that_has_a_retry_for_later_is_asked_again(
    bench: Bench, claims_asked: list[object]
) -> None:
    def admit_with_retry(store: ShardStore) -> None:
        admit(store, new_urls([A + "1", A + "2"]))
        [domain] = store.take_domains(time.time(), 1)
        [first] = store.claim(domain.origins[0].id, CRAWL, time.time(), 1)
        store.settle([endings.try_again(first, "time-out", time.time(), HOUR_S)], time.time())
        store.put_domain(domain.id, 0.0, 0.0)

    await bench.store.change(0, admit_with_retry)
    visit = await bench.begun()
    await bench.fetch(visit)
    await bench.quiet()
    assert claims_asked
    assert await bench.queued() == {A + "1"}


async def test_what_is_stored_has_its_turn_after_the_same_transaction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.admit(A + "1")
    visit = await bench.begun()
    bench.may_load.clear()
    await bench.quiet()
    await asyncio.sleep(2 * LOAD_S)
    runs: list[Shard] = []
    run = Shard.run

    def counted(shard: Shard, work: Callable[[], object]) -> object:
        runs.append(shard)
        return run(shard, work)

    monkeypatch.setattr(Shard, "run", counted)
    # Of a host that is in memory, of another one there, and of a domain that is not.
    known, other = new_urls([A + "2", "http://other.example/"])
    stored = [bench.store.change(0, partial(admit, urls=[url])) for url in (known, other)]
    bench.hosts.told_new(0, [known, other], are_stored=False)
    await asyncio.gather(*stored)
    bench.hosts.told_new(0, [known, other])
    begun = await bench.begun()

    assert begun.url == other.url
    assert [url.url for url in visit.origin.urls] == [known.url]
    assert len(runs) == 1
    await bench.fetch(visit)
    assert (await bench.begun()).url == known.url


async def test_what_is_admitted_during_a_load_is_not_taken_for_all(bench: Bench) -> None:
    bench.may_load.clear()
    await bench.store.change(0, partial(admit, urls=new_urls([A + "1"])))
    late = new_urls([A + "2"])
    loading_task = asyncio.create_task(bench.hosts.load(bench.shard))
    async with bench.slow_store(partial(admit, urls=late)):
        bench.hosts.told_new(0, late)
    await loading_task
    await bench.fetch(await bench.begun())

    assert (await bench.begun()).url == A + "2"


# URLs that are queued again


async def test_a_retry_of_a_host_that_left_the_memory_is_found_while_its_domain_stays(
    wide_bench: Bench,
) -> None:
    bench = wide_bench
    await bench.admit(A + "1", B + "1")
    visit, of_other_host = await bench.begun_of(A + "1", B + "1")
    bench.end(visit)
    await bench.quiet()
    assert list(of_other_host.origin.domain.origins.values()) == [of_other_host.origin]
    retry = endings.try_again(visit.claimed, "time-out", time.time(), 0.01)
    await bench.settle(visit, retry)

    again = await bench.begun()
    assert (again.url, again.claimed.attempts) == (A + "1", 1)


async def test_a_retry_is_found_when_its_domain_left_the_memory_and_came_back(
    wide_bench: Bench,
) -> None:
    bench = wide_bench
    await bench.admit(A + "1")
    visit = await bench.begun()
    bench.end(visit)
    await bench.quiet()
    assert bench.domains == {}
    await bench.admit(B + "1")
    of_other_host = await bench.begun()
    assert of_other_host.origin.domain is not visit.origin.domain
    await bench.settle(visit, endings.put_off(visit.claimed))

    assert (await bench.begun()).url == A + "1"


async def test_a_retry_is_found_when_its_host_left_the_memory_and_came_back(
    wide_bench: Bench,
) -> None:
    bench = wide_bench
    await bench.admit(A + "1", B + "1")
    visit, _of_other_host = await bench.begun_of(A + "1", B + "1")
    bench.end(visit)
    await bench.quiet()
    await bench.admit(A + "2")
    second = await bench.begun()
    assert second.origin is not visit.origin
    await bench.settle(visit, endings.put_off(visit.claimed))
    bench.end(second)

    assert (await bench.begun()).url == A + "1"


async def test_a_retry_that_is_due_later_holds_back_nothing_that_is_in_line(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", A + "3", A + "4")
    first = await bench.begun()
    bench.end(first)
    await bench.settle(first, endings.try_again(first.claimed, "time-out", time.time(), HOUR_S))
    fetched = []
    for _ in range(3):
        visit = await bench.begun()
        await bench.quiet()
        await bench.fetch(visit)
        fetched.append(visit.url)

    assert sorted(fetched) == [A + "2", A + "3", A + "4"]
    assert await bench.queued() == {A + "1"}


# Blocked hosts


async def test_a_host_that_is_blocked_for_long_holds_back_no_other_of_its_domain(
    bench: Bench,
) -> None:
    await bench.admit(A + "1", A + "2", B + "1", B + "2")
    blocked = await bench.begun()
    await bench.block(blocked, HOUR_S)
    assert blocked.origin not in bench.hosts.origins
    fetched = set()
    for _ in range(2):
        visit = await bench.begun()
        fetched.add(visit.url)
        await bench.fetch(visit)
    await bench.quiet()

    of_a, of_b = {A + "1", A + "2"}, {B + "1", B + "2"}
    assert bench.page_fetches.begun.empty()
    assert {blocked.url} < await bench.queued()
    assert (await bench.queued(), fetched) in [(of_a, of_b), (of_b, of_a)]


@pytest.mark.usefixtures("quick_times")
async def test_urls_of_another_host_come_soon_though_all_that_the_domain_had_is_blocked(
    bench: Bench,
) -> None:
    await bench.admit(A + "1", A + "2")
    await bench.block(await bench.begun(), HOUR_S)
    await bench.quiet()
    assert bench.domains == {}
    assert (await bench.stored()).next_at <= time.time() + SOON_S
    await bench.admit(B + "1")

    assert (await bench.begun()).url == B + "1"


async def test_a_domain_whose_hosts_are_all_blocked_for_long_is_not_taken_in(bench: Bench) -> None:
    before = time.time()

    def admit_blocked(store: ShardStore) -> None:
        admit(store, new_urls([A + "1", B + "1"]))
        [domain] = store.take_named(["site.example"])
        for origin in domain.origins:
            store.keep_origin(origin.id, before + HOUR_S, b"")
        store.put_domain(domain.id, 0.0, 1.0)

    await bench.store.change(0, admit_blocked)
    async with asyncio.timeout(PATIENCE_S):
        while (await bench.stored()).next_at == 0.0:
            await bench.hosts.load(bench.shard)

    assert bench.domains == {}
    soon = (await bench.stored()).next_at - before
    assert loading.SOON_S <= soon < loading.SOON_S + PATIENCE_S


@pytest.mark.usefixtures("quick_times")
async def test_a_host_comes_back_after_a_long_block_though_another_of_its_domain_is_busy(
    bench: Bench,
) -> None:
    await bench.admit(A + "1")
    [blocked] = await bench.begun_of(A + "1")
    await bench.admit(*(f"{B}{number}" for number in range(500)))
    await bench.quiet()
    await bench.block(blocked, 2 * SOON_S)
    assert [origin.name + "/" for origin in blocked.origin.domain.origins.values()] == [B]
    while (visit := await bench.begun()).url != A + "1":
        await bench.fetch(visit)

    assert len(await bench.queued()) > 100


async def test_what_waits_for_an_origin_that_is_put_off_waits_in_the_store(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2")
    visit = await bench.begun()
    await bench.block(visit, 0.1)
    assert visit.origin not in bench.hosts.origins

    urls = set()
    for _ in range(2):
        again = await bench.begun()
        urls.add(again.url)
        await bench.fetch(again)
    assert urls == {A + "1", A + "2"}


# What nothing knows of


async def test_a_domain_that_is_taken_and_not_in_memory_is_found_at_the_second_look(
    bench: Bench,
) -> None:
    def forget(store: ShardStore) -> None:
        admit(store, new_urls([A + "1"]))
        assert len(store.take_domains(time.time(), 10)) == 1

    await bench.store.change(0, forget)
    await bench.quiet()
    assert bench.page_fetches.begun.empty()

    assert [await bench.look(), await bench.look()] == [0, 1]
    assert (await bench.begun()).url == A + "1"
    assert [await bench.look(), await bench.look()] == [0, 0]


async def test_a_host_that_is_not_in_memory_is_found_at_the_second_look(wide_bench: Bench) -> None:
    bench = wide_bench
    await bench.admit(A + "1")
    await bench.begun()
    # Nobody tells of it.
    await bench.store.change(0, partial(admit, urls=new_urls([B + "1"])))

    assert [await bench.look(), await bench.look()] == [0, 1]
    assert (await bench.begun()).url == B + "1"


async def test_what_waits_for_its_turn_or_its_time_is_not_forgotten(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", B + "1", C + "1")
    await bench.block(await bench.begun(), HOUR_S)
    await bench.block(await bench.begun(), 20.0)
    await bench.begun()

    assert [await bench.look() for _ in range(3)] == [0, 0, 0]


# Ends


async def test_a_shard_that_is_left_has_everything_back(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", A + "3", B + "1")
    await bench.fetch(await bench.begun())
    visit = await bench.begun()
    leaving = asyncio.create_task(bench.hosts.shard_leaves(bench.shard))
    await bench.quiet()
    assert not leaving.done()
    bench.end(visit, 0.5)
    await bench.settle(visit, endings.put_off(visit.claimed))
    await leaving
    await bench.quiet()
    assert (bench.domains, bench.hosts.origins) == ({}, set())

    assert len(await bench.queued()) == 3
    domains = await bench.store.change(0, lambda store: store.take_domains(time.time() + 1.0, 10))
    assert [(domain.name, domain.delay_s) for domain in domains] == [("site.example", 0.5)]


async def test_what_is_loaded_while_a_shard_is_left_does_not_stay_in_memory(bench: Bench) -> None:
    await bench.store.change(0, partial(admit, urls=new_urls([A + "1"])))
    loaded = asyncio.create_task(bench.hosts.load(bench.shard))
    await asyncio.sleep(0)
    await bench.hosts.shard_leaves(bench.shard)
    await loaded

    assert (bench.domains, bench.hosts.origins, bench.hosts.schedule.domains) == ({}, set(), 0)
    assert await bench.queued() == {A + "1"}


async def test_of_a_shard_that_is_lost_nothing_stays_in_memory(wide_bench: Bench) -> None:
    bench = wide_bench
    await bench.admit(A + "1", A + "2", B + "1", "http://other.example/")
    page_fetches = [await bench.begun() for _ in range(3)]
    bench.hosts.shard_closed(bench.shard)
    for visit in page_fetches:
        bench.end(visit)

    assert (bench.domains, bench.hosts.origins, bench.hosts.schedule.domains) == ({}, set(), 0)


async def test_urls_of_a_crawl_that_is_paused_go_back_and_come_again(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", A + "3")
    visit = await bench.begun()
    bench.crawl.state = CrawlState.PAUSED
    bench.hosts.orders_changed(())
    await bench.fetch(visit)
    await bench.quiet()
    assert bench.page_fetches.begun.empty()
    assert await bench.queued() == {A + "2", A + "3"}
    bench.crawl.state = CrawlState.RUNNING

    assert (await bench.begun()).url in (A + "2", A + "3")


async def test_a_domain_that_is_held_keeps_its_urls_until_it_is_not(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", A + "3")
    visit = await bench.begun()
    bench.order(DomainRule(None, "site.example", is_blocked=True))
    await bench.fetch(visit)
    await bench.admit(A + "4", B + "1", "http://other.example/")

    other = await bench.begun()
    assert other.url == "http://other.example/"
    await bench.fetch(other)
    await bench.quiet()
    assert bench.page_fetches.begun.empty()
    assert await bench.queued() == {A + "2", A + "3", A + "4", B + "1"}
    bench.order()

    for _ in range(4):
        await bench.fetch(await bench.begun())
    await bench.quiet()
    assert await bench.queued() == set()


async def test_urls_that_were_asked_for_before_an_order_go_back(bench: Bench) -> None:
    await bench.admit(A + "1")
    visit = await bench.begun()
    bench.may_load.clear()
    async with bench.slow_store(partial(admit, urls=new_urls([A + "2"]))):
        bench.hosts.told_new(0, new_urls([A + "2"]))
        await asyncio.sleep(0)
        bench.order(DomainRule(CRAWL, "site.example", is_paused=True))
    await bench.fetch(visit)
    await bench.quiet()

    assert bench.page_fetches.begun.empty()
    assert await bench.queued() == {A + "2"}


async def test_a_pause_in_one_crawl_holds_up_no_other(bench: Bench) -> None:
    await bench.admit(A + "1")
    bench.order(DomainRule(CRAWL + 1, "site.example", is_paused=True))

    assert (await bench.begun()).url == A + "1"


async def test_a_delay_that_is_taken_back_counts_at_once(bench: Bench) -> None:
    bench.order(DomainRule(None, "site.example", delay_s=HOUR_S))
    await bench.admit(A + "1", A + "2")
    visit = await bench.begun()
    bench.hosts.turn_ended(
        visit.request,
        lambda: bench.crawls.pace("site.example", bench.crawl, None),
    )
    await bench.settle(visit, endings.ended(visit.claimed, UrlState.DONE, "", 200))
    await bench.quiet()
    domain = visit.origin.domain
    assert domain.next_at > time.monotonic() + HOUR_S / 2
    # Others, who may not have heard of the rule yet, or no more, need not wait for it.
    assert domain.lasting_next_at < time.monotonic()
    assert bench.page_fetches.begun.empty()
    bench.order()

    assert (await bench.begun()).url == A + "2"


async def test_a_delay_counts_for_a_domain_that_was_asked_elsewhere(bench: Bench) -> None:
    """By the last owner, or before it left memory."""
    bench.order(DomainRule(None, "site.example", delay_s=HOUR_S))
    await bench.store.change(0, partial(admit, urls=new_urls([A + "1"])))
    await bench.store.change(0, partial(_asked, ended_at=time.time(), delay_s=0.05))
    await asyncio.sleep(2 * LOAD_S + 0.05)
    await bench.quiet()
    assert bench.page_fetches.begun.empty()
    bench.order()

    assert (await bench.begun()).url == A + "1"


async def test_urls_that_wait_in_memory_can_be_purged(bench: Bench) -> None:
    await bench.admit(A + "1", A + "2", A + "3")
    visit = await bench.begun()
    purged, may_come = 0, True
    while may_come:
        may_come = give_back(bench.hosts, bench.shard, CRAWL, "site.example")
        purged += await bench.store.change(0, lambda store: store.purge(CRAWL, "site.example", 9))
    await bench.fetch(visit)
    await bench.quiet()

    assert purged == 2
    assert bench.page_fetches.begun.empty()


def _asked(store: ShardStore, ended_at: float, delay_s: float) -> None:
    [domain] = store.take_domains(time.time(), 1)
    store.put_domain(domain.id, ended_at + delay_s, delay_s)


# A life


class Life:
    """Pages that link to pages, and answers of every kind, at times that are left to chance.
    State: what was admitted, what is in flight, and how often each URL had its turn."""

    SITES = tuple(
        tuple(f"http://{host}.site{site}.example/" for host in "abcd"[: 1 + site % 4])
        for site in range(5)
    )
    URLS = 120

    def __init__(self, bench: Bench, seed: int, connections: int) -> None:
        self.bench = bench
        self.chance = random.Random(seed)
        self.connections = connections
        self.admitted: list[str] = []
        self.turns: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            feeding = group.create_task(self._visit_all(group))
            for site in self.SITES:
                await self._admit([self._new_url(site)])
            while len(self.admitted) < self.URLS:
                await asyncio.sleep(self.chance.uniform(0, 0.05))
                site = self.chance.choice(self.SITES)
                await self._admit([self._new_url(site) for _ in range(self.chance.randint(1, 4))])
            await self._until_all_have_ended()
            feeding.cancel()

    async def _until_all_have_ended(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while self.ended.total() < len(self.admitted) or self.bench.hosts.origins:
            left = set(self.admitted) - set(self.ended)
            assert time.monotonic() < until, f"never had their turn: {left}"
            await asyncio.sleep(0.02)

    async def _visit_all(self, group: asyncio.TaskGroup) -> None:
        while True:
            group.create_task(self._visit(await self.bench.page_fetches.begun.get()))

    async def _visit(self, visit: Visit) -> None:
        domain = visit.origin.domain.name
        self.turns[visit.url] += 1
        self.in_flight[domain] += 1
        assert self.in_flight[domain] <= self.connections
        assert not self.ended[visit.url]
        await self._pause()
        self.in_flight[domain] -= 1
        ending = self.chance.choices(
            (self._done, self._try_again, self._put_off, self._block), (7, 1, 1, 1)
        )[0]
        await ending(visit)

    async def _done(self, visit: Visit) -> None:
        self.bench.end(visit, self.chance.choice((0.0, 0.0, 0.003)))
        await self._pause()
        found = self.chance.choices((0, 1, 3), (3, 4, 2))[0]
        await self._admit([self._link_of(visit.url) for _ in range(found)])
        await self._settle(visit, endings.ended(visit.claimed, UrlState.DONE, "", 200))

    async def _try_again(self, visit: Visit) -> None:
        self.bench.end(visit)
        await self._pause()
        retry_s = self.chance.choice((0.0, 0.02, 1.5 * SOON_S))
        await self._settle(
            visit, endings.try_again(visit.claimed, "time-out", time.time(), retry_s)
        )

    async def _put_off(self, visit: Visit) -> None:
        self.bench.end(visit)
        await self._pause()
        await self._settle(visit, endings.put_off(visit.claimed))

    async def _block(self, visit: Visit) -> None:
        await self.bench.block(visit, self.chance.choice((0.01, 0.1, 2 * SOON_S)))

    async def _settle(self, visit: Visit, settled: Settled) -> None:
        await self.bench.settle(visit, settled)
        if not settled.state.is_pending:
            self.ended[visit.url] += 1

    async def _pause(self) -> None:
        """At times shorter than the store takes to answer, at times longer."""
        pause_s = self.chance.choice((0.0, 0.001, 0.004, 0.01))
        await asyncio.sleep(pause_s)

    async def _admit(self, urls: list[str]) -> None:
        urls = urls[: self.URLS - len(self.admitted)]
        self.admitted += urls
        if urls:
            await self.bench.admit(*urls)

    def _new_url(self, site: Iterable[str]) -> str:
        return f"{self.chance.choice(tuple(site))}{self.chance.getrandbits(64)}"

    def _link_of(self, url: str) -> str:
        host = url[: url.rindex("/") + 1]
        [site] = [site for site in self.SITES if host in site]
        return self._new_url(
            self.chance.choices(((host,), site, self.chance.choice(self.SITES)), (4, 4, 1))[0]
        )


@pytest.mark.usefixtures("quick_times")
@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("seed", range(2))
async def test_every_url_has_its_turn_whatever_comes_between(
    tmp_path: Path, seed: int, connections: int
) -> None:
    async with working(tmp_path, connections) as bench:
        life = Life(bench, seed, connections)
        await life.live()
        counters = await bench.store.change(0, lambda store: store.counters(CRAWL))

    assert set(life.turns) == set(life.admitted)
    assert (counters["queued"], counters["claimed"]) == (0, 0)
    assert counters["done"] + counters["failed"] == counters["admitted"] == life.URLS
    assert (bench.domains, bench.hosts.schedule.domains, bench.shard.in_flight) == ({}, 0, 0)

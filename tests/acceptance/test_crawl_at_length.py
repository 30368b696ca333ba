"""Crawls at length: one domain without an end among many others, and hundreds of thousands of
pages, also when everything is killed half-way."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from devservers import BrokerServer
from loadtest.bench.crawl.figures import Visited, check_counters, check_coverage
from loadtest.web.politeness import NS
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec, host_name
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.urls import registrable_domain
from tests.acceptance.scale import (
    ENDLESS_DELAY_S,
    ENDLESS_LOOK_S,
    ENDLESS_OTHERS,
    ENDLESS_PAGES,
    ENDLESS_PAGES_PER_HOST,
    ENDLESS_SLOTS,
    IS_PROOF,
    LONG_CRAWL_HOSTS,
    LONG_CRAWL_PAGES,
    LONG_CRAWL_S,
    LONG_CRAWL_SLOTS,
)
from tests.conftest import StartWorker
from tests.support.crawl_processes import crawl_children, peak_mib, rss_mib
from tests.support.crawling import Crawling, in_flight_at_most
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

# Two crawls each, and the reading of their ledgers.
pytestmark = pytest.mark.timeout(3 * LONG_CRAWL_S)

Record = Callable[[str, object], None]

OWNERS = 2
LONG_CRAWL_STAGES = f"crawl:{OWNERS}x{LONG_CRAWL_SLOTS} parse:1x40"
ENDLESS_DOMAIN = registrable_domain(host_name(0))
# Of each four hosts of the web three share a domain: so these are as many others, and the first.
ENDLESS_HOSTS = 2 * ENDLESS_OTHERS + 1
# A lease that is lost, because the machine is busy, would fetch pages again.
LONG_LEASE_S = "20"
# Who comes after a kill waits for so long.
LEASE_AT_KILL_S = "5" if IS_PROOF else "2"
# More than this between the first quarter of the looks and the last is growth.
GROWTH_SHARE = 1.1
GROWTH_MIB = 10.0
# What an endless domain may cost the others, in one run on a machine whose speed changes.
SLOWED_AT_MOST = 1.5


@dataclass(frozen=True, slots=True)
class Watched:
    """The other domains, from the first request to their last page, and the memory of the process
    that crawled them at each look."""

    pages: int
    took_s: float
    memory_mib: list[float]

    @property
    def quarters_mib(self) -> list[int]:
        """The most in each quarter of the looks."""
        ends = [round(quarter * len(self.memory_mib) / 4) for quarter in range(5)]
        return [round(max(self.memory_mib[start:end])) for start, end in pairwise(ends)]

    @property
    def is_flat(self) -> bool:
        first, *_, last = self.quarters_mib
        return last <= first * GROWTH_SHARE + GROWTH_MIB


class SceneRun(NamedTuple):
    crawl: int
    worker: WorkerUnderTest
    queued_within_s: float


@dataclass(frozen=True, slots=True)
class Scene:
    """A crawl of a web whose first domain may be endless: all that this one has are seeds."""

    crawling: Crawling
    of_first: list[str]
    of_others: set[str]

    @classmethod
    def of(cls, state: Path, web: SyntheticWeb) -> "Scene":
        urls = list(web.perfect_crawl())
        of_first = [url for url in urls if f".{ENDLESS_DOMAIN}:" in url]
        return cls(Crawling(state, web), of_first, set(urls).difference(of_first))

    def start(self) -> int:
        seeds = dict.fromkeys([*self.crawling.web.seeds, *self.of_first])
        return self.crawling.start(delay_s=ENDLESS_DELAY_S, seeds=list(seeds))

    async def watch_others(self, worker: WorkerUnderTest) -> Watched:
        (pid,) = crawl_children(worker)
        memory_mib = [rss_mib(pid)]
        async with asyncio.timeout(LONG_CRAWL_S):
            while not self._others_are_done():
                await asyncio.sleep(ENDLESS_LOOK_S)
                memory_mib.append(rss_mib(pid))
        visits = [one for one in self.crawling.web.ledger() if one.url in self.of_others]
        took_ns = max(one.ended_ns for one in visits) - min(one.arrived_ns for one in visits)
        return Watched(len(self.of_others), took_ns / NS, memory_mib)

    def _others_are_done(self) -> bool:
        web = self.crawling.web
        # The ledger is long: it is read only when it may be so.
        if web.counts().pages < len(self.of_others):
            return False
        return self.of_others <= {visit.url for visit in web.ledger()}


@pytest.fixture
def start_scene(tmp_path: Path) -> Iterator[Callable[[int], Scene]]:
    """A web whose first domain has so many pages more than the others."""
    webs: list[SyntheticWeb] = []
    scenes: list[Scene] = []

    def start(big_host_pages: int) -> Scene:
        pages = ENDLESS_HOSTS * ENDLESS_PAGES_PER_HOST
        web = SyntheticWeb(
            WebSpec(hosts=ENDLESS_HOSTS, pages=pages, big_host_pages=big_host_pages, latency_ms=20)
        )
        web.start()
        webs.append(web)
        scenes.append(Scene.of(tmp_path / f"state-{len(scenes)}", web))
        return scenes[-1]

    yield start
    for scene in scenes:
        scene.crawling.close()
    for web in webs:
        web.stop()


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    """One for each crawl: what waits in its queues belongs to a state directory."""
    with BrokerServer() as broker:
        yield broker


async def started(scene: Scene, broker: BrokerServer, start_worker: StartWorker) -> SceneRun:
    """All that was known at first is queued."""
    crawling = scene.crawling
    crawl = scene.start()
    began_s = time.monotonic()
    worker = start_worker(
        broker.url,
        **crawling.settings(f"crawl:1x{ENDLESS_SLOTS} parse:1x40", CRAWL_LEASE_S=LONG_LEASE_S),
    )
    await eventually(lambda: crawling.crawl(crawl).state is CrawlState.RUNNING, LONG_CRAWL_S)
    assert crawling.counters(crawl)["admitted"] >= len(scene.of_first)
    return SceneRun(crawl, worker, time.monotonic() - began_s)


async def crawled_without(scene: Scene, start_worker: StartWorker) -> Watched:
    with BrokerServer() as broker:
        run = await started(scene, broker, start_worker)
        watched = await scene.watch_others(run.worker)
        run.worker.signal(signal.SIGKILL)
    return watched


@pytest.mark.alone
async def test_a_domain_without_an_end_costs_the_others_nothing_and_no_memory(
    broker: BrokerServer,
    start_worker: StartWorker,
    start_scene: Callable[[int], Scene],
    record_property: Record,
) -> None:
    without = await crawled_without(start_scene(0), start_worker)

    scene = start_scene(ENDLESS_PAGES)
    crawling = scene.crawling
    run = await started(scene, broker, start_worker)
    watched = await scene.watch_others(run.worker)
    crawling.cancel(run.crawl)
    cancelled_s = time.monotonic()
    ended = await crawling.ended(run.crawl, LONG_CRAWL_S)
    cancelling_s = time.monotonic() - cancelled_s

    assert ended.state is CrawlState.CANCELLED
    verdict = crawling.verdict(ENDLESS_DELAY_S)
    assert verdict.is_polite, str(verdict)
    assert watched.is_flat, watched.memory_mib
    counters = crawling.counters(run.crawl)
    assert counters["admitted"] == len(scene.of_first) + len(scene.of_others)
    assert counters["admitted"] == sum(counters[name] for name in STATE_COUNTERS)
    assert counters["done"] == counters["pages"] == crawling.web.counts().pages
    assert counters["cancelled"] == counters["admitted"] - counters["done"]
    slowed = watched.took_s / without.took_s
    record_property("URLs of the domain", len(scene.of_first))
    record_property("queued in s", round(run.queued_within_s, 1))
    record_property("cancelled in s", round(cancelling_s, 1))
    record_property("pages of it", counters["done"] - watched.pages)
    record_property("pages of the others", watched.pages)
    record_property("in s without it", round(without.took_s, 1))
    record_property("in s with it", round(watched.took_s, 1))
    record_property("ratio", round(slowed, 2))
    record_property("most MiB by quarters without it", without.quarters_mib)
    record_property("with it", watched.quarters_mib)
    if IS_PROOF:
        assert slowed <= SLOWED_AT_MOST


@pytest.fixture
def long_crawl(tmp_path: Path) -> Iterator[Crawling]:
    with SyntheticWeb(WebSpec(hosts=LONG_CRAWL_HOSTS, pages=LONG_CRAWL_PAGES)) as web:
        crawling = Crawling(tmp_path / "state", web)
        yield crawling
        crawling.close()


def check_long_crawl(crawling: Crawling, crawl: int, twice_at_most: int, record: Record) -> None:
    """Every page was fetched, and the crawl counts what the origin does."""
    check_coverage(crawling.coverage())
    twice = crawling.pages_twice()
    assert twice <= twice_at_most
    counts = crawling.web.counts()
    check_counters(crawling.counters(crawl), replace(counts, pages=counts.pages - twice))
    verdict = crawling.verdict(0.0, may_repeat=twice_at_most > 0)
    assert verdict.is_polite, str(verdict)
    visited = Visited.of(crawling.web.ledger())
    record("pages", visited.pages)
    record("pages/s", round(visited.pages_per_s))
    record("fetched twice", twice)


def record_peaks(peaks: dict[str, int], record: Record) -> None:
    for role, mib in peaks.items():
        record(f"most MiB of a process, {role}", mib)


async def test_a_long_crawl_completes_and_counts_what_the_origin_does(
    broker: BrokerServer,
    start_worker: StartWorker,
    long_crawl: Crawling,
    record_property: Record,
) -> None:
    crawl = long_crawl.start()
    worker = start_worker(
        broker.url,
        **long_crawl.settings(LONG_CRAWL_STAGES, CRAWL_LEASE_S=LONG_LEASE_S),
    )

    ended = await long_crawl.ended(crawl, LONG_CRAWL_S)

    assert ended.state is CrawlState.COMPLETED
    record_peaks(peak_mib(worker, broker), record_property)
    check_long_crawl(long_crawl, crawl, 0, record_property)


async def test_a_long_crawl_that_is_killed_half_way_ends_with_the_same(
    broker: BrokerServer,
    start_worker: StartWorker,
    long_crawl: Crawling,
    record_property: Record,
) -> None:
    settings = long_crawl.settings(LONG_CRAWL_STAGES, CRAWL_LEASE_S=LEASE_AT_KILL_S)
    crawl = long_crawl.start()
    first = start_worker(broker.url, **settings)
    await eventually(lambda: long_crawl.web.counts().pages >= LONG_CRAWL_PAGES // 2, LONG_CRAWL_S)

    before = peak_mib(first, broker)
    first.signal(signal.SIGKILL)
    broker.kill()
    broker.start()
    second = start_worker(broker.url, **settings)
    ended = await long_crawl.ended(crawl, LONG_CRAWL_S)

    assert ended.state is CrawlState.COMPLETED
    peaks = peak_mib(second, broker)
    record_peaks({role: max(mib, before[role]) for role, mib in peaks.items()}, record_property)
    check_long_crawl(
        long_crawl, crawl, OWNERS * in_flight_at_most(LONG_CRAWL_SLOTS), record_property
    )

"""The turns of one shard over its real store. The web, the broker and the archives are scripted."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec, PolitenessSpec
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import Layout, StoredOrigin, StoredRobots, UrlRow
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from manyhands.shared.jobs import Job
from manyhands.shared.settings import FetchSettings
from manyhands.shared.tasks import Tasks
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.fetching.archive import Archive, RobotsFetcher
from manyhands.worker.crawl.fetching.job_ends import JobEnds
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.fetching.page_ends import PageEnds
from manyhands.worker.crawl.fetching.page_fetch import PageFetches
from manyhands.worker.crawl.fetching.page_turns import PageTurns
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.recorded_ends import RecordedEnds
from manyhands.worker.crawl.fetching.robots_turns import RobotsTurns
from manyhands.worker.crawl.fetching.sitemaps import Sitemaps
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.allowance import Allowance
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.schedule import Request
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.politeness.robots import ALLOW_ALL, rules_of
from manyhands.worker.crawl.politeness.robots_fetch import RobotsFetches
from manyhands.worker.crawl.shards.kept_robots import RobotsStores
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.open_requests import OpenRequests
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.crawl.wakeup import Wakeup
from manyhands.worker.net.byte_budget import ByteBudget
from manyhands.worker.net.fetcher import Answer, FetchError
from manyhands.worker.records import Capture
from manyhands.worker.sinks.sinks import Sinks
from tests.unit.worker.crawl.politeness.answers import ScriptedFetcher

CRAWL = 1
SITE = "http://site.example"
PAGE = f"{SITE}/page"
ROBOTS = f"{SITE}/robots.txt"
DELAY_S = 5.0
RETRY_S = 30.0
LEASE_S = 60.0
TRUNCATE_BYTES = 100
# A test that waits for so long has failed.
PATIENCE_S = 10.0


class AwaitedTasks(Tasks):
    """State: those that were begun, so that a test can wait for all of them."""

    def __init__(self) -> None:
        super().__init__("test")
        self._begun: list[asyncio.Task[object]] = []

    def spawn(self, work: Coroutine[Any, Any, object], name: str | None = None) -> None:
        self._begun.append(asyncio.create_task(work, name=name))

    async def all_ended(self) -> None:
        """Also those that were begun meanwhile. Raises what one of them did."""
        while self._begun:
            await self._begun.pop()


class Outside:
    """Broker and archives. State: what each was given and in which order, whether the broker
    was asked and answers, and what they raise."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.pages: list[FetchedPage] = []
        self.captures: list[Capture] = []
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.has_archive = False
        self.push_error: Exception | None = None
        self.sink_error: Exception | None = None

    async def push(self, jobs: Sequence[Job]) -> None:
        self.asked.set()
        await self.answers.wait()
        if self.push_error is not None:
            raise self.push_error
        self.order.append("broker")
        self.pages += [FetchedPage(*page) for job in jobs for page in job.args[1]]

    def takes(self, kind: type) -> bool:
        return self.has_archive and kind is Capture

    async def room(self) -> None:
        pass

    async def write(self, records: Sequence[Capture]) -> None:
        if self.sink_error is not None:
            raise self.sink_error
        self.order.append("archive")
        self.captures += records


class Bench:
    """State: one page that is claimed, and everything that takes part in its turn."""

    def __init__(self, directory: Path, answers: dict[str, Answer | FetchError]) -> None:
        self.directory = directory
        self.outside = Outside()
        self.fetcher = ScriptedFetcher(answers)
        self.failures: list[tuple[OwnedShard, Exception]] = []
        spec = CrawlSpec(contact="me@example.org", politeness=PolitenessSpec(delay_s=DELAY_S))
        scope = Scope(spec.scope, Exclusions.parse([]))
        self.allowance = Allowance(left=1)
        self.crawl = LiveCrawl(
            CRAWL, spec, CrawlState.RUNNING, scope, "Manyhands of a crawl", 3600.0, self.allowance
        )
        crawls = LiveCrawls({CRAWL: self.crawl})
        crawls.obey([])
        self.shard = OwnedShard(0, 1)
        self.lease_guard = LeaseGuard(LEASE_S)
        self.lease_guard.granted(0, 1, self.lease_guard.now())
        self.requests = OpenRequests(self.lease_guard)
        self.store = StoreThreads(
            lambda: 0.0, gather_s=0.01, writers=lambda: 1, places=[Absence("")]
        )
        self.slots = Slots(10, ByteBudget(1_000_000))
        self.tasks = AwaitedTasks()
        wakeup = Wakeup()
        settling = Settling(self.store, self._store_failed)
        notes = HostNotes(settling)
        self.working_set = WorkingSet(
            self.store, crawls, notes, self.tasks, self._store_failed, wakeup
        )
        admission = Admission(
            self.store,
            crawls,
            {0: self.shard},
            CrawlFigures(),
            self.working_set.told_new,
            lambda _sources: None,
        )
        admission.laid_out(Layout(generation=1, shards=1, wanted=1, most_ever=1))
        archive = Archive(cast("Sinks", self.outside), lambda: "tag")
        pages = PagePusher(self.outside.push, lambda shard: f"crawl.tag.{shard:02}", self.tasks)
        self.ends = RecordedEnds(
            *(pages, settling, crawls, self._store_failed, self.tasks, lambda: "tag"), are_on=False
        )
        self.page_ends = PageEnds(
            admission=admission,
            notes=notes,
            archive=archive,
            pages=pages,
            ends=self.ends,
            settling=settling,
            store_failed=self._store_failed,
            jobs=JobEnds(admission, self.outside.push, pages, TRUNCATE_BYTES, max_redirects=5),
            retry_s=RETRY_S,
            truncate_bytes=TRUNCATE_BYTES,
        )
        self.page_turns = PageTurns(
            self.slots,
            crawls,
            self.working_set,
            PageFetches(self.fetcher, self.requests, CrawlFigures(), FetchSettings()),
            self.page_ends,
            Sitemaps(admission),
            self.tasks,
            wakeup,
        )
        self.robots = RobotsFetches(RobotsFetcher(self.fetcher, archive), RETRY_S)
        self.robots_turns = RobotsTurns(
            self.slots,
            crawls,
            self.working_set,
            self.robots,
            RobotsStores(self.store, self.requests),
            notes,
            self._store_failed,
            self.tasks,
            "Manyhands of nobody",
        )

    async def take(self) -> Request:
        """The turn of the one origin that there is."""
        await self.store.open(0, partial(open_shard, self.directory, 0, 0, 1, 0.0))
        await self.store.change(0, _admit)
        self.working_set.shard_opened(self.shard)
        await self.working_set.load(self.shard)
        request = self.working_set.schedule.take(asyncio.get_running_loop().time())
        assert request is not None
        return request

    def page(self, request: Request) -> PageToFetch:
        """Begun, as NextUrls does it."""
        self.allowance.begin(0.0)
        rules = rules_of(StoredRobots(ALLOW_ALL, b"", 0.0, 2e9))
        return PageToFetch(request.origin.urls.popleft(), self.crawl, rules)

    async def urls(self) -> dict[str, UrlRow]:
        def rows(store: ShardStore) -> list[UrlRow]:
            return [row for state in UrlState for row in store.urls(CRAWL, state, 0, 10)]

        return {row.url: row for row in await self.store.change(0, rows)}

    async def origin(self) -> StoredOrigin:
        """As the store has it; it must have a URL that waits."""
        [domain] = await self.store.change(0, lambda store: store.waiting_domains(1))
        [origin] = domain.origins
        return origin

    def under_way(self) -> tuple[int, int, int]:
        """Pages in slots, robots.txt files, answers that are not settled."""
        figures = self.slots.figures()
        return figures["busy"], figures["robots"], figures["unsettled"]

    def lose_lease(self) -> None:
        self.lease_guard.ended(0)

    def _store_failed(self, shard: OwnedShard, error: Exception) -> None:
        self.failures.append((shard, error))


@contextlib.asynccontextmanager
async def bench_of(
    directory: Path, answers: dict[str, Answer | FetchError]
) -> AsyncIterator[Bench]:
    bench = Bench(directory, answers)
    async with asyncio.timeout(PATIENCE_S):
        yield bench
        await bench.tasks.all_ended()
        await bench.robots.close()
    await bench.store.stop()


def _admit(store: ShardStore) -> None:
    store.admit(CRAWL, [new_url(parse_url(PAGE), 0)], time.time(), are_seeds=True)

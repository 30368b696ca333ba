"""A process that owns shards: everything that follows from its leases, put together and run.

The parts: `leasing` has the shards, `dispatcher` fetches, `admission` takes URLs in, `outbox` sends
links to other shards, `commands` carries out what operators want, `leader` does what one process
must do for all. Shard stores live in one thread, the control store in another.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from manyhands.shared.crawl.messages import crawl_queue
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.reshard import reshard
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import CrawlSettings, FetchSettings
from manyhands.worker.crawl.fetching.dispatcher import Dispatcher
from manyhands.worker.crawl.fetching.page_fetch import ROBOTS_CACHE_BYTES, PageFetches
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.settling import Settling
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.commands import OperatorCommands
from manyhands.worker.crawl.frontier.hosts import OwnedShard
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.outbox import ARRIVED_LOOK_S, Outbox
from manyhands.worker.crawl.frontier.working_set import LEAVE_LOOK_S, WorkingSet
from manyhands.worker.crawl.leader import LEADER_TTL_S, Leader
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.politeness.robots_cache import RobotsCache
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.leasing import Leasing
from manyhands.worker.crawl.shards.store_thread import StoreThread
from manyhands.worker.crawl.tasks import Tasks
from manyhands.worker.jobs.stage_services import Push
from manyhands.worker.net.byte_budget import ByteBudget
from manyhands.worker.net.fetcher import HopFetcher
from manyhands.worker.service.link import Family
from manyhands.worker.sinks.sinks import Sinks

PROGRESS_S = 1.0
LOAD_S = 0.25
# How often the leader looks at the crawls, and how often if one may be about to end. Where there
# are many, its looks take no more than a fifth of its time.
LEADER_LOOK_S = 1.0
LEADER_SOON_S = 0.2
LEADER_REST = 4
READMIT_LOOK_S = 30.0
# A page that has been in the parse stage for so long is lost there.
PARSING_AT_MOST_S = 900.0
MOST_ATTEMPTS_AT_PARSING = 3
READMITTED_AT_ONCE = 1_000
MOST_ROBOTS_BYTES = 64 * 1024 * 1024


class Owner:
    """State: the parts, and whether it is to end."""

    def __init__(
        self,
        settings: CrawlSettings,
        fetch: FetchSettings,
        fetcher: HopFetcher,
        *,
        slots: int,
        in_flight: ByteBudget,
        push: Push,
        sinks: Sinks,
        set_queues: Callable[[Sequence[str]], None],
    ) -> None:
        assert settings.state is not None
        self._directory = settings.state
        self.name = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        self._log = get_logger("crawl").bind(member=self.name)
        self._closing = asyncio.Event()
        self._ended = asyncio.Event()
        self._shards: dict[int, OwnedShard] = {}
        self._control = Control(settings.state)
        self._store = StoreThread(lambda: self._dispatcher.patience_s)
        self._crawls = LiveCrawls()
        self._background = Tasks()
        self._figures = CrawlFigures()
        lease_guard = LeaseGuard(settings.lease_s)
        settling = Settling(self._store, self._store_failed)
        self._outbox = Outbox(self._store, push, lambda: list(self._shards))
        self._hosts = WorkingSet(
            self._store,
            self._crawls,
            settling,
            self._background,
            self._store_failed,
            lambda: self._dispatcher.wake(),
        )
        self.admission = Admission(
            self._store,
            self._crawls,
            self._shards,
            self._figures,
            self._hosts.told_new,
            self._outbox.wake,
        )
        self._page_fetches = PageFetches(
            figures=self._figures,
            store=self._store,
            admission=self.admission,
            crawls=self._crawls,
            lease_guard=lease_guard,
            fetcher=fetcher,
            sinks=sinks,
            tag=lambda: self._control.tag,
            pages=PagePusher(push, lambda shard: crawl_queue(shard, self.admission.shards)),
            settings=fetch,
            in_flight=in_flight,
            retry_s=settings.retry_s,
            settling=settling,
            hosts=self._hosts,
            store_failed=self._store_failed,
            wake=lambda: self._dispatcher.wake(),
            robots=RobotsCache(ROBOTS_CACHE_BYTES, settings.retry_s, clock.now),
            tasks=self._background,
        )
        self._dispatcher = Dispatcher(
            slots, self._hosts, self._page_fetches, self._crawls, settling, self._wants_pages
        )
        self._orders = OperatorCommands(
            member=self.name,
            directory=settings.state,
            settings=settings,
            fetch=fetch,
            shards=self._shards,
            control=self._control,
            store=self._store,
            crawls=self._crawls,
            hosts=self._hosts,
            admission=self.admission,
            tasks=self._background,
            wake=lambda: self._dispatcher.wake(),
            pages_came=lambda: self._dispatcher.pages_came(),
            log=self._log,
        )
        self._leader = Leader(
            self.name, settings, self._control.ask, self._control.counters, self._change_shards
        )
        self._leasing = Leasing(
            name=self.name,
            slots=slots,
            settings=settings,
            directory=settings.state,
            shards=self._shards,
            lease_guard=lease_guard,
            control=self._control,
            store=self._store,
            crawls=self._crawls,
            hosts=self._hosts,
            admission=self.admission,
            dispatcher=self._dispatcher,
            outbox=self._outbox,
            leader=self._leader,
            tasks=self._background,
            opened=self._orders.look_again,
            set_queues=set_queues,
            log=self._log,
        )

        self._store.on_failed = self._leasing.file_failed

    async def run(self) -> None:
        """Until closed."""
        await self._control.open()
        try:
            await self._leasing.settle_layout(self._closing.is_set)
            if self._closing.is_set():
                return
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._leasing.renew(), name="crawl-renew")
                parts = [tasks.create_task(work) for work in self._parts()]
                await self._closing.wait()
                for part in parts:
                    part.cancel()
                await asyncio.wait(parts)
                # Leases are renewed for as long as there are any.
                await self._page_fetches.robots.close()
                await self._leasing.release_all()
                renewing.cancel()
        finally:
            self._dispatcher.is_open = False
            self._ended.set()

    async def stop_feeding(self) -> None:
        """Fetch nothing new, and wait for what is being fetched."""
        self._leasing.is_stopping = True
        self._dispatcher.is_open = False
        while self._page_fetches.are_under_way:  # noqa: ASYNC110 - any of many may be the last
            await asyncio.sleep(LEAVE_LOOK_S)

    async def close(self) -> None:
        """Give everything up: another process may go on at once."""
        self._closing.set()
        await self._ended.wait()
        await self._store.stop()
        await self._control.close(self.name)

    def set_pace(self, pace: float) -> None:
        self._dispatcher.pace = pace

    def families(self) -> Iterable[Family]:
        shards = {"shards": len(self._shards), "damaged_shards": len(self._leasing.damaged)}
        return self._figures.families(self._dispatcher.figures() | shards)

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._leasing.balance(self._closing.is_set),
            self._orders.watch(),
            self._orders.watch_seed_names(),
            self._load(),
            self._watch_arrivals(),
            self._readmit(),
            self._lead(),
            self._outbox.run_pump(lambda: self.admission.generation, lambda: self.admission.shards),
        ]

    def _store_failed(self, shard: OwnedShard, error: Exception) -> None:
        self._leasing.store_failed(shard, error)

    def _wants_pages(self, crawl: LiveCrawl) -> None:
        self._orders.wants_pages(crawl)

    async def _change_shards(self, shards: int) -> None:
        await self._control.work(partial(self._reshard, shards=shards))

    def _reshard(self, control: SqliteControl, shards: int) -> None:
        told_at = 0.0

        def told(done: int, of: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= PROGRESS_S:
                told_at = time.monotonic()
                # The lease of the leader is kept by the thread that does its work.
                control.lead(self.name, LEADER_TTL_S)
                self._log.info("changing the number of shards", done=done, of=of, to=shards)

        reshard(self._directory, control, shards, told)

    # What is done again and again

    async def _load(self) -> None:
        while True:
            for shard in list(self._shards.values()):
                await self._hosts.load(shard)
            await self._orders.return_pages()
            self._dispatcher.wake()
            await asyncio.sleep(LOAD_S)

    async def _watch_arrivals(self) -> None:
        while True:
            await asyncio.sleep(ARRIVED_LOOK_S)
            await self._outbox.look_what_arrived(self._control.received)

    async def _readmit(self) -> None:
        while True:
            await asyncio.sleep(READMIT_LOOK_S)
            for number, shard in list(self._shards.items()):
                forgotten = await self._hosts.look_for_forgotten(shard)
                if forgotten:
                    self._log.info("URLs waited that nothing knew of", domains=forgotten)
                try:
                    again = await self._store.change(number, _readmit)
                except LeaseLost:
                    continue
                if again:
                    self._log.warning("pages were lost in parsing: queued again", count=again)

    async def _lead(self) -> None:
        was_leading = False
        while True:
            began_at = time.monotonic()
            if not self._leasing.is_stopping:
                await self._leader.tick(self.admission.shards)
                if self._leader.is_leading != was_leading:
                    was_leading = self._leader.is_leading
                    self._leasing.tell_queues()
            wait_s = LEADER_SOON_S if self._leader.is_near_an_end else LEADER_LOOK_S
            await asyncio.sleep(max(wait_s, LEADER_REST * (time.monotonic() - began_at)))


def _readmit(store: ShardStore) -> int:
    now = clock.now()
    store.forget_robots(now, MOST_ROBOTS_BYTES)
    return store.readmit(now - PARSING_AT_MOST_S, now, MOST_ATTEMPTS_AT_PARSING, READMITTED_AT_ONCE)

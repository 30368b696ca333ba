"""A process that owns shards: takes and keeps leases, and runs everything that follows from them.

The parts: `feed` fetches, `desk` takes URLs in, `outbox` sends links to other shards, `leader` does
what one process must do for all. Shard stores live in one thread, the control store in another.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from shared.crawl.messages import crawl_queue
from shared.crawl.scope import Scope
from shared.crawl.states import CrawlState
from shared.errors import ManyhandsError
from shared.logs import get_logger
from shared.settings import CrawlSettings, FetchSettings
from shared.state.directory import open_control, open_reader, open_shard
from shared.state.model import Crawl, CrawlEnds, LeaseLost, Member
from shared.state.protocol import ControlStore, ShardReader
from shared.state.reshard import reshard
from shared.state.sqlite_control import SqliteControl
from worker.crawl.crawls import LiveCrawl, LiveCrawls
from worker.crawl.desk import Desk
from worker.crawl.feed import Feed
from worker.crawl.figures import CrawlFigures
from worker.crawl.hosts import OwnedShard
from worker.crawl.leader import LEADER_TTL_S, Leader, exclusions_of
from worker.crawl.leases import Rights, shards_to_claim, shards_to_release
from worker.crawl.outbox import ARRIVED_LOOK_S, Outbox
from worker.crawl.pages import PagePusher
from worker.crawl.robots_source import RobotsCache
from worker.crawl.settling import Settling
from worker.crawl.store_thread import StoreThread
from worker.crawl.tasks import Tasks
from worker.crawl.visits import ROBOTS_CACHE_BYTES, Visits
from worker.crawl.working_set import LEAVE_LOOK_S, WorkingSet
from worker.link import Family
from worker.net.fetcher import HopFetcher
from worker.stage_services import Push

Result = TypeVar("Result")

# Of the lease: how often it is renewed.
RENEWALS = 4
BALANCE_S = 1.0
PROGRESS_S = 1.0
CONTROL_LOOK_S = 0.5
LOAD_S = 0.25
SEED_BATCHES = 20
MOST_SEED_NAMES = 100_000
SEED_NAMES_LOOK_S = 10.0
CANCELLED_AT_ONCE = 5_000
READMIT_LOOK_S = 30.0
# A page that has been in the parse stage for so long is lost there.
PARSING_AT_MOST_S = 900.0
READMITTED_AT_ONCE = 1_000
MOST_ROBOTS_BYTES = 64 * 1024 * 1024
PAGES_GRANTED_AT_ONCE = 200


class Owner:
    """State: the shards that are open here, the crawls that live, and the tasks around them."""

    def __init__(
        self,
        settings: CrawlSettings,
        fetch: FetchSettings,
        fetcher: HopFetcher,
        *,
        slots: int,
        push: Push,
        set_queues: Callable[[Sequence[str]], None],
    ) -> None:
        assert settings.state is not None
        self._settings = settings
        self._fetch = fetch
        self._directory: Path = settings.state
        self._slots = slots
        self._set_queues = set_queues
        self.name = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("crawl").bind(member=self.name)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="crawl-control")
        self._control: SqliteControl | None = None
        self._readers: dict[tuple[int, int], ShardReader] = {}
        self.shards: dict[int, OwnedShard] = {}
        self._rights = Rights(settings.lease_s)
        self._store = StoreThread(lambda: self._feed.patience_s)
        self._crawls = LiveCrawls()
        self._outbox = Outbox(self._store, push, lambda: list(self.shards))
        self._background = Tasks()
        self._figures = CrawlFigures()
        self._settling = Settling(self._store, self._store_failed)
        self._hosts = WorkingSet(
            self._store,
            self._crawls,
            self._settling,
            self._background,
            self._store_failed,
            lambda: self._feed.wake(),
        )
        self.desk = Desk(
            self._store,
            self._crawls,
            self.shards,
            self._figures,
            self._hosts.told_new,
            self._outbox.wake,
        )
        self._visits = Visits(
            figures=self._figures,
            store=self._store,
            desk=self.desk,
            crawls=self._crawls,
            rights=self._rights,
            fetcher=fetcher,
            pages=PagePusher(push, self._queue_of),
            settings=fetch,
            retry_s=settings.retry_s,
            settling=self._settling,
            hosts=self._hosts,
            store_failed=self._store_failed,
            wake=lambda: self._feed.wake(),
            robots=RobotsCache(ROBOTS_CACHE_BYTES, time.time),
            tasks=self._background,
        )
        self._feed = Feed(
            slots,
            self._hosts,
            self._visits,
            self._crawls,
            self._settling,
            self._wants_pages,
        )
        self._leader = Leader(self.name, settings, self.ask, self._counters, self._change_shards)
        self._seen_version = -1
        # How many shards the log was told of, and how many there ever were.
        self._said_shards = -1
        self._most_ever = 0
        self._looks_at_seeds = True
        self._granting: set[int] = set()
        self._is_stopping = False
        self._closing = asyncio.Event()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Until closed."""
        self._control = await self._in_thread(partial(open_control, self._directory))
        try:
            await self._settle_layout()
            if self._closing.is_set():
                return
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(self._renew(), name="crawl-renew")
                parts = [tasks.create_task(work) for work in self._parts()]
                await self._closing.wait()
                for part in parts:
                    part.cancel()
                await asyncio.wait(parts)
                # Leases are renewed for as long as there are any.
                await self._give_everything_up()
                renewing.cancel()
        finally:
            self._feed.is_open = False
            self._ended.set()

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._balance(),
            self._watch_control(),
            self._load(),
            self._watch_arrivals(),
            self._watch_seed_names(),
            self._readmit(),
            self._lead(),
            self._outbox.run_pump(lambda: self.desk.generation, lambda: self.desk.shards),
        ]

    async def stop_feeding(self) -> None:
        """Fetch nothing new, and wait for what is being fetched."""
        self._is_stopping = True
        self._feed.is_open = False
        while self._visits.are_under_way:  # noqa: ASYNC110 - any of many may be the last
            await asyncio.sleep(LEAVE_LOOK_S)

    async def close(self) -> None:
        """Give everything up: another process may go on at once."""
        self._closing.set()
        await self._ended.wait()
        await self._store.stop()
        if self._control is not None:
            await self._in_thread(partial(self._control.leave, self.name))
            await self._in_thread(self._close_stores)
        self._thread.shutdown(wait=False)

    async def _give_everything_up(self) -> None:
        await self._visits.robots.close()
        for shard in list(self.shards.values()):
            await self._release(shard)

    async def ask(self, question: Callable[[ControlStore], Result]) -> Result:
        """The control store, in its thread."""
        control = self._control
        assert control is not None, "before the start"
        return await self._in_thread(lambda: question(control))

    def set_pace(self, pace: float) -> None:
        self._feed.pace = pace

    def families(self) -> Iterable[Family]:
        return self._figures.families(self._feed.figures() | {"shards": len(self.shards)})

    # Layout

    async def _settle_layout(self) -> None:
        """Wait until the shards are as many as the settings say; the leader sees to that."""
        wanted = self._settings.shards
        layout = await self.ask(lambda control: control.layout(wanted))
        while layout.shards != wanted and not self._closing.is_set():
            if await self._leader.leads():
                await self._leader.reshard(layout, wanted)
            else:
                await asyncio.sleep(BALANCE_S)
            layout = await self.ask(lambda control: control.layout(wanted))
        self.desk.shards = layout.shards
        self.desk.generation = layout.generation
        self._most_ever = layout.most_ever

    async def _change_shards(self, shards: int) -> None:
        control = self._control
        assert control is not None, "before the start"
        told_at = 0.0

        def told(done: int, of: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= PROGRESS_S:
                told_at = time.monotonic()
                # The lease of the leader is kept by the thread that does its work.
                control.lead(self.name, LEADER_TTL_S)
                self._log.info("changing the number of shards", done=done, of=of, to=shards)

        await self._in_thread(partial(reshard, self._directory, control, shards, told))

    # Leases

    async def _renew(self) -> None:
        lease_s = self._settings.lease_s
        while True:
            asked_at = self._rights.now()
            epochs = dict(self._rights.epochs)
            member = Member(self.name, self._slots, self._feed.figures())
            try:
                await self.ask(lambda control, m=member: control.join(m, lease_s))  # type: ignore[misc]
                kept = await self.ask(
                    lambda control, e=epochs: control.renew_leases(self.name, e, lease_s)  # type: ignore[misc]
                )
            except ManyhandsError as error:
                self._log.error("leases could not be renewed", reason=str(error))
            else:
                for shard in self._rights.renewed(kept, asked_at):
                    if shard in epochs:
                        self._drop(shard, "its lease ran out")
            await asyncio.sleep(lease_s / RENEWALS)

    async def _balance(self) -> None:
        # So that processes that start together know of each other first.
        await asyncio.sleep(BALANCE_S / 2)
        while True:
            if not self._is_stopping:
                await self._claim_and_release()
            await asyncio.sleep(BALANCE_S)

    async def _claim_and_release(self) -> None:
        layout = await self.ask(lambda control: control.layout(self._settings.shards))
        if layout.generation != self.desk.generation:
            for number in list(self.shards):
                self._drop(number, "the number of shards has changed")
            await self._settle_layout()
        members = await self.ask(lambda control: control.members())
        leases = await self.ask(lambda control: control.leases())
        count = self.desk.shards
        excess = shards_to_release(self.name, count, members, list(self.shards))
        for shard in list(self.shards.values())[len(self.shards) - excess :]:
            await self._release(shard)
        wanted = shards_to_claim(self.name, count, members, leases)
        await asyncio.gather(*(self._claim(number) for number in wanted))
        if len(self.shards) != self._said_shards:
            self._said_shards = len(self.shards)
            self._log.info("owns shards", owned=len(self.shards), of=count)

    async def _claim(self, number: int) -> None:
        lease_s = self._settings.lease_s
        asked_at = self._rights.now()
        epoch = await self.ask(lambda control: control.claim_lease(number, self.name, lease_s))
        if epoch is None:
            return
        self._rights.granted(number, epoch, asked_at)
        make = partial(
            open_shard, self._directory, self.desk.generation, number, epoch, time.time()
        )
        try:
            await self._store.open(number, make)
        except ManyhandsError as error:
            # A later owner has it, or an earlier one hangs in the middle of a transaction.
            self._log.warning("a shard could not be taken over", shard=number, reason=str(error))
            self._rights.ended(number)
            await self.ask(lambda control: control.release_lease(number, epoch))
            return
        shard = OwnedShard(number, epoch)
        self.shards[number] = shard
        self._hosts.shard_opened(shard)
        self._outbox.shard_opened(number)
        self._looks_at_seeds = True
        self._tell_queues()

    async def _release(self, shard: OwnedShard) -> None:
        try:
            await self._hosts.leave(shard)
        except LeaseLost:
            self._drop(shard.number, "its lease ran out")
            return
        if self.shards.pop(shard.number, None) is None:
            return
        self._outbox.shard_closed(shard.number)
        self._rights.ended(shard.number)
        self._tell_queues()
        await self._store.close(shard.number)
        await self.ask(lambda control: control.release_lease(shard.number, shard.epoch))

    def _drop(self, number: int, why: str) -> None:
        """It is not ours any more: forget what is in memory, write nothing."""
        shard = self.shards.pop(number, None)
        self._rights.ended(number)
        if shard is None:
            return
        self._log.warning("a shard is given up", shard=number, reason=why)
        self._hosts.forget(shard)
        self._outbox.shard_closed(number)
        self._tell_queues()
        self._background.spawn(self._store.close(number))

    def _store_failed(self, shard: OwnedShard, error: Exception) -> None:
        if self.shards.get(shard.number) is shard:
            self._drop(shard.number, f"{type(error).__name__}: {error}")

    def _queue_of(self, number: int) -> str:
        return crawl_queue(number, self.desk.shards)

    def _tell_queues(self) -> None:
        count = self.desk.shards
        names = [self._queue_of(number) for number in sorted(self.shards)]
        if self._leader.is_leading:
            names += self._leader.leftover_queues(self._most_ever, count)
        self._set_queues(names)

    # Crawls, seeds and orders

    async def _watch_control(self) -> None:
        while True:
            version = await self.ask(lambda control: control.version())
            if version != self._seen_version or self._looks_at_seeds:
                self._seen_version = version
                self._looks_at_seeds = False
                await self._crawls_changed()
            await asyncio.sleep(CONTROL_LOOK_S)

    async def _crawls_changed(self) -> None:
        crawls = await self.ask(lambda control: control.live_crawls())
        made = {}
        for crawl in crawls:
            if crawl.id not in self._crawls.by_id:
                live = await self._in_thread(partial(self._make_live, crawl))
                if live is not None:
                    made[crawl.id] = live
                else:
                    self._looks_at_seeds = True  # again, when its set-up is done
        stopped = self._crawls.update(crawls, made)
        self._crawls.obey(await self.ask(lambda control: control.rules()))
        await self._know_seeds()
        self._hosts.crawls_stopped(stopped)
        self._feed.wake()
        for number in list(self.shards):
            await self._take_seeds(number)
            await self._purge(number)
        for crawl in crawls:
            if crawl.state is CrawlState.STOPPING and crawl.ends_as is CrawlState.CANCELLED:
                await self._cancel(crawl.id)
                # What is in flight may come back, and pages that are parsed bring links.
                self._looks_at_seeds = True

    async def _know_seeds(self) -> None:
        """Which names are in scope by the seeds, if they are few enough to be known here."""
        for crawl in list(self._crawls.by_id.values()):
            if crawl.spec.scope.within in ("hosts", "domains") and crawl.is_running:
                names = await self._in_thread(partial(self._read_seed_names, crawl.id))
                if names is None or names != crawl.seed_names:
                    crawl.seed_names = names

    def _read_seed_names(self, crawl: int) -> frozenset[str] | None:
        names: set[str] = set()
        for number in range(self.desk.shards):
            reader = self._reader(number)
            if reader is not None:
                names.update(reader.seed_names(crawl, MOST_SEED_NAMES + 1))
            if len(names) > MOST_SEED_NAMES:
                return None
        return frozenset(names)

    def _make_live(self, crawl: Crawl) -> LiveCrawl | None:
        """None: the leader has not set it up yet."""
        exclusions = exclusions_of(self._directory, crawl)
        if exclusions is None:
            return None
        agent = f"{self._fetch.user_agent} (+mailto:{crawl.spec.contact})"
        pages_left = None if crawl.spec.limits.pages is None else 0
        scope = Scope(crawl.spec.scope, exclusions)
        return LiveCrawl(crawl.id, crawl.spec, crawl.state, scope, agent, pages_left)

    async def _take_seeds(self, number: int) -> None:
        while True:
            batches = await self.ask(lambda control: control.seeds(number, SEED_BATCHES))
            known = [batch for batch in batches if batch.crawl in self._crawls.by_id]
            if len(known) < len(batches):
                self._looks_at_seeds = True
            if not known or number not in self.shards:
                return
            try:
                misplaced = await self.desk.seeds(number, known)
            except LeaseLost:
                return
            for crawl, by_shard in misplaced.items():
                await self._add_seeds(crawl, by_shard)
            ids = [batch.id for batch in known]
            await self.ask(lambda control, ids=ids: control.seeds_taken(ids))  # type: ignore[misc]

    async def _add_seeds(self, crawl: int, by_shard: dict[int, list[str]]) -> None:
        try:
            await self.ask(lambda control: control.add_seeds(crawl, by_shard))
        except CrawlEnds:
            self._log.info("seeds of a crawl that ends are left out", crawl=crawl)

    async def _purge(self, number: int) -> None:
        for purge in await self.ask(lambda control: control.purges(number)):
            try:
                while await self._store.change(
                    number,
                    lambda store, p=purge: store.purge(p.crawl, p.domain, CANCELLED_AT_ONCE),  # type: ignore[misc]
                ):
                    pass
            except LeaseLost:
                return
            await self.ask(lambda control, p=purge: control.purge_done(p.id))  # type: ignore[misc]

    async def _cancel(self, crawl: int) -> None:
        for number in list(self.shards):
            try:
                while await self._store.change(
                    number, lambda store: store.cancel(crawl, CANCELLED_AT_ONCE)
                ):
                    pass
            except LeaseLost:
                continue

    def _wants_pages(self, crawl: LiveCrawl) -> None:
        if crawl.id not in self._granting and crawl.spec.limits.pages is not None:
            self._granting.add(crawl.id)
            self._background.spawn(self._grant(crawl, crawl.spec.limits.pages))

    async def _grant(self, crawl: LiveCrawl, most: int) -> None:
        """Few at a time where the limit is low, so that all members can fetch to the end."""
        wanted = max(1, min(PAGES_GRANTED_AT_ONCE, most // 20))
        try:
            granted = await self.ask(
                lambda control: control.grant_pages(crawl.id, self.name, wanted, most)
            )
        finally:
            self._granting.discard(crawl.id)
        if granted:
            crawl.pages_left = (crawl.pages_left or 0) + granted
            self._feed.wake()

    # Ticks

    async def _load(self) -> None:
        while True:
            for shard in list(self.shards.values()):
                await self._hosts.load(shard)
            await self._return_pages()
            self._feed.wake()
            await asyncio.sleep(LOAD_S)

    async def _return_pages(self) -> None:
        """What an idle process may fetch, a busy one could."""
        if self._visits.in_slots or self._hosts.ready.ready:
            return
        for crawl in self._crawls.by_id.values():
            unused = crawl.pages_left
            if unused:
                crawl.pages_left = 0
                await self.ask(
                    lambda control, c=crawl.id, u=unused: control.return_pages(c, self.name, u)  # type: ignore[misc]
                )

    async def _watch_seed_names(self) -> None:
        """What a seed redirects to in another process is a seed's, too."""
        while True:
            await asyncio.sleep(SEED_NAMES_LOOK_S)
            await self._know_seeds()

    async def _watch_arrivals(self) -> None:
        while True:
            await asyncio.sleep(ARRIVED_LOOK_S)
            await self._outbox.look_what_arrived(self._received)

    async def _readmit(self) -> None:
        while True:
            await asyncio.sleep(READMIT_LOOK_S)
            now = time.time()
            for number, shard in list(self.shards.items()):
                forgotten = await self._hosts.look_for_forgotten(shard)
                if forgotten:
                    self._log.info("URLs waited that nothing knew of", domains=forgotten)
                try:
                    again = await self._store.change(
                        number,
                        lambda store, now=now: store.readmit(  # type: ignore[misc]
                            now - PARSING_AT_MOST_S, now, 3, READMITTED_AT_ONCE
                        ),
                    )
                    await self._store.change(
                        number,
                        lambda store, now=now: store.forget_robots(now, MOST_ROBOTS_BYTES),  # type: ignore[misc]
                    )
                except LeaseLost:
                    continue
                if again:
                    self._log.warning("pages were lost in parsing: queued again", count=again)

    async def _lead(self) -> None:
        was_leading = False
        while True:
            if not self._is_stopping:
                await self._leader.tick(self.desk.shards)
                if self._leader.is_leading != was_leading:
                    was_leading = self._leader.is_leading
                    self._tell_queues()
            await asyncio.sleep(BALANCE_S)

    # Other shards' stores, read only

    async def _received(self, target: int, source: int) -> int:
        def read() -> int:
            reader = self._reader(target)
            return reader.received_from(source) if reader is not None else 0

        return await self._in_thread(read)

    async def _counters(self, crawl: int) -> list[dict[str, int]]:
        """Of each shard that there is."""

        def read() -> list[dict[str, int]]:
            readers = [self._reader(number) for number in range(self.desk.shards)]
            return [reader.counters(crawl) for reader in readers if reader is not None]

        return await self._in_thread(read)

    def _reader(self, shard: int) -> ShardReader | None:
        key = (self.desk.generation, shard)
        if key not in self._readers:
            reader = open_reader(self._directory, *key)
            if reader is None:
                return None
            self._readers[key] = reader
        return self._readers[key]

    def _close_stores(self) -> None:
        for reader in self._readers.values():
            reader.close()
        if self._control is not None:
            self._control.close()

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, call)

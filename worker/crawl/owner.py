"""A process that owns shards: builds and runs everything that follows from its leases.

The parts: `leasing` has the shards, `dispatcher` fetches, `admission` takes URLs in, `outbox` sends
links to other shards, `commands` carries out what operators want, `leader` does what one process
must do for all. Shard stores live in threads of their own, the control store in another.
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
from manyhands.shared.crawl.store.absence import were_here_for
from manyhands.shared.crawl.store.model import (
    BROKER_WAIT_MS,
    HELD_PAGES,
    PROCESSOR_PERCENT,
    SHARDS_AWAY,
    LeaseLost,
    slow_sink_figure,
)
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import CrawlSettings, FetchSettings
from manyhands.shared.tasks import Tasks
from manyhands.shared.urls import fetch_queue, shard_queues
from manyhands.worker.crawl.fetching.archive import Archive, RobotsFetcher
from manyhands.worker.crawl.fetching.dispatcher import Dispatcher
from manyhands.worker.crawl.fetching.gathered_push import GatheredPush
from manyhands.worker.crawl.fetching.job_ends import JobEnds
from manyhands.worker.crawl.fetching.next_url import NextUrls
from manyhands.worker.crawl.fetching.page_ends import PageEnds
from manyhands.worker.crawl.fetching.page_fetch import PageFetches
from manyhands.worker.crawl.fetching.page_turns import PageTurns
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.recorded_ends import RecordedEnds
from manyhands.worker.crawl.fetching.robots_turns import RobotsTurns
from manyhands.worker.crawl.fetching.sitemaps import Sitemaps
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.commands import OperatorCommands
from manyhands.worker.crawl.frontier.fetch_jobs import FetchJobs
from manyhands.worker.crawl.frontier.forgotten import ForgottenDomains
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.lateness import lateness
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.outbox import ARRIVED_LOOK_S, Outbox
from manyhands.worker.crawl.frontier.page_grants import PageGrants
from manyhands.worker.crawl.frontier.standing_crawl import standing_crawl
from manyhands.worker.crawl.frontier.working_set import LEAVE_LOOK_S, WorkingSet
from manyhands.worker.crawl.leader import ANSWERED_WITHIN_S, Leader
from manyhands.worker.crawl.metrics import CrawlFigures, OtherFigures
from manyhands.worker.crawl.politeness.robots_fetch import RobotsFetches
from manyhands.worker.crawl.processor import ProcessorShare
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.kept_robots import RobotsStores
from manyhands.worker.crawl.shards.leasing import Leasing
from manyhands.worker.crawl.shards.one_host import OneHost
from manyhands.worker.crawl.shards.settling import Settling
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.crawl.shards.store_watch import StoreWatch
from manyhands.worker.crawl.wakeup import Wakeup
from manyhands.worker.jobs.stage_services import Push
from manyhands.worker.net.byte_budget import ByteBudget
from manyhands.worker.net.fetcher import HopFetcher
from manyhands.worker.service.link import Family, SlowSink
from manyhands.worker.sinks.sinks import Sinks

# Shorter than domains are taken ahead of their time; what is new is loaded at once.
LOAD_S = 0.5
# Every second it is said that a sink is slow, while it is.
SINK_NEWS_S = 5.0
# What is said of the processor's share is of so long.
BUSY_OVER_S = 5.0
# Shards whose domains are loaded side by side, so that the way to the store does not add up. Each
# may fill what room there is in memory.
LOADED_AT_ONCE = 8
# How often the leader checks the crawls, and how often if one may be about to end. With many
# crawls, checking takes at most a fifth of its time.
LEADER_LOOK_S = 1.0
LEADER_SOON_S = 0.2
LEADER_REST = 4
READMIT_LOOK_S = 30.0
# A page that has been in the parse stage for this long is lost.
PARSING_AT_MOST_S = ANSWERED_WITHIN_S
MOST_ATTEMPTS_AT_PARSING = 3
READMITTED_AT_ONCE = 1_000
MOST_ROBOTS_BYTES = 64 * 1024 * 1024


class Owner:
    """State: the parts, whether it is closing, whether the number of shards is known, and which
    queues of fetch jobs have some."""

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
        ends_are_recorded: bool,
        set_queues: Callable[[Sequence[str]], None],
        set_fetch_queues: Callable[[Sequence[str]], None] | None,
    ) -> None:
        """Fetch jobs of its shards are taken from the queues that `set_fetch_queues` gets, if there
        is a stage for them."""
        self.name = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
        self._log = get_logger("crawl").bind(member=self.name)
        self._set_queues = set_queues
        self._set_fetch_queues = set_fetch_queues
        self._found_fetch_queues: set[str] = set()
        self._slow_sink: SlowSink | None = None
        self._told_of_sink_at = 0.0
        self._knows_layout = False
        self._closing = asyncio.Event()
        self._ended = asyncio.Event()
        # Each part knows only parts built before it.
        self._figures = CrawlFigures()
        self._processor = ProcessorShare(time.monotonic(), over_s=BUSY_OVER_S)
        self._crawls = LiveCrawls(standing=standing_crawl(fetch))
        self._wakeup = Wakeup()
        self._slots = Slots(slots, in_flight)
        store = store_at(settings.state)
        self._absences = store.absences
        self._store = StoreThreads(
            self._slots.patience_s,
            gather_s=store.gather_s,
            writers=lambda: store.writers,
            places=store.absences,
        )
        self._control = Control(store)
        self._one_host = OneHost(store.directory, settings.lease_s)
        self._leader = Leader(self.name, settings, self._control)
        tasks = Tasks("crawl")
        self._leasing = Leasing(
            self.name,
            slots,
            settings,
            fetch.timeout_s,
            control=self._control,
            store=self._store,
            resharding=self._leader,
            tasks=tasks,
        )
        self._watch = StoreWatch(store.absences, self._leasing.shards, self.name)
        store_failed = self._leasing.store_failed
        settling = Settling(self._store, store_failed)
        notes = HostNotes(settling)
        self._working_set = WorkingSet(
            self._store, self._crawls, notes, tasks, store_failed, self._wakeup
        )
        self._forgotten = ForgottenDomains(self._store, settling, self._working_set, store_failed)
        self._outbox = Outbox(self._store, push, self._control)
        self.admission = Admission(
            self._store,
            self._crawls,
            self._leasing.shards,
            self._figures,
            self._working_set.told_new,
            self._outbox.wake,
        )
        self.jobs = FetchJobs(
            self._store,
            self._leasing.shards,
            self.admission,
            push,
            partial(self._working_set.told_new, are_stored=False),
            self._working_set.told_new,
            kept_s=fetch.kept_s,
        )
        settling.settles.tell(self.jobs.settled)
        self._grants = PageGrants(self._control, self._crawls, self._leasing, tasks)
        self._commands = OperatorCommands(
            settings,
            fetch.user_agent,
            leasing=self._leasing,
            control=self._control,
            store=self._store,
            crawls=self._crawls,
            working_set=self._working_set,
            admission=self.admission,
            wakeup=self._wakeup,
        )
        lease_guard, requests = self._leasing.lease_guard, self._leasing.requests
        archive = Archive(sinks, lambda: self._control.tag)
        self._robots = RobotsFetches(RobotsFetcher(fetcher, archive), settings.retry_s)
        robots_turns = RobotsTurns(
            self._slots,
            self._crawls,
            self._working_set,
            self._robots,
            RobotsStores(self._store, requests),
            notes,
            store_failed,
            tasks,
            fetch.user_agent,
        )
        self._pages = PagePusher(push, self.queue_of, tasks)
        self._ends = ends = RecordedEnds(
            self._pages,
            settling,
            self._crawls,
            store_failed,
            tasks,
            lambda: self._control.tag,
            are_on=ends_are_recorded,
        )
        if ends_are_recorded:
            self._working_set.ends_hopeless = ends
        page_ends = PageEnds(
            admission=self.admission,
            notes=notes,
            archive=archive,
            pages=self._pages,
            ends=ends,
            settling=settling,
            store_failed=store_failed,
            jobs=JobEnds(
                self.admission,
                GatheredPush(push, tasks).push,
                self._pages,
                fetch.truncate_bytes,
                fetch.max_redirects,
            ),
            retry_s=settings.retry_s,
            truncate_bytes=fetch.truncate_bytes,
        )
        page_turns = PageTurns(
            self._slots,
            self._crawls,
            self._working_set,
            PageFetches(fetcher, requests, self._figures, fetch),
            page_ends,
            Sitemaps(self.admission),
            tasks,
            self._wakeup,
        )
        self._dispatcher = Dispatcher(
            self._slots,
            self._working_set,
            lease_guard,
            NextUrls(self._crawls, self._working_set, settling, self._grants, ends),
            robots_turns,
            page_turns,
            settling,
            self._wakeup,
        )
        self._announce()

    def _announce(self) -> None:
        """Connects events to their listeners, which are called in this order."""
        leasing = self._leasing
        leasing.laid_out.tell(self.admission.laid_out)
        leasing.opened.tell(self._working_set.shard_opened)
        leasing.opened.tell(self._outbox.shard_opened)
        leasing.opened.tell(self._commands.shard_opened)
        leasing.opened.tell(self.jobs.shard_opened)
        leasing.before_leaving(self._working_set.shard_leaves)
        leasing.lost.tell(self._crawls.forget_allowances)
        leasing.closed.tell(self._working_set.shard_closed)
        leasing.closed.tell(self._forgotten.shard_closed)
        leasing.closed.tell(self._outbox.shard_closed)
        leasing.changed.tell(self._tell_queues)
        self._watch.changed.tell(self._store_changed)
        # After the origins that wait for pages have heard of them.
        self._grants.came.tell(self._wakeup.wake)

    async def run(self) -> None:
        """Until closed. Raises ConfigError."""
        try:
            await self._one_host.check(self._closing)
            if not await self._open():
                return
            self._knows_layout = True
            async with asyncio.TaskGroup() as tasks:
                renewing = tasks.create_task(
                    self._leasing.renew(self._told_to_others), name="crawl-renew"
                )
                parts = [tasks.create_task(work) for work in self._parts()]
                await self._closing.wait()
                for part in parts:
                    part.cancel()
                await asyncio.wait(parts)
                # Leases are renewed as long as any are held.
                await self._robots.close()
                await self._leasing.release_all()
                renewing.cancel()
        finally:
            self._slots.are_open = False
            self._ended.set()

    async def _open(self) -> bool:
        """Open the store, and wait for it if it is away. False: closed before that."""

        async def opening() -> None:
            await self._control.open()
            await self._leasing.settle_layout(self._closing.is_set)

        self._wait_while_away(is_wanted=True)
        tasks = [
            asyncio.create_task(work)
            for work in (opening(), self._watch.run(), self._closing.wait())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
            return tasks[0].done() and not self._closing.is_set()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def stop_feeding(self) -> None:
        """Fetch nothing new, and wait for requests in flight; if the store is away, what cannot be
        stored is left to the next owner."""
        self._leasing.is_stopping = True
        self._wait_while_away(is_wanted=False)
        self._slots.are_open = False
        self._ends.is_stopping = True
        while self._slots.are_under_way or self._ends.unrequested:  # noqa: ASYNC110 - any of many may be the last
            await asyncio.sleep(LEAVE_LOOK_S)

    async def close(self) -> None:
        """Give everything up: another process may go on at once."""
        self._closing.set()
        self._wait_while_away(is_wanted=False)
        await self._ended.wait()
        await self._store.stop()
        await self._control.close(self.name)

    def queue_of(self, shard: int) -> str:
        """The queue whose jobs the owner of the shard reads."""
        return crawl_queue(self._control.tag, shard, self.admission.shards)

    def set_pace(self, pace: float) -> None:
        self._slots.pace = pace

    def told_slow_sink(self, sink: SlowSink | None) -> None:
        self._slow_sink = sink
        self._told_of_sink_at = time.monotonic()

    def found_fetch_queues(self, names: Sequence[str]) -> None:
        """Some may be of other numbers of shards: whoever leads takes their jobs, too."""
        if set(names) != self._found_fetch_queues:
            self._found_fetch_queues = set(names)
            self._tell_queues()

    def families(self) -> Iterable[Family]:
        leasing = self._leasing
        shards = {"shards": len(leasing.shards), "damaged_shards": len(leasing.damaged)}
        return self._figures.families(
            OtherFigures(
                state=self._state() | shards,
                robots=self._robots.outcomes,
                moves=leasing.moves,
                store=self._store.took,
                store_away_s=self._watch.away_s(time.monotonic()),
            )
        )

    def waits_for(self) -> str:
        return self._watch.waits_for(time.monotonic())

    def _state(self) -> dict[str, int]:
        return self._dispatcher.figures() | {
            HELD_PAGES: self._crawls.held_pages,
            SHARDS_AWAY: self._watch.shards_away,
            BROKER_WAIT_MS: round(self._pages.waits_s() * 1000),
            PROCESSOR_PERCENT: self._processor.percent(),
        }

    def _told_to_others(self) -> dict[str, int]:
        """What this member says of itself in the store."""
        is_news = time.monotonic() - self._told_of_sink_at < SINK_NEWS_S
        sink = self._slow_sink if is_news else None
        told = {} if sink is None else {slow_sink_figure(sink.name): round(sink.wait_s * 1000)}
        late = lateness(self._working_set.schedule, time.monotonic())
        return self._state() | told | late

    def _wait_while_away(self, *, is_wanted: bool) -> None:
        for absence in self._absences:
            absence.is_waited_for = is_wanted

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._one_host.watch(),
            self._watch.run(),
            self._leasing.balance(self._closing.is_set),
            self._commands.watch(),
            self._commands.watch_seed_names(),
            self._commands.watch_ended(),
            self._load(),
            self._watch_arrivals(),
            self._readmit(),
            self._lead(),
            self._outbox.run_pump(),
            self.jobs.run(),
        ]

    def _tell_queues(self) -> None:
        if not self._knows_layout:
            return
        layout = self._control.layout
        shards = self._leasing.shards
        # What comes in for a shard that is away could only be held here.
        here = [number for number in sorted(shards) if not shards[number].is_away]
        names = [self.queue_of(number) for number in here]
        if self._leader.is_leading and not self._watch.is_all_away:
            names += self._leader.leftover_queues(layout.most_ever, layout.shards)
        self._set_queues(names)
        if self._set_fetch_queues is not None:
            fetch_queues = [fetch_queue(number, layout.shards) for number in here]
            if self._leader.is_leading and not self._watch.is_all_away:
                known = set(shard_queues(layout.shards))
                fetch_queues += sorted(self._found_fetch_queues - known)
            self._set_fetch_queues(fetch_queues)

    def _store_changed(self) -> None:
        self._slots.is_store_away = self._watch.is_all_away
        self._tell_queues()
        self._wakeup.wake()

    # What is done again and again

    async def _load(self) -> None:
        while True:
            shards = list(self._leasing.shards.values())
            for start in range(0, len(shards), LOADED_AT_ONCE):
                some = shards[start : start + LOADED_AT_ONCE]
                await asyncio.gather(*(self._working_set.load(shard) for shard in some))
            await self._grants.return_unused()
            self._processor.look(time.monotonic())
            self._wakeup.wake()
            await asyncio.sleep(LOAD_S)

    async def _watch_arrivals(self) -> None:
        while True:
            await asyncio.sleep(ARRIVED_LOOK_S)
            await self._outbox.look_what_arrived()

    async def _readmit(self) -> None:
        while True:
            await asyncio.sleep(READMIT_LOOK_S)
            self.jobs.look_everywhere()
            # Whoever has put links there may have been cancelled before it said so.
            self._outbox.wake(self._leasing.shards)
            await self.jobs.forget()
            for number, shard in list(self._leasing.shards.items()):
                forgotten = await self._forgotten.look(shard)
                if forgotten:
                    self._log.info(
                        "found forgotten domains with waiting URLs: loaded again", domains=forgotten
                    )
                # Answers of the parse stage waited in the broker while the store was away.
                were_answers_taken = were_here_for(
                    self._absences, PARSING_AT_MOST_S, time.monotonic()
                )
                try:
                    again = await self._store.change(
                        number, _readmit if were_answers_taken else _forget_robots
                    )
                except LeaseLost:
                    continue
                if again:
                    self._log.warning("pages lost in parsing were queued again", count=again)

    async def _lead(self) -> None:
        leader = self._leader
        told_of = False, False
        while True:
            began_at = time.monotonic()
            if not self._leasing.is_stopping:
                await leader.tick(self.admission.shards)
                if told_of != (leader.is_leading, leader.reads_untagged_queues):
                    told_of = leader.is_leading, leader.reads_untagged_queues
                    self._tell_queues()
            wait_s = LEADER_SOON_S if leader.is_near_an_end else LEADER_LOOK_S
            took_s = time.monotonic() - began_at
            if were_here_for(self._absences, took_s, time.monotonic()):
                wait_s = max(wait_s, LEADER_REST * took_s)
            await asyncio.sleep(wait_s)


def _forget_robots(store: ShardStore) -> int:
    store.forget_robots(clock.now(), MOST_ROBOTS_BYTES)
    return 0


def _readmit(store: ShardStore) -> int:
    _forget_robots(store)
    now = clock.now()
    return store.readmit(now - PARSING_AT_MOST_S, now, MOST_ATTEMPTS_AT_PARSING, READMITTED_AT_ONCE)

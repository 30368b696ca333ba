"""One request of a crawl, from the moment that its slot is taken: sent if the lease still holds,
judged, and handed on. The slot is free as soon as the answer is here."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import ClaimedUrl, LeaseLost, Settled, StoredRobots
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.jobs import rfc3339, utc_now
from manyhands.shared.logs import Logger, get_logger
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.settling import Settling, StoreFailed
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.hosts import Domain, Origin, OwnedShard
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.politeness.delays import COME_BACK_LATER, delay_of
from manyhands.worker.crawl.politeness.reachability import is_of_host
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.politeness.robots_cache import RobotsCache, fetch_robots
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.store_thread import StoreThread
from manyhands.worker.crawl.tasks import Tasks
from manyhands.worker.net.byte_budget import ByteBudget
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    HopFetcher,
    PermanentFetchError,
    TemporaryFetchError,
)
from manyhands.worker.pages.html import is_html
from manyhands.worker.pages.parse_jobs import pack_page
from manyhands.worker.records import Capture, page_visit_id
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from manyhands.worker.sinks.sinks import Sinks

ROBOTS_CACHE_BYTES = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class PageFetches:
    """State: how many requests hold a slot, how many robots.txt are asked for, and how many
    answers are on their way to the broker and the store."""

    store: StoreThread
    admission: Admission
    crawls: LiveCrawls
    lease_guard: LeaseGuard
    fetcher: HopFetcher
    sinks: Sinks
    tag: Callable[[], str]
    pages: PagePusher
    settings: FetchSettings
    in_flight: ByteBudget
    retry_s: float
    settling: Settling
    hosts: WorkingSet
    store_failed: StoreFailed
    wake: Callable[[], None]
    robots: RobotsCache
    tasks: Tasks
    figures: CrawlFigures
    log: Logger = field(default_factory=lambda: get_logger("crawl"))
    in_slots: int = 0
    robots_in_flight: int = 0
    unsettled: int = 0

    @property
    def are_under_way(self) -> bool:
        return bool(self.in_slots or self.robots_in_flight or self.unsettled)

    def delay_s(self, domain: Domain, crawl: LiveCrawl, rules: RobotsRules) -> float | None:
        """None: its robots.txt asks for more than the crawl is ready to wait."""
        politeness = crawl.spec.politeness
        return delay_of(
            wanted_s=politeness.delay_s,
            rule_s=self.crawls.rule_delay_s(crawl.id, domain.name),
            crawl_delay_s=rules.crawl_delay_s,
            cap_s=politeness.crawl_delay_cap_s,
            over_cap=politeness.over_cap,
        )

    def begin(
        self, origin: Origin, rules: RobotsRules, claimed: ClaimedUrl, crawl: LiveCrawl
    ) -> None:
        """The slot is taken now, not when the task comes to run."""
        self.in_slots += 1
        origin.domain.shard.in_flight += 1
        self.tasks.spawn(self._visit(origin, rules, claimed, crawl))

    def begin_robots(self, origin: Origin) -> None:
        """Outside the slots, but in the origin's turn: it is a request like any other."""
        self.robots_in_flight += 1
        origin.domain.shard.in_flight += 1
        self.tasks.spawn(self._learn_robots(origin))

    async def _visit(
        self, origin: Origin, rules: RobotsRules, claimed: ClaimedUrl, crawl: LiveCrawl
    ) -> None:
        domain, shard = origin.domain, origin.domain.shard
        sent_at = clock.now()
        try:
            result = await self._get(shard, claimed, crawl)
        finally:
            self.in_slots -= 1
        self._count(result, clock.now() - sent_at)
        self.hosts.request_ended(origin, self.delay_s(domain, crawl, rules) or 0.0)
        self.unsettled += 1
        try:
            if isinstance(result, FetchError):
                await self._failed(origin, claimed, crawl, result)
            elif result is not None:
                await self._answered(origin, claimed, crawl, result, sent_at)
            else:
                # If the lease is only late, it is tried again; if it is lost, the store says so.
                _came_to_nothing(crawl)
                await self._settle(origin, endings.put_off(claimed))
        except LeaseLost:
            pass  # what became of it the next owner finds out
        except Exception as error:
            self.store_failed(shard, error)
        finally:
            self.unsettled -= 1
            shard.in_flight -= 1
            if crawl.allowance is not None:
                crawl.allowance.ended()
            self.wake()

    async def _get(
        self, shard: OwnedShard, claimed: ClaimedUrl, crawl: LiveCrawl
    ) -> Answer | FetchError | None:
        """None: the lease ran out before it was sent."""
        try:
            return await self.fetcher.get(
                parse_url(claimed.url),
                user_agent=crawl.user_agent,
                max_bytes=self.settings.max_bytes,
                check=partial(self.lease_guard.check, shard.number, shard.epoch),
                wants_body=_wants_body,
            )
        except FetchError as error:
            return error
        except LeaseLost:
            return None
        except Exception as error:
            self.log.exception("unhandled exception in a fetch")
            reason = f"unhandled exception: {type(error).__name__}"
            return TemporaryFetchError(repr(error), reason=reason)

    def _count(self, result: Answer | FetchError | None, took_s: float) -> None:
        if isinstance(result, Answer):
            self.figures.fetched(f"{result.status // 100}xx", took_s, result.wire_bytes)
        elif result is not None:
            self.figures.fetched("error", took_s)

    async def _settle(self, origin: Origin, settled: Settled) -> None:
        """Until the store has it: what it does not have is fetched again after a crash, and counts
        as in flight so long."""
        # Others wait for the same.
        await asyncio.shield(self.settling.settle(origin.domain.shard, settled))
        if settled.state is UrlState.QUEUED:
            self.hosts.queued_again(origin)

    async def _failed(
        self, origin: Origin, claimed: ClaimedUrl, crawl: LiveCrawl, error: FetchError
    ) -> None:
        _came_to_nothing(crawl)
        if isinstance(error, PermanentFetchError):
            settled = endings.ended(claimed, UrlState.FAILED, error.reason)
        elif is_of_host(error.reason):
            await self._not_reached(origin, claimed, crawl, error.reason)
            return
        else:
            settled = endings.try_again(claimed, error.reason, clock.now(), self.retry_s)
        await self._settle(origin, settled)

    async def _not_reached(
        self, origin: Origin, claimed: ClaimedUrl, crawl: LiveCrawl, reason: str
    ) -> None:
        """It is the host's: the URL waits for as long as its crawl has patience."""
        state = origin.state
        self._tell_first(origin, reason)
        state.not_reached(
            reason,
            clock.now(),
            retry_s=self.retry_s,
            patience_s=crawl.patience_s,
            jitter=random.random(),
        )
        self.hosts.put_off(origin, state.blocked_until)
        await self._settle(origin, endings.put_off(claimed, reason))

    def _tell_first(self, origin: Origin, reason: str) -> None:
        """Of the failures of a host the first one."""
        if not origin.state.trouble:
            self.log.info("a host is put off", origin=origin.name, reason=reason)

    async def _answered(
        self,
        origin: Origin,
        claimed: ClaimedUrl,
        crawl: LiveCrawl,
        answer: Answer,
        sent_at: float,
    ) -> None:
        shard, now = origin.domain.shard, clock.now()
        status, retry_after = answer.status, answer.retry_after
        was_in_trouble = bool(origin.state.trouble)
        if status in COME_BACK_LATER:
            self._tell_first(origin, f"http {status}")
        if origin.state.answered(status, retry_after, sent_at, now, random.random()):
            await self._sent_away(origin, claimed, crawl, status)
            return
        if was_in_trouble:
            self.log.info("a host is back", origin=origin.name)
            self._keep(origin)
        ending = endings.judge(claimed, answer, now, self.retry_s)
        if isinstance(ending, endings.Redirect):
            _came_to_nothing(crawl)
            await self.admission.redirected(shard.number, crawl, claimed, ending.target, status)
        elif ending is not None:
            if ending.state is UrlState.QUEUED:
                _came_to_nothing(crawl)
            await self._settle(origin, ending)
        else:
            await self._hand_to_parse(origin, claimed, crawl, answer)

    async def _sent_away(
        self, origin: Origin, claimed: ClaimedUrl, crawl: LiveCrawl, status: int
    ) -> None:
        until = origin.state.blocked_until
        settled = endings.sent_away(claimed, status, until)
        if settled.state is UrlState.QUEUED:
            _came_to_nothing(crawl)
        self.hosts.put_off(origin, until)
        await self._settle(origin, settled)

    async def _hand_to_parse(
        self, origin: Origin, claimed: ClaimedUrl, crawl: LiveCrawl, answer: Answer
    ) -> None:
        """First the sinks have the page, then the broker, then the store says so: a crash between
        two of them fetches it again, and makes no second record of it."""
        shard = origin.domain.shard
        fetched = self._fetched(claimed, crawl, answer)
        try:
            await self._archive(fetched, answer)
        except SinkDown:
            _came_to_nothing(crawl)
            await self._settle(origin, endings.put_off(claimed))
            return
        except RecordsRefused as refused:
            _came_to_nothing(crawl)
            await self._settle(origin, endings.ended(claimed, UrlState.FAILED, str(refused)))
            return
        size = len(answer.body)
        answer.becomes(len(fetched.body))
        await self.pages.push(fetched, shard.number)
        parsing = Settled(
            claimed.id,
            UrlState.PARSING,
            answer.status,
            size=size,
            attempts=claimed.attempts,
        )
        await self._settle(origin, parsing)

    async def _archive(self, fetched: FetchedPage, answer: Answer) -> None:
        """Return when the archives have it, if there are any."""
        if self.sinks.takes(Capture):
            await self.sinks.room()
            await self.sinks.write([_capture(fetched, answer)])

    def _fetched(self, claimed: ClaimedUrl, crawl: LiveCrawl, answer: Answer) -> FetchedPage:
        key = claimed.key.hex()
        body, is_cut = pack_page(answer.body, self.settings.truncate_bytes)
        cut = Cut.PARSE_LIMIT if is_cut else answer.cut
        return FetchedPage(
            visit=page_visit_id(self.tag(), crawl.id, key),
            crawl=crawl.id,
            key=key,
            url=claimed.url,
            depth=claimed.depth,
            status=answer.status,
            content_type=answer.content_type,
            robots_tag=answer.robots_tag,
            obeys_nofollow=crawl.spec.politeness.obeys_nofollow,
            is_truncated=cut is not None,
            fetched_at=rfc3339(utc_now()),
            body=body,
            cuts=() if cut is None else (cut,),
        )

    # robots.txt

    async def _learn_robots(self, origin: Origin) -> None:
        domain, shard = origin.domain, origin.domain.shard
        crawl = self.hosts.a_crawl_of(origin)
        user_agent = crawl.user_agent if crawl is not None else self.settings.user_agent
        source = _ShardRobots(self.store, shard, self.fetcher, self.lease_guard, user_agent)
        rules: RobotsRules | None = None
        before = origin.state.to_bytes()
        try:
            patience_s = crawl.patience_s if crawl is not None else 0.0
            rules = await self.robots.get(origin.name, source, origin.state, patience_s)
            if source.was_requested and rules.is_unreachable:
                self._robots_missing(origin, rules.reason)
            if origin.state.to_bytes() != before:
                self._keep(origin)
        except LeaseLost:
            pass
        except Exception as error:
            self.store_failed(shard, error)
        finally:
            self.robots_in_flight -= 1
            shard.in_flight -= 1
        delay_s = None
        if source.was_requested:
            delay_s = 0.0
            if crawl is not None:
                delay_s = crawl.spec.politeness.delay_s
                if rules is not None:
                    delay_s = self.delay_s(domain, crawl, rules) or delay_s
        self.hosts.request_ended(origin, delay_s)
        if rules is not None and rules.is_unreachable:
            self.hosts.put_off(origin, rules.expires_at)

    def _robots_missing(self, origin: Origin, reason: str) -> None:
        """Nothing may be fetched without it. Each crawl that waits for it is told."""
        origin_state, now = origin.state, clock.now()
        self._tell_first(origin, f"robots.txt: {reason}")
        origin_state.robots_missing(reason)
        trouble = origin_state.trouble
        waiting = {url.crawl: url.url for url in reversed(origin.urls)}

        def count(store: ShardStore) -> None:
            for crawl, url in waiting.items():
                store.count_error(crawl, trouble, url, now)

        self.settling.tell(origin.domain.shard, count)

    def _keep(self, origin: Origin) -> None:
        notes, ready_at = origin.state.to_bytes(), origin.state.blocked_until
        self.settling.tell(
            origin.domain.shard, lambda store: store.keep_origin(origin.id, ready_at, notes)
        )


class _ShardRobots:
    """Where the robots.txt of an origin is kept and comes from. State: whether it was asked for."""

    def __init__(
        self,
        store: StoreThread,
        shard: OwnedShard,
        fetcher: HopFetcher,
        lease_guard: LeaseGuard,
        user_agent: str,
    ) -> None:
        self._store = store
        self._shard = shard
        self._fetcher = fetcher
        self._lease_guard = lease_guard
        self._user_agent = user_agent
        self.was_requested = False

    async def load(self, origin: str) -> StoredRobots | None:
        return await self._store.change(self._shard.number, lambda store: store.robots(origin))

    async def keep(self, origin: str, robots: StoredRobots) -> None:
        await self._store.change(
            self._shard.number, lambda store: store.keep_robots(origin, robots)
        )

    async def fetch(self, origin: str) -> StoredRobots:
        self.was_requested = True
        return await fetch_robots(
            self._fetcher,
            origin,
            user_agent=self._user_agent,
            check=partial(self._lease_guard.check, self._shard.number, self._shard.epoch),
            now=clock.now,
        )


def _came_to_nothing(crawl: LiveCrawl) -> None:
    if crawl.allowance is not None:
        crawl.allowance.came_to_nothing()


def _capture(fetched: FetchedPage, answer: Answer) -> Capture:
    return Capture(
        id=fetched.visit,
        url=fetched.url,
        fetched_at=fetched.fetched_at,
        address=answer.phases.address,
        request=answer.request,
        head=answer.head,
        body=answer.body,
        is_truncated=answer.is_truncated,
        crawl=fetched.crawl,
        depth=fetched.depth,
    )


def _wants_body(status: int, content_type: str) -> bool:
    return status < 300 and is_html(content_type)

"""Fills the slots with domains that are due, and never waits in one.

A domain that waits holds no slot: it stands in `ready` with its time. One that may be requested is
taken from there, and comes back when its answer has ended.
"""

import asyncio
from collections.abc import Callable

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import HELD_PAGES, ClaimedUrl, Settled
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.fetching.allowance import ASK_AGAIN_S, Allowance
from manyhands.worker.crawl.fetching.page_fetch import PageFetches
from manyhands.worker.crawl.fetching.settling import Settling
from manyhands.worker.crawl.frontier.hosts import Origin
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.politeness.robots import RobotsRules

MOST_ROBOTS = 256
# URLs that are passed over (robots, blocks) in one go.
MOST_PASSED_OVER = 100
# Answers that the broker or the store does not have yet, for each slot.
UNSETTLED_PER_SLOT = 2
# How long an answer may wait for others before the store is told: it costs less together.
LEAST_PATIENCE_S = 0.05
MOST_PATIENCE_S = 0.5
# A lease that is late may still be renewed.
LEASE_AGAIN_S = 0.1
# With fewer URLs in line than this more are claimed, so that they are here in time.
FEW_URLS = 2


class Dispatcher:
    """State: whether it is open, its pace, when it looks next, and the origins that wait for pages
    that their crawls may fetch. `wants_pages` asks for some."""

    def __init__(
        self,
        slots: int,
        hosts: WorkingSet,
        page_fetches: PageFetches,
        crawls: LiveCrawls,
        settling: Settling,
        wants_pages: Callable[[LiveCrawl], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._hosts = hosts
        self._page_fetches = page_fetches
        self._crawls = crawls
        self._settling = settling
        self._wants_pages = wants_pages
        self._timer: asyncio.TimerHandle | None = None
        self._pump_is_due = False
        self._starved: set[int] = set()
        # The share of the slots that back-pressure leaves.
        self.pace = 1.0
        self.is_open = True

    def figures(self) -> dict[str, int]:
        ready, page_fetches = self._hosts.ready, self._page_fetches
        return {
            "slots": self._slots,
            "pace_percent": int(self.pace * 100),
            "busy": page_fetches.in_slots,
            "robots": page_fetches.robots_in_flight,
            "unsettled": page_fetches.unsettled,
            "domains": ready.domains,
            "ready": ready.ready,
            "waiting": ready.waiting,
            HELD_PAGES: self._crawls.held_pages,
        }

    @property
    def patience_s(self) -> float:
        """Long while the slots are busy, short while they wait for what the answers bring, or
        while too many answers wait already."""
        page_fetches, slots = self._page_fetches, max(1, self._slots)
        room = 1 - page_fetches.unsettled / (slots * UNSETTLED_PER_SLOT)
        busy = min(1.0, 2 * page_fetches.in_slots / slots)
        return max(LEAST_PATIENCE_S, MOST_PATIENCE_S * min(room, busy))

    def wake(self) -> None:
        if not self._pump_is_due:
            self._pump_is_due = True
            self._loop.call_soon(self._pump)

    def pages_came(self) -> None:
        """Crawls may fetch what they could not before."""
        starved, self._starved = self._starved, set()
        for handle in starved:
            origin = self._hosts.origins.get(handle)
            if origin is not None:
                self._hosts.place_again(origin)
        self.wake()

    def _pump(self) -> None:
        self._pump_is_due = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ready, now = self._hosts.ready, self._loop.time()
        while self._has_room():
            taken = ready.take(now)
            if taken is None:
                due = ready.next_due(now)
                if due is not None:
                    self._timer = self._loop.call_at(due, self.wake)
                return
            self._begin(self._hosts.origins[taken[1]], now)

    def _has_room(self) -> bool:
        page_fetches = self._page_fetches
        if page_fetches.unsettled >= self._slots * UNSETTLED_PER_SLOT:
            # These wait for others to share a transaction with, and now slots wait for them.
            page_fetches.store.lose_patience()
            return False
        return (
            self.is_open
            and not page_fetches.in_flight.is_full
            and page_fetches.in_slots < int(self._slots * self.pace)
            and page_fetches.robots_in_flight < MOST_ROBOTS
        )

    def _begin(self, origin: Origin, now: float) -> None:
        origin.in_flight += 1
        origin.domain.in_flight += 1
        shard = origin.domain.shard
        if shard.is_leaving or not self._page_fetches.lease_guard.hold(shard.number, shard.epoch):
            self._hosts.ready.block(origin.handle, now + LEASE_AGAIN_S)
            self._hosts.request_ended(origin, None)
            return
        if not origin.urls:
            # Nobody wants anything of it now; its end looks for more.
            self._hosts.request_ended(origin, None)
            return
        rules = self._page_fetches.robots.peek(origin.name)
        if rules is None:
            self._page_fetches.begin_robots(origin)
            return
        if rules.is_unreachable:
            self._hosts.request_ended(origin, None)
            self._hosts.put_off(origin, rules.expires_at)
            return
        chosen = self._next_url(origin, rules, now)
        if len(origin.urls) < FEW_URLS:
            self._hosts.refill(origin)
        if chosen is None:
            self._hosts.request_ended(origin, None)
        else:
            self._page_fetches.begin(origin, rules, *chosen)

    def _next_url(
        self, origin: Origin, rules: RobotsRules, now: float
    ) -> tuple[ClaimedUrl, LiveCrawl] | None:
        shard = origin.domain.shard
        for _ in range(min(len(origin.urls), MOST_PASSED_OVER)):
            claimed = origin.urls.popleft()
            crawl = self._crawls.by_id.get(claimed.crawl)
            if crawl is None or not crawl.is_running:
                self._settling.settle(shard, endings.put_off(claimed))
                continue
            ending = self._why_not(origin, claimed, crawl, rules)
            if ending is not None:
                self._settling.settle(shard, ending)
                continue
            if crawl.allowance is not None and not self._is_allowed(crawl, crawl.allowance, now):
                origin.urls.append(claimed)
                continue
            return claimed, crawl
        if origin.urls:
            # All of it waits for pages that the crawl may fetch.
            self._starved.add(origin.handle)
            self._hosts.ready.block(origin.handle, now + ASK_AGAIN_S)
        return None

    def _is_allowed(self, crawl: LiveCrawl, allowance: Allowance, now: float) -> bool:
        """One page more; what may be fetched after it is asked for in time."""
        is_allowed = allowance.left > 0
        if is_allowed:
            allowance.begin(now)
        if allowance.is_low:
            self._wants_pages(crawl)
        return is_allowed

    def _why_not(
        self, origin: Origin, claimed: ClaimedUrl, crawl: LiveCrawl, rules: RobotsRules
    ) -> Settled | None:
        if self._crawls.is_blocked(crawl.id, origin.domain.name):
            return endings.ended(claimed, UrlState.SKIPPED, "domain blocked by an operator")
        if not rules.allows(claimed.url):
            return endings.ended(claimed, UrlState.DISALLOWED, "robots.txt")
        if self._page_fetches.delay_s(origin.domain, crawl, rules) is None:
            return endings.ended(claimed, UrlState.SKIPPED, "crawl-delay too long")
        return None

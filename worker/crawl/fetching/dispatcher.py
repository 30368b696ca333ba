"""Fills the slots with domains that are due, and never waits in one.

A waiting domain holds no slot: the schedule has it with its time. One that may be requested is
taken from there, and comes back when its answer has ended.
"""

import asyncio

from manyhands.worker.crawl.fetching.next_url import NextUrls
from manyhands.worker.crawl.fetching.page_turns import PageTurns
from manyhands.worker.crawl.fetching.robots_turns import RobotsTurns
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier.schedule import Request
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.settling import Settling
from manyhands.worker.crawl.wakeup import Wakeup

# A lease that is late may still be renewed.
LEASE_AGAIN_S = 0.1
AWAY_AGAIN_S = 1.0


class Dispatcher:
    def __init__(
        self,
        slots: Slots,
        working_set: WorkingSet,
        lease_guard: LeaseGuard,
        next_urls: NextUrls,
        robots_turns: RobotsTurns,
        page_turns: PageTurns,
        settling: Settling,
        wakeup: Wakeup,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._working_set = working_set
        self._lease_guard = lease_guard
        self._next_urls = next_urls
        self._robots_turns = robots_turns
        self._page_turns = page_turns
        self._settling = settling
        self._wakeup = wakeup
        wakeup.calls(self._fill)

    def figures(self) -> dict[str, int]:
        schedule = self._working_set.schedule
        return self._slots.figures() | {
            "domains": schedule.domains,
            "ready": schedule.ready,
            "waiting": schedule.waiting,
        }

    def _fill(self) -> None:
        schedule, now = self._working_set.schedule, self._loop.time()
        while self._has_room():
            request = schedule.take(now)
            if request is None:
                due = schedule.next_due(now)
                if due is not None:
                    self._wakeup.wake_at(due)
                return
            self._begin(request, now)

    def _has_room(self) -> bool:
        if self._slots.has_too_many_unsettled:
            # Writes that wait to share a transaction: slots now wait for them.
            self._settling.hurry()
            return False
        return self._slots.has_room

    def _begin(self, request: Request, now: float) -> None:
        origin, shard = request.origin, request.shard
        if shard.is_away:
            self._working_set.schedule.block(origin, now + AWAY_AGAIN_S)
            self._pass_over(request)
            return
        if shard.is_leaving or not self._lease_guard.hold(shard.number, shard.epoch):
            self._working_set.schedule.block(origin, now + LEASE_AGAIN_S)
            self._pass_over(request)
            return
        if not origin.urls:
            # Nothing to do for it now; the end of its request looks for more.
            self._pass_over(request)
            return
        rules = self._robots_turns.known(origin)
        if rules is None:
            self._robots_turns.begin(request)
            return
        if rules.is_unreachable:
            self._pass_over(request)
            self._working_set.put_off(origin, rules.expires_at)
            return
        page = self._next_urls.take(origin, rules, now)
        if page is None:
            self._pass_over(request)
        else:
            self._page_turns.begin(request, page)

    def _pass_over(self, request: Request) -> None:
        """Nothing is sent after all."""
        request.over()
        self._working_set.turn_ended(request, None)

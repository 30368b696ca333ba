"""The turn of a robots.txt: a request like any other, but outside the slots."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.schedule import Origin, Request
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.politeness.delays import Delay
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.politeness.robots_fetch import Learned, RobotsFetches
from manyhands.worker.crawl.shards.kept_robots import RobotsStores
from manyhands.worker.crawl.shards.settling import StoreFailed


@dataclass(slots=True, eq=False)
class RobotsTurns:
    """`user_agent` is used where no crawl gives one."""

    slots: Slots
    crawls: LiveCrawls
    working_set: WorkingSet
    robots: RobotsFetches
    stores: RobotsStores
    notes: HostNotes
    store_failed: StoreFailed
    tasks: Tasks
    user_agent: str

    def known(self, origin: Origin) -> RobotsRules | None:
        """Rules that are in memory: they need no turn."""
        return self.robots.known(origin.name)

    def begin(self, request: Request) -> None:
        self.slots.begin_robots(request)
        self.tasks.spawn(self._run(request))

    async def _run(self, request: Request) -> None:
        origin = request.origin
        crawl = self.crawls.first_of(origin.urls)
        try:
            learned = await self._learn(request, crawl)
        finally:
            self.slots.robots_ended(request)
        if learned.error is not None:
            self.store_failed(request.shard, learned.error)
        self.working_set.turn_ended(request, self._pace(origin, crawl, learned))
        rules = learned.rules
        if rules is not None and rules.is_unreachable:
            self.working_set.put_off(origin, rules.expires_at)

    async def _learn(self, request: Request, crawl: LiveCrawl | None) -> Learned:
        origin = request.origin
        before = origin.state.to_bytes()
        learned = await self.robots.learn(
            origin.name,
            origin.state,
            self.stores.of(request.shard),
            user_agent=crawl.user_agent if crawl is not None else self.user_agent,
            patience_s=crawl.patience_s if crawl is not None else 0.0,
        )
        if learned.rules is not None:
            if learned.was_requested and learned.rules.is_unreachable:
                self.notes.robots_missing(origin, learned.rules.reason)
            if origin.state.to_bytes() != before:
                self.notes.keep(origin)
        return learned

    def _pace(
        self, origin: Origin, crawl: LiveCrawl | None, learned: Learned
    ) -> Callable[[], Delay] | None:
        """None: it was not asked for."""
        if not learned.was_requested:
            return None
        name = origin.domain.name
        if crawl is None:
            return partial(self.crawls.pace_of_stored, name, 0.0)
        return partial(self.crawls.pace, name, crawl, learned.rules)

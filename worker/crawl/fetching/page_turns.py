"""The turn of a page, from taking a slot to the store's record of it. The slot is free as soon as
the answer is here, and the domain's delay counts from then."""

from dataclasses import dataclass
from functools import partial

from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.fetching.page_ends import PageEnds
from manyhands.worker.crawl.fetching.page_fetch import PageFetches
from manyhands.worker.crawl.fetching.sitemaps import Sitemaps
from manyhands.worker.crawl.fetching.slots import Slots
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.schedule import Request
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.wakeup import Wakeup


@dataclass(slots=True, eq=False)
class PageTurns:
    slots: Slots
    crawls: LiveCrawls
    working_set: WorkingSet
    fetches: PageFetches
    ends: PageEnds
    sitemaps: Sitemaps
    tasks: Tasks
    wakeup: Wakeup

    def begin(self, request: Request, page: PageToFetch) -> None:
        """Takes the slot now, not when the task first runs."""
        self.slots.begin_page(request)
        self.tasks.spawn(self._run(request, page))

    async def _run(self, request: Request, page: PageToFetch) -> None:
        origin, crawl = request.origin, page.crawl
        fetched = await self.fetches.fetch(request.shard, page)
        self.slots.answered(request)
        self.working_set.turn_ended(
            request, partial(self.crawls.pace, origin.domain.name, crawl, page.rules)
        )
        domain, figures = origin.domain, self.fetches.figures
        figures.politeness.add(max(0.0, domain.next_at - domain.ended_at))
        try:
            verdict = self.ends.judge(origin, page, fetched)
            if verdict.put_off_until is not None:
                figures.left_alone(origin.state.trouble)
                self.working_set.put_off(origin, verdict.put_off_until)
            await self.sitemaps.announce(request.shard, page)
            if await self.ends.carry_out(request.shard, page, fetched, verdict):
                self.working_set.queued_again(origin)
        except Exception as error:
            self.ends.failed(request.shard, error)
        finally:
            self.slots.settled(request)
            if crawl.allowance is not None:
                crawl.allowance.ended()
            self.wakeup.wake()

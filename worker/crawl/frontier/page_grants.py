"""Pages that crawls with a limit may fetch here: requested from the control store, and returned
when unused."""

import asyncio

from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.crawl.frontier.allowance import ASK_AGAIN_S, Allowance
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.leasing import Leasing


class PageGrants:
    """State: the crawls with a request under way. `came` announces new pages."""

    def __init__(
        self, control: Control, crawls: LiveCrawls, leasing: Leasing, tasks: Tasks
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._control = control
        self._crawls = crawls
        self._leasing = leasing
        self._tasks = tasks
        self._asking: set[int] = set()
        self.came: Announcement[[]] = Announcement()

    def want(self, crawl: LiveCrawl) -> None:
        if crawl.id in self._asking or crawl.allowance is None:
            return
        limit = crawl.spec.limits.pages
        assert limit is not None
        self._asking.add(crawl.id)
        self._tasks.spawn(self._ask(crawl.id, crawl.allowance, limit))

    async def return_unused(self) -> None:
        """Return unused pages: another process may be able to use them."""
        now, member = self._loop.time(), self._leasing.name
        for crawl in list(self._crawls.by_id.values()):
            unused = crawl.allowance.take_unused(now) if crawl.allowance is not None else 0
            if unused:
                await self._control.ask(
                    lambda control, c=crawl.id, u=unused: control.return_pages(c, member, u)  # type: ignore[misc]
                )

    async def _ask(self, crawl: int, allowance: Allowance, limit: int) -> None:
        wanted = allowance.wanted(limit, self._leasing.members, self._loop.time())
        granted, member = 0, self._leasing.name
        try:
            granted = await self._control.ask(
                lambda control: control.grant_pages(crawl, member, wanted, limit)
            )
        finally:
            self._loop.call_later(0 if granted else ASK_AGAIN_S, self._asking.discard, crawl)
        if granted:
            allowance.given(granted, self._loop.time())
            self.came()

"""Fetched pages on their way to the parse stage: some in one job, many in one push.

One job per page would cost as much as the page itself: in the broker, in the parse stage, and here
when its answer comes.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from manyhands.shared.crawl.messages import FetchedPage, PagesMessage, in_jobs, pages_job
from manyhands.shared.jobs import new_jid
from manyhands.shared.jobtypes import PARSE_QUEUE
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.gathering import Gathering
from manyhands.worker.jobs.stage_services import Push


class _Waiting(NamedTuple):
    page: FetchedPage
    shard: int
    pushed: "asyncio.Future[None]"


class PagePusher:
    """State: what waits for the next push. `queue_of` gives the queue of a shard; the answer goes
    to that of a job's first page, as all its pages have the same owner."""

    def __init__(self, push: Push, queue_of: Callable[[int], str], tasks: Tasks) -> None:
        self._loop = asyncio.get_running_loop()
        self._push = push
        self._queue_of = queue_of
        self._gathering = Gathering(self._push_all, tasks)

    def push(self, page: FetchedPage, shard: int) -> "asyncio.Future[None]":
        """Done when the broker has it; repeated over lost connections until then."""
        future = self._loop.create_future()
        self._gathering.add(_Waiting(page, shard, future), len(page.body))
        return future

    def waits_s(self) -> float:
        """How long the oldest push has waited for its answer."""
        return self._gathering.waits_s()

    async def _push_all(self, waiting: list[_Waiting]) -> None:
        jobs = [
            pages_job(
                PagesMessage.model_construct(
                    answer_to=self._queue_of(together[0].shard),
                    pages=[one.page for one in together],
                ),
                PARSE_QUEUE,
                new_jid(),
            )
            for together in in_jobs(waiting, lambda one: len(one.page.body))
        ]
        try:
            await self._push(jobs)
        except Exception as error:
            for one in waiting:
                if not one.pushed.done():
                    one.pushed.set_exception(error)
        else:
            for one in waiting:
                if not one.pushed.done():
                    one.pushed.set_result(None)

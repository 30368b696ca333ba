"""Jobs that belong to single pages on their way to the broker, many in one push: a push for each
would cost nearly as much as the job."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from manyhands.shared.jobs import Job
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.gathering import Gathering
from manyhands.worker.jobs.stage_services import Push


class _Waiting(NamedTuple):
    jobs: Sequence[Job]
    pushed: "asyncio.Future[None]"


class GatheredPush:
    """State: what waits for the next push."""

    def __init__(self, push: Push, tasks: Tasks) -> None:
        self._loop = asyncio.get_running_loop()
        self._push = push
        self._gathering = Gathering(self._push_all, tasks)

    async def push(self, jobs: Sequence[Job]) -> None:
        """Return when the broker has them. Raises what is wrong with these, and not with others."""
        future = self._loop.create_future()
        self._gathering.add(_Waiting(jobs, future), sum(map(_size, jobs)))
        await future

    async def _push_all(self, waiting: Sequence[_Waiting]) -> None:
        try:
            await self._push([job for one in waiting for job in one.jobs])
        except Exception as error:
            if len(waiting) > 1:
                # Somebody's were refused. Those that the broker has already keep their jids.
                await asyncio.gather(*(self._push_all([one]) for one in waiting))
            elif not waiting[0].pushed.done():
                waiting[0].pushed.set_exception(error)
        else:
            for one in waiting:
                if not one.pushed.done():
                    one.pushed.set_result(None)


def _size(job: Job) -> int:
    """In bytes: a page is text, packed."""
    return sum(len(text) for text in job.args if isinstance(text, str))

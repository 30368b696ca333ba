"""Jobs that belong to single pages on their way to the broker, many in one push: a push for each
would cost nearly as much as the job."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from manyhands.shared.jobs import Job
from manyhands.shared.tasks import Tasks
from manyhands.worker.jobs.stage_services import Push

GATHER_S = 0.02
# Of one push, roughly: a broker takes lines of a few megabytes.
MOST_BYTES = 4 * 1024 * 1024


class _Waiting(NamedTuple):
    jobs: Sequence[Job]
    pushed: "asyncio.Future[None]"


class GatheredPush:
    """State: what waits for the next push."""

    def __init__(self, push: Push, tasks: Tasks) -> None:
        self._loop = asyncio.get_running_loop()
        self._push = push
        self._tasks = tasks
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    async def push(self, jobs: Sequence[Job]) -> None:
        """Return when the broker has them. Raises what is wrong with these, and not with others."""
        future = self._loop.create_future()
        self._waiting.append(_Waiting(jobs, future))
        self._bytes += sum(map(_size, jobs))
        if self._bytes >= MOST_BYTES:
            self._send()
        elif self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._send)
        await future

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._tasks.spawn(self._push_all(waiting))

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

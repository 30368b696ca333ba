"""Fetched pages on their way to the parse stage: many in one push."""

import asyncio

from shared.jobs import Job
from worker.stage_services import Push

GATHER_S = 0.01
MOST_JOBS = 200
# Of one push, roughly: a broker takes lines of some megabytes.
MOST_BYTES = 4 * 1024 * 1024


class PagePusher:
    """State: what waits for the next push, and the pushes under way."""

    def __init__(self, push: Push) -> None:
        self._loop = asyncio.get_running_loop()
        self._push = push
        self._waiting: list[tuple[Job, asyncio.Future[None]]] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._pushes: set[asyncio.Task[None]] = set()

    def push(self, job: Job, size: int) -> "asyncio.Future[None]":
        """Done when the broker has it; repeated over lost connections until then."""
        future = self._loop.create_future()
        self._waiting.append((job, future))
        self._bytes += size
        if len(self._waiting) >= MOST_JOBS or self._bytes >= MOST_BYTES:
            self._send()
        elif self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._send)
        return future

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        task = asyncio.create_task(self._push_all(waiting), name="push-pages")
        self._pushes.add(task)
        task.add_done_callback(self._pushes.discard)

    async def _push_all(self, waiting: "list[tuple[Job, asyncio.Future[None]]]") -> None:
        try:
            await self._push([job for job, _ in waiting])
        except Exception as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for _, future in waiting:
                if not future.done():
                    future.set_result(None)

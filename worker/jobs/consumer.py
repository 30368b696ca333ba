"""Jobs in hand: starts each in its slot, ends the overdue ones, and empties the hands on a stop."""

import asyncio
import math
from collections.abc import Awaitable, Callable

from manyhands.shared.tasks import Tasks
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.outcomes import PUT_BACK
from manyhands.worker.jobs.source import Source
from manyhands.worker.service.held_jobs import HeldJobs

DEADLINE_CHECK_S = 1.0
# A job with less time than this before its deadline is put back, not started.
LEAST_TIME_S = 5.0
# How long a cancelled handler gets to clean up before its job is put back anyway.
CANCEL_GRACE_S = 2.0


class Consumer:
    """State: the deliveries in hand by identity, those held back since a stop began, and those
    that are being put back before they were started."""

    def __init__(
        self,
        source: Source,
        execution: Execution,
        *,
        slots: int = 1,
        held: HeldJobs | None = None,
    ) -> None:
        self.in_hand: dict[str, Delivery] = {}
        self.copies_seen = 0
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._execution = execution
        self._held_jobs = held
        # By how many processes died with them: the more, the fewer of them run at a time.
        self._rooms = (asyncio.Semaphore(math.isqrt(slots)), asyncio.Semaphore(1))
        self._held: list[Delivery] = []
        self._is_stopping = False
        self._returns = Tasks("consumer")
        self._empty = asyncio.Event()
        self._empty.set()

    def deliver(self, delivery: Delivery) -> None:
        """A job arrived: start it, unless it is in hand already, too late, or we are stopping."""
        first = self.in_hand.get(delivery.id)
        if first is not None and not first.is_settled:
            self._attach_copy(first, delivery)
        elif self._is_stopping:
            if delivery.is_once:
                self._hold(delivery, is_started=False)
            self._held.append(delivery)
        elif delivery.deadline - self._loop.time() < LEAST_TIME_S:
            self._returns.spawn(self._put_back(delivery), name="put-back")
        else:
            self.in_hand[delivery.id] = delivery
            self._empty.clear()
            if delivery.is_once:
                self._hold(delivery, is_started=not delivery.deaths)
            run = self._run_suspect if delivery.deaths else self._execution.run_one
            # Directly, with a name: the loop's own way formats a new name for each.
            delivery.task = asyncio.Task(run(delivery, self._ended), loop=self._loop, name="job")

    async def watch_deadlines(self) -> None:
        """Cancel jobs that reach the end of their reservation. One check of all jobs per second is
        cheaper than a timer for each."""
        while True:
            await asyncio.sleep(DEADLINE_CHECK_S)
            now = self._loop.time()
            for delivery in [d for d in self.in_hand.values() if d.deadline <= now]:
                _cancel(delivery, "time-out")

    async def stop(self, drained: Callable[[], Awaitable[None]], finish_by: float) -> None:
        """Finish what runs, put back the rest. `drained()` ends when no job can arrive any more;
        `finish_by` (loop's clock) is when handlers are cancelled."""
        self._is_stopping = True
        no_more = asyncio.ensure_future(drained())
        await self._wait_empty(finish_by)
        for delivery in list(self.in_hand.values()):
            _cancel(delivery, "shutdown")
        await self._wait_empty(finish_by + CANCEL_GRACE_S)
        await no_more
        settling = [d.task for d in self.in_hand.values() if d.task and d.is_settled]
        # Their handlers swallowed the cancellation; put the jobs back anyway.
        stuck = [delivery for delivery in self.in_hand.values() if not delivery.is_settled]
        await asyncio.gather(*(self._execution.settle(d, PUT_BACK, 0.0) for d in stuck))
        held, self._held = self._held, []
        await self._source.put_back(held)
        for delivery in held:
            self._let_go(delivery)
        await asyncio.gather(*settling, *self._returns.running)

    def stop_now(self) -> None:
        """A second signal: wait for no handler any longer."""
        for delivery in list(self.in_hand.values()):
            _cancel(delivery, "shutdown")

    async def _wait_empty(self, until: float) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._empty.wait()
        except TimeoutError:
            return

    def _ended(self, delivery: Delivery) -> None:
        delivery.task = None
        # A copy that was queued while this one was being settled may have its place already.
        if self.in_hand.get(delivery.id) is delivery:
            del self.in_hand[delivery.id]
        self._source.job_ended(delivery)
        if not self.in_hand:
            self._empty.set()

    async def _run_suspect(self, delivery: Delivery, on_ended: Callable[[Delivery], None]) -> None:
        """A process died while it held this job, which may be the cause. Few such jobs run at a
        time, and one that was there twice runs alone among them: so innocent jobs finish, and the
        guilty one is found."""
        room = self._rooms[min(delivery.deaths, len(self._rooms)) - 1]
        try:
            await room.acquire()
        except asyncio.CancelledError:
            try:
                await self._execution.settle(delivery, PUT_BACK, 0.0)
            finally:
                on_ended(delivery)
            return
        try:
            if delivery.held_as and self._held_jobs is not None:
                self._held_jobs.start(delivery.held_as)
            await self._execution.run_one(delivery, on_ended)
        finally:
            room.release()

    def _hold(self, delivery: Delivery, *, is_started: bool) -> None:
        if self._held_jobs is not None:
            delivery.held_as = self._held_jobs.add(delivery.payload, is_started=is_started)

    def _let_go(self, delivery: Delivery) -> None:
        if delivery.held_as and self._held_jobs is not None:
            self._held_jobs.remove(delivery.held_as)

    def _attach_copy(self, first: Delivery, copy: Delivery) -> None:
        """The same job twice, after a repeated push or an expired reservation: run it once. The
        copy is acknowledged when the first is settled, so the job stays alive if it has to."""
        self.copies_seen += 1
        self._source.job_ended(copy)
        if copy.jid != first.jid:
            first.copies = [*(first.copies or ()), copy]

    async def _put_back(self, delivery: Delivery) -> None:
        try:
            await self._execution.settle(delivery, PUT_BACK, 0.0)
        finally:
            self._source.job_ended(delivery)


def _cancel(delivery: Delivery, reason: str) -> None:
    """Not while it is being settled: that ends by itself, and must not stop halfway."""
    if delivery.task is not None and not delivery.is_settled and not delivery.cancel_reason:
        delivery.cancel_reason = reason
        delivery.task.cancel()

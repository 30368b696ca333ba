"""Jobs out to those who ask for them: at once, or as soon as there is one.

A FETCH waits for no write: a job in hand is still a row.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence

from manyhands.broker.jobs import StoredJob, expires_at
from manyhands.broker.memory import Memory
from manyhands.broker.queues import Client, Queue, Waiter
from manyhands.broker.registry import Queues
from manyhands.broker.reservations import Reservations

FETCH_BLOCKS_S = 2.0
# A job of this size is handed out when there is room for it in the budget of memory.
LARGE_BYTES = 64 * 1024


class Handout:
    """State: the FETCHes that wait, oldest first; queues whose next job is too large for the room
    that is left; and until when nobody gets a job (0: now)."""

    def __init__(
        self, queues: Queues, reservations: Reservations, memory: Memory, held_until: float
    ) -> None:
        self.expired_jobs = 0
        self._queues = queues
        self._reservations = reservations
        self._memory = memory
        self._held_until = held_until
        self._waiting: deque[Waiter] = deque()
        self._short_of_room: set[Queue] = set()

    def take(self, queues: Sequence[Queue], client: Client, now: float) -> StoredJob | None:
        """Give the next job of the first queue that has one into the hands of a client."""
        reservations = self._reservations
        if now < self._held_until or len(reservations.in_hand) >= self._memory.max_in_hand:
            return None
        for queue in queues:
            if queue.is_paused or not queue.size:
                continue
            while (job := queue.take()) is not None:
                if len(job.payload) > LARGE_BYTES and not self._has_room_for(job, queue):
                    break
                if reservations.maybe_held:
                    reservations.maybe_held.pop(job.jid, None)
                if (end := expires_at(job.payload)) is not None and end <= time.time():
                    self.expired_jobs += 1
                    reservations.settle([job])
                    continue
                if job.jid in reservations.in_hand:
                    # Pushed anew while it was dead, and then requeued: it is one job.
                    reservations.settle([job])
                    continue
                reservations.reserve(job, client.owner, client.wid, now)
                return job
        return None

    def _has_room_for(self, job: StoredJob, queue: Queue) -> bool:
        if self._memory.has_room_for(len(job.payload)):
            return True
        queue.put_first(job)
        self._short_of_room.add(queue)
        return False

    # Waiting

    def wait(self, queues: Sequence[Queue], client: Client, now: float) -> Waiter:
        waiter = Waiter(client, queues, now + FETCH_BLOCKS_S)
        for queue in queues:
            queue.waiters[waiter] = None
        self._waiting.append(waiter)
        return waiter

    def stop_waiting(self, waiter: Waiter) -> None:
        waiter.is_open = False
        for queue in waiter.queues:
            queue.waiters.pop(waiter, None)

    def serve(self, queue: Queue) -> None:
        """Hand jobs to those who wait for this queue, the one that has waited longest first."""
        if not queue.waiters:
            return
        now = time.monotonic()
        while queue.size and not queue.is_paused:
            waiter = next((w for w in queue.waiters if w.client.can_take()), None)
            if waiter is None:
                return
            job = self.take(waiter.queues, waiter.client, now)
            if job is None:
                return
            self.stop_waiting(waiter)
            waiter.client.deliver(job)

    def serve_all(self, queues: Iterable[Queue]) -> None:
        for queue in list(queues):
            self.serve(queue)

    # From time to time

    def end_waits(self, now: float) -> None:
        """Answer the FETCHes that have waited long enough; all wait for the same time."""
        while self._waiting and (self._waiting[0].until <= now or not self._waiting[0].is_open):
            waiter = self._waiting.popleft()
            if waiter.is_open:
                self.stop_waiting(waiter)
                waiter.client.deliver(None)

    def end_hold(self, now: float) -> None:
        if self._held_until and now >= self._held_until:
            # What may be held stays known until it goes out again: a result can come later still.
            self._held_until = 0.0
            self.serve_all(self._queues.by_name.values())

    def look_for_room(self) -> None:
        """Those who wait for a large job may get it now."""
        self._memory.in_hand = len(self._reservations.in_hand)
        queues, self._short_of_room = self._short_of_room, set()
        self.serve_all(queues)

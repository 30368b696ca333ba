"""Jobs in hand: who has which, for how long, and what is written about it.

A job that goes out is still a row of its queue. That it is reserved is written if it is in hand
for longer; a job that comes back stays known as one that somebody may still finish.
"""

import time
from collections.abc import Collection, Iterable

from manyhands.broker.jobs import StoredJob, from_row
from manyhands.broker.known import KnownJids
from manyhands.broker.queues import Queue
from manyhands.broker.reading import Reservation
from manyhands.broker.registry import Queues
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.broker.store import Store
from manyhands.shared.jobs import DEFAULT_RESERVE_FOR_S, MAX_RESERVE_FOR_S, MIN_RESERVE_FOR_S

# A job that is settled sooner never had a reservation on disk.
STORED_AFTER_S = 1.0
# So often may a job go down with its worker; then it counts as failed.
MAX_GIVEN_BACK = 3


class Reservations:
    """State: the jobs in hand by jid, in the order in which they went out; and queued jobs that
    somebody may hold all the same: given back, or delivered before a crash."""

    def __init__(self, store: Store, queues: Queues, known: KnownJids) -> None:
        self.in_hand: dict[str, StoredJob] = {}
        self.maybe_held: dict[str, StoredJob] = {}
        self.expired = 0
        self.given_back = 0
        self._store = store
        self._queues = queues
        self._known = known

    def restore(self, rows: list[Reservation], now: float) -> None:
        held = [row for row in rows if row.is_held]
        given_back = [row for row in rows if not row.is_held]
        for row in (*held, *reversed(given_back)):
            self._restore(row, now)

    def reserve(self, job: StoredJob, owner: str | None, wid: str, now: float) -> None:
        job.owner = owner
        job.wid = wid
        job.since = now
        seconds = job.reserve_for
        is_plain = MIN_RESERVE_FOR_S <= seconds <= MAX_RESERVE_FOR_S
        job.reserved_until = now + (seconds if is_plain else _reserved_s(job))
        job.is_holder_stored = False
        self.in_hand[job.jid] = job

    # Results

    def take_out(self, jids: Iterable[str]) -> list[StoredJob]:
        """Jobs that there are results for, out of their holders' hands; without those that nobody
        has."""
        take_out = self.in_hand.pop
        return [job for jid in jids if (job := take_out(jid, None) or self._withdraw(jid))]

    def settle(self, jobs: list[StoredJob]) -> None:
        """They are done, or not to be done any more: nothing is left of them."""
        batch = self._store.batch
        batch.settled += [job.key for job in jobs]
        batch.unreserved += [job.key for job in jobs if job.is_reservation_stored]
        self._known.discard_all([job.jid for job in jobs])

    def _withdraw(self, jid: str) -> StoredJob | None:
        """A result for a job that is queued again: whoever did it did it in time."""
        job = self.maybe_held.pop(jid, None) if self.maybe_held else None
        if job is not None:
            self._queues.of_key(job.key).withdraw(job)
        return job

    # Giving back

    def of_owner(self, owner: str) -> list[StoredJob]:
        return [job for job in self.in_hand.values() if job.owner == owner]

    def lost_by(self, wid: str, held: Collection[str]) -> list[StoredJob]:
        """What went out to a worker id and is not among what it has."""
        return [job for job in self.in_hand.values() if job.wid == wid and job.jid not in held]

    def keep(self, held: set[str], wid: str, owner: str | None) -> None:
        """One that is queued, because we crashed and forgot whose it was, is not handed out
        again."""
        for jid in held & self.maybe_held.keys():
            job = self._withdraw(jid)
            assert job is not None
            mine = StoredJob(job.key, jid, job.reserve_for, job.payload, given_back=job.given_back)
            mine.is_reservation_stored = job.is_reservation_stored
            self.reserve(mine, owner, wid, time.monotonic())

    def give_back(self, jobs: list[StoredJob]) -> tuple[set[Queue], list[StoredJob]]:
        """Put jobs in hand in front of their queues. Returns these queues, and the jobs that have
        come back too often: they are in no queue and in no hands."""
        ahead_s = _wall_ahead_s()
        queues: set[Queue] = set()
        worn_out = []
        # Each goes in front of all others: the one that went out first must be the last.
        for job in reversed(jobs):
            del self.in_hand[job.jid]
            self.given_back += 1
            job.given_back += 1
            if job.given_back >= MAX_GIVEN_BACK:
                worn_out.append(job)
                continue
            self._store_one(job, ahead_s, is_held=False)
            self.maybe_held[job.jid] = job
            queue = self._queues.of_key(job.key)
            queue.is_listed = True
            queue.put_first(job)
            queues.add(queue)
        return queues, worn_out

    # From time to time

    def store(self, now: float, after_s: float = STORED_AFTER_S) -> None:
        """Write who has which job, if it is in hand for so long."""
        ahead_s = _wall_ahead_s()
        for job in self.in_hand.values():
            if not job.is_holder_stored and now - job.since >= after_s:
                self._store_one(job, ahead_s, is_held=True)

    def take_overdue(self, now: float) -> list[StoredJob]:
        """What was not settled in time, out of its holders' hands."""
        overdue = [job for job in self.in_hand.values() if job.reserved_until <= now]
        for job in overdue:
            del self.in_hand[job.jid]
        self.expired += len(overdue)
        return overdue

    def store_anew(self) -> None:
        """The wall clock was set, and what is stored is wall time."""
        for job in self.in_hand.values():
            job.is_holder_stored = False

    # Removal of queues

    def keys_of(self, numbers: set[int]) -> list[int]:
        """Of the jobs of these queues that are in hand."""
        keys = [job.key for job in self.in_hand.values()]
        return [key for key in keys if key >> SEQUENCE_BITS in numbers]

    def queue_numbers(self) -> set[int]:
        return {job.key >> SEQUENCE_BITS for job in self.in_hand.values()}

    def forget_queued(self, jobs: Iterable[StoredJob]) -> None:
        """Jobs of a queue that was removed."""
        for job in jobs:
            self._known.discard(job.jid)
            self.maybe_held.pop(job.jid, None)

    def forget_all(self) -> None:
        self.in_hand.clear()
        self.maybe_held.clear()

    def _store_one(self, job: StoredJob, ahead_s: float, *, is_held: bool) -> None:
        """`ahead_s` is the same for all that are stored together, so that they keep their order."""
        job.is_reservation_stored = True
        job.is_holder_stored = is_held
        since, until = job.since + ahead_s, job.reserved_until + ahead_s
        self._store.batch.reservations.append(
            (job.key, is_held, job.owner, job.wid, since, until, job.given_back)
        )

    def _restore(self, row: Reservation, now: float) -> None:
        payload = row.payload or self._store.reader.payload(row.key)
        if payload is None:
            return
        job = from_row(row.key, payload)
        job.let_go()
        job.owner, job.wid = row.owner, row.wid
        wall = time.time()
        job.since = now - max(0.0, wall - row.since)
        left_s = min(row.reserved_until - wall, _reserved_s(job))
        if left_s <= 0 and row.owner:
            # It ended while nobody was here, or the clock was set. A process that comes back has
            # the job still; from one that does not, it is taken soon.
            left_s = _reserved_s(job)
        job.reserved_until = now + left_s
        job.given_back = row.given_back
        job.is_reservation_stored = True
        job.is_holder_stored = row.is_held
        queue = self._queues.of_key(row.key)
        queue.skipped.add(row.key)
        queue.size -= 1
        if row.is_held:
            self.in_hand[job.jid] = job
        else:
            self.maybe_held[job.jid] = job
            queue.put_first(job)


def _reserved_s(job: StoredJob) -> float:
    seconds = job.reserve_for or DEFAULT_RESERVE_FOR_S
    return min(max(seconds, MIN_RESERVE_FOR_S), MAX_RESERVE_FOR_S)


def _wall_ahead_s() -> float:
    """What is stored must mean the same after a restart of the machine."""
    return time.time() - time.monotonic()

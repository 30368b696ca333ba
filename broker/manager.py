"""The life of a job in the broker: pushed, queued, in hand, settled or given back.

Everything here runs in the loop's thread. What must survive goes into the store's batch at the
same moment as it changes in memory; answers wait for the commit (verbs.py). A FETCH waits for no
write: a job in hand is still a row, and its reservation is written if it is in hand for longer.
"""

import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import orjson

from manyhands.broker.batches import SET_NAMES, Push, SetRow
from manyhands.broker.jobs import (
    Refused,
    StoredJob,
    WireJob,
    check_pushed,
    check_queue,
    decode_one,
    encode,
    expires_at,
    from_row,
    utc_text,
)
from manyhands.broker.known import GENERATION, KnownJids
from manyhands.broker.queues import Client, Queue, Waiter
from manyhands.broker.reading import Reservation, Snapshot
from manyhands.broker.retries import RANDOM_DELAY_S, Fate, fate, record_failure, retry_delay_s
from manyhands.broker.schema import SEQUENCE_BITS, key_ranges
from manyhands.broker.sets import Sets
from manyhands.broker.store import Store
from manyhands.broker.tally import TALLY_NAMES
from manyhands.shared.jobs import DEFAULT_RESERVE_FOR_S, MAX_RESERVE_FOR_S, MIN_RESERVE_FOR_S
from manyhands.shared.logs import get_logger

FETCH_BLOCKS_S = 2.0
# A job that is settled sooner never had a reservation on disk.
RESERVATION_STORED_AFTER_S = 1.0
# So often may a job go down with its worker; then it counts as failed.
MAX_GIVEN_BACK = 3
# After a crash nobody gets a job for this long, so that acknowledgements that the crash left
# unanswered come in again before their jobs go out again.
HOLD_AFTER_CRASH_S = 3.0
_KEPT_COUNTERS = ", ".join(f"'{name}'" for name in ("closed", *TALLY_NAMES))
# A job of this size is handed out when there is room for it in the budget of memory.
LARGE_BYTES = 64 * 1024
# So many queues are looked at in one turn of the loop; so many that are empty stay listed; and the
# jobs of so many are looked up one by one when they are removed.
LOOKED_AT_QUEUES = 20_000
KEPT_EMPTY_QUEUES = 1000
LOOKED_UP_QUEUES = 16


@dataclass(slots=True, eq=False)
class Arrivals:
    """Jobs that will be in their queues when they are stored."""

    rows: list[tuple[int, bytes]] = field(default_factory=list)
    # With the generation of the queue at that moment.
    by_queue: dict[Queue, tuple[int, list[StoredJob]]] = field(default_factory=dict)

    def add(self, queue: Queue, job: StoredJob) -> None:
        self.rows.append((job.key, job.payload))
        group = self.by_queue.get(queue)
        if group is None:
            group = self.by_queue[queue] = (queue.generation, [])
        group[1].append(job)

    def of(self, queue: Queue) -> list[StoredJob]:
        """Unless the queue was cleared since: then they are forgotten already."""
        generation, jobs = self.by_queue.get(queue, (queue.generation, []))
        return jobs if generation == queue.generation else []

    def jids(self) -> Iterable[str]:
        return (job.jid for _, jobs in self.by_queue.values() for job in jobs)


def _too_many_queues(count: int) -> str:
    return f"there are too many queues ({count}): use fewer of them, or raise BROKER_MEMORY_MB"


class Manager:
    """State: the queues, the jobs in hand by jid, and the FETCHes that wait, oldest first."""

    def __init__(self, store: Store, snapshot: Snapshot, now: float) -> None:
        self.queues: dict[str, Queue] = {}
        self.working: dict[str, StoredJob] = {}
        self.expired_jobs = 0
        self.expired_reservations = 0
        self.given_back = 0
        self.store = store
        self.forgotten_queues = 0
        self._memory = store.memory
        # Queues that a FETCH named and nobody pushed to; and those yet to be looked at.
        self._unused_queues = 0
        self._unseen_queues: list[Queue] = []
        # Those whose next job is too large for the room that is left.
        self._short_of_room: set[Queue] = set()
        self._by_number: dict[int, Queue] = {}
        self._last_number = 0
        self._known = KnownJids()
        self._arriving: set[Arrivals] = set()
        self.sets = Sets(store, self._known)
        self._waiting: deque[Waiter] = deque()
        # Queued jobs that somebody may hold all the same: given back, or delivered before a crash.
        self._maybe_held: dict[str, StoredJob] = {}
        self._held_until = 0.0 if snapshot.was_closed else now + HOLD_AFTER_CRASH_S
        self._log = get_logger("manager")
        self._restore(snapshot, now)

    # Pushing

    def push(
        self, jobs: Iterable[WireJob], stored: Callable[[], None], refused: Callable[[str], None]
    ) -> dict[str, str]:
        """Store jobs in one transaction; `stored` or `refused` is called then. Returns the reasons
        why some of them are not among them, by jid."""
        if (refusal := self.store.refusal) is not None:
            raise Refused(f"{refusal}: no job was stored")
        now = time.time()
        now_text = utc_text(now)
        reasons: dict[str, str] = {}
        arrivals = Arrivals()
        set_rows: list[SetRow] = []
        repeated: list[str] = []
        for job in jobs:
            try:
                at = check_pushed(job, now_text)
                assert job.jid and job.queue and job.jobtype
                if self._is_known(job.jid):
                    repeated.append(job.jid)
                    continue
                if at > now:
                    self._check_room_for_queue(job.queue)
                    set_rows.append(SetRow("scheduled", at, job.jid, job.jobtype, encode(job)))
                else:
                    job.enqueued_at = now_text
                    self._arrive(arrivals, job.jid, job)
                self._known.add(job.jid)
            except Refused as error:
                reasons[job.jid or ""] = str(error)
        self.store.counters["scheduled"] += len(set_rows)

        def make_visible() -> None:
            self._make_visible(arrivals)
            if self.store.is_disk_full and not all(map(self._is_known, repeated)):
                # What they repeated was on its way to the disk, and found it full.
                refused("the disk is full")
            else:
                stored()

        def forget(reason: str) -> None:
            self._arriving.discard(arrivals)
            # Never below 0: they may have been cleared in the meantime.
            self.store.counters["scheduled"] = max(
                0, self.store.counters["scheduled"] - len(set_rows)
            )
            self._known.discard_all([*arrivals.jids(), *(row.jid for row in set_rows)])
            refused(reason)

        self.store.push(Push(arrivals.rows, set_rows, make_visible, forget))
        return reasons

    def _check_room_for_queue(self, name: str) -> None:
        if name not in self.queues and len(self.queues) >= self._memory.max_queues:
            raise Refused(_too_many_queues(len(self.queues)))

    def _is_known(self, jid: str) -> bool:
        return jid in self._known or jid in self.working

    def _arrive(self, arrivals: Arrivals, jid: str, wire: WireJob) -> None:
        assert wire.queue
        queue = self.queues.get(wire.queue)
        if queue is None:
            self._check_room_for_queue(wire.queue)
            queue = self._new_queue(wire.queue)
        if not queue.is_listed:
            queue.is_listed = True
            self._store_queue(queue)
        arrivals.add(queue, StoredJob(queue.new_key(), jid, wire.reserve_for or 0, encode(wire)))
        self._arriving.add(arrivals)

    def _make_visible(self, arrivals: Arrivals) -> None:
        """They are stored: hand them out, unless their queue was cleared in the meantime."""
        self._arriving.discard(arrivals)
        for queue, (generation, jobs) in arrivals.by_queue.items():
            if queue.generation == generation:
                queue.stored(jobs)
                self._serve(queue)

    # Fetching

    def queues_of(self, names: Sequence[str]) -> list[Queue]:
        named = [name for name in names if name]
        return [self.queues.get(name) or self._unused_queue(name) for name in named]

    def renewed(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """For a FETCH that had to wait for its turn: some may have been forgotten meanwhile."""
        if not any(queue.is_forgotten for queue in queues):
            return queues
        return [self.queues.get(queue.name) or self._new_queue(queue.name) for queue in queues]

    def _unused_queue(self, name: str) -> Queue:
        check_queue(name)
        if self._unused_queues >= self._memory.max_unused_queues:
            raise Refused(_too_many_queues(len(self.queues)))
        return self._new_queue(name)

    def take(self, queues: Sequence[Queue], client: Client, now: float) -> StoredJob | None:
        """Give the next job of the first queue that has one into the hands of a client."""
        if now < self._held_until or len(self.working) >= self._memory.max_in_hand:
            return None
        for queue in queues:
            if queue.is_paused or not queue.size:
                continue
            while (job := queue.take()) is not None:
                if len(job.payload) > LARGE_BYTES and not self._has_room_for(job, queue):
                    break
                if self._maybe_held:
                    self._maybe_held.pop(job.jid, None)
                if (end := expires_at(job.payload)) is not None and end <= time.time():
                    self._drop_expired(job)
                    continue
                if job.jid in self.working:
                    # Pushed anew while it was dead, and then requeued: it is one job.
                    self._settle(job)
                    continue
                self._reserve(job, client.owner, client.wid, now)
                return job
        return None

    def _has_room_for(self, job: StoredJob, queue: Queue) -> bool:
        if self._memory.has_room_for(len(job.payload)):
            return True
        queue.put_first(job)
        self._short_of_room.add(queue)
        return False

    def look_for_room(self) -> None:
        """Those who wait for a large job may get it now."""
        self._memory.in_hand = len(self.working)
        queues, self._short_of_room = self._short_of_room, set()
        self.serve(queues)

    def _reserve(self, job: StoredJob, owner: str | None, wid: str, now: float) -> None:
        job.owner = owner
        job.wid = wid
        job.since = now
        seconds = job.reserve_for
        is_plain = MIN_RESERVE_FOR_S <= seconds <= MAX_RESERVE_FOR_S
        job.reserved_until = now + (seconds if is_plain else _reserved_s(job))
        job.is_holder_stored = False
        self.working[job.jid] = job

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

    def end_waits(self, now: float) -> None:
        """Answer the FETCHes that have waited long enough; all wait for the same time."""
        while self._waiting and (self._waiting[0].until <= now or not self._waiting[0].is_open):
            waiter = self._waiting.popleft()
            if waiter.is_open:
                self.stop_waiting(waiter)
                waiter.client.deliver(None)

    def _serve(self, queue: Queue) -> None:
        """Hand jobs to those who wait for this queue, the one that has waited longest first."""
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

    def serve(self, queues: Iterable[Queue]) -> None:
        for queue in list(queues):
            self._serve(queue)

    # Settling

    def acknowledge(self, jids: Iterable[str]) -> None:
        """These are done. One that nobody has is fine: it was acknowledged before."""
        take_out = self.working.pop
        done = [job for jid in jids if (job := take_out(jid, None) or self._withdraw(jid))]
        self._settle(*done)
        self.store.count("processed", len(done))

    def fail(self, jid: str, errtype: str, message: str, backtrace: list[str]) -> None:
        job = self._take_out(jid)
        if job is None:
            raise Refused(f"Job not found {jid}")
        self._fail(job, errtype, message, backtrace)

    def _fail(self, job: StoredJob, errtype: str, message: str, backtrace: list[str]) -> None:
        now = time.time()
        payload = self.payload_of(job)
        if payload is None:
            # It cannot be read any more, and that was told.
            self._settle(job)
            return
        wire = decode_one(payload)
        record_failure(wire, errtype, message, backtrace, now)
        assert wire.failure is not None and wire.jobtype is not None
        what = fate(wire)
        self._settle(job)
        self.store.count("processed", 1)
        self.store.count("failures", 1)
        if what is Fate.DEAD:
            self.sets.bury(job.jid, wire.jobtype, encode(wire))
        elif what is Fate.RETRIED:
            delay_s = retry_delay_s(wire.failure.spent, random.randrange(RANDOM_DELAY_S))
            wire.failure.next_at = utc_text(now + delay_s)
            self._known.add(job.jid)
            self.sets.add(SetRow("retries", now + delay_s, job.jid, wire.jobtype, encode(wire)))

    def payload_of(self, job: StoredJob) -> bytes | None:
        return job.payload or self.store.reader.payload(job.key)

    def _take_out(self, jid: str) -> StoredJob | None:
        """A job that there is a result for, out of its holder's hands."""
        return self.working.pop(jid, None) or self._withdraw(jid)

    def _settle(self, *jobs: StoredJob) -> None:
        batch = self.store.batch
        batch.settled += [job.key for job in jobs]
        batch.unreserved += [job.key for job in jobs if job.is_reservation_stored]
        self._known.discard_all([job.jid for job in jobs])

    def _withdraw(self, jid: str) -> StoredJob | None:
        """A result for a job that is queued again: whoever did it did it in time."""
        job = self._maybe_held.pop(jid, None) if self._maybe_held else None
        if job is not None:
            self._by_number[job.key >> SEQUENCE_BITS].withdraw(job)
        return job

    def _drop_expired(self, job: StoredJob) -> None:
        self.expired_jobs += 1
        self._settle(job)

    # Giving back

    def give_back_of(self, owner: str) -> None:
        """A process is gone: others get what it had."""
        self._give_back([job for job in self.working.values() if job.owner == owner])

    def keep_held(self, wid: str, held: set[str], owner: str | None) -> None:
        """A connection broke; its client says which jobs it has. The others that went out on it
        never arrived; and one that is queued, because we crashed and forgot whose it was, is not
        handed out again."""
        lost = [job for job in self.working.values() if job.wid == wid and job.jid not in held]
        for jid in held & self._maybe_held.keys():
            job = self._withdraw(jid)
            assert job is not None
            mine = StoredJob(job.key, jid, job.reserve_for, job.payload, given_back=job.given_back)
            mine.is_reservation_stored = job.is_reservation_stored
            self._reserve(mine, owner, wid, time.monotonic())
        self._give_back(lost)

    def _give_back(self, jobs: list[StoredJob]) -> None:
        ahead_s = _wall_ahead_s()
        queues = set()
        # Each goes in front of all others: the one that went out first must be the last.
        for job in reversed(jobs):
            del self.working[job.jid]
            self.given_back += 1
            job.given_back += 1
            if job.given_back >= MAX_GIVEN_BACK:
                self._fail(
                    job, "WorkerLost", f"its worker went away {job.given_back} times with it", []
                )
                continue
            self._store_reservation(job, ahead_s, is_held=False)
            self._maybe_held[job.jid] = job
            queue = self._by_number[job.key >> SEQUENCE_BITS]
            queue.is_listed = True
            queue.put_first(job)
            queues.add(queue)
        self.serve(queues)

    def _store_reservation(self, job: StoredJob, ahead_s: float, *, is_held: bool) -> None:
        """`ahead_s` is the same for all that are stored together, so that they keep their order."""
        job.is_reservation_stored = True
        job.is_holder_stored = is_held
        since, until = job.since + ahead_s, job.reserved_until + ahead_s
        self.store.batch.reservations.append(
            (job.key, is_held, job.owner, job.wid, since, until, job.given_back)
        )

    def state_of(self, jid: str) -> str | None:
        """Where a job is; None when it is done, or was never here, or is far down a long queue."""
        if jid in self.working:
            return "working"
        rows = self.sets.without_leaving(self.store.reader.find_jid(jid))
        if rows:
            return rows[-1].kind
        return "queued" if jid in self._known else None

    # From time to time

    def store_reservations(self, now: float, after_s: float = RESERVATION_STORED_AFTER_S) -> None:
        ahead_s = _wall_ahead_s()
        for job in self.working.values():
            if not job.is_holder_stored and now - job.since >= after_s:
                self._store_reservation(job, ahead_s, is_held=True)

    def end_reservations(self, now: float) -> None:
        """What was not settled in time has failed."""
        overdue = [job for job in self.working.values() if job.reserved_until <= now]
        for job in overdue:
            del self.working[job.jid]
            self.expired_reservations += 1
            self._fail(job, "ReservationExpired", "Faktory job reservation expired", [])

    def clock_was_set(self, step_s: float) -> None:
        """What is stored as wall time is stored anew; scheduled jobs are due by the new time."""
        self._log.warning("the clock was set", seconds=round(step_s, 1))
        for job in self.working.values():
            job.is_holder_stored = False
        self.sets.clock_was_set(step_s)

    def queue_due(self, wall: float) -> int:
        """Move jobs whose time has come into their queues; returns how many (at most a page)."""
        moved = 0
        for kind in ("scheduled", "retries"):
            started, rows = time.monotonic(), []
            if self.store.counters[kind]:
                rows = self.sets.page(kind, "at <= ?", (wall,))
                self.requeue(rows)
            self.sets.scans[kind].note(len(rows), started)
            moved += len(rows)
        return moved

    @property
    def is_holding(self) -> bool:
        return self._held_until > 0

    def end_hold(self, now: float) -> None:
        if self._held_until and now >= self._held_until:
            # What may be held stays known until it goes out again: a result can come later still.
            self._held_until = 0.0
            self.serve(self.queues.values())

    # Sets

    def requeue(self, rows: list[SetRow]) -> None:
        """From a set into the queues, in one commit."""
        if not rows:
            return
        now_text = utc_text(time.time())
        self.sets.discard(rows)
        arrivals = Arrivals()
        for row in rows:
            wire = decode_one(row.payload)
            wire.enqueued_at = now_text
            jid = wire.jid or row.jid
            self._known.add(jid)
            self._arrive(arrivals, jid, wire)
        batch = self.store.batch
        batch.rows.extend(arrivals.rows)
        self.store.hold(sum(len(payload) for _, payload in arrivals.rows))
        batch.when_stored.append(lambda: self._make_visible(arrivals))

    # Queues

    def pause(self, queue: Queue, *, is_paused: bool) -> None:
        queue.is_paused = is_paused
        self._store_queue(queue)
        if not is_paused:
            self._serve(queue)

    def remove(self, queues: Sequence[Queue]) -> None:
        """Forget the jobs of queues; those in hand stay in hand."""
        removed = {queue.id for queue in queues}
        in_hand = [
            k for k in (j.key for j in self.working.values()) if k >> SEQUENCE_BITS in removed
        ]
        self._forget_jobs_of(queues)
        others = {q.id for q in self.queues.values() if q.size} | self._numbers_in_use()
        for queue in queues:
            queue.clear()
        numbers, kept = orjson.dumps(list(removed)).decode(), orjson.dumps(in_hand).decode()
        self.store.wipe(
            *(
                (
                    "DELETE FROM jobs WHERE key > ? AND key < ?"
                    " AND key NOT IN (SELECT value FROM json_each(?))",
                    (first, end, kept),
                )
                for first, end in key_ranges(removed, others - removed)
            ),
            (
                "UPDATE queues SET is_paused = 0, rows = (SELECT count(*) FROM json_each(?2)"
                f" WHERE value >> {SEQUENCE_BITS} = queues.id)"
                " WHERE id IN (SELECT value FROM json_each(?1))",
                (numbers, kept),
            ),
        )

    def _forget_jobs_of(self, queues: Sequence[Queue]) -> None:
        is_few = len(queues) <= LOOKED_UP_QUEUES
        for queue in queues:
            if is_few:
                queue.load_all_that_fits()
            if queue.size > len(queue.head):
                # Too many to look up; and to forget a push is better than to swallow one.
                self._known.clear()
            self._forget(queue.head)
        for arrivals in self._arriving:
            for queue in arrivals.by_queue.keys() & set(queues):
                self._forget(arrivals.of(queue))

    def _numbers_in_use(self) -> set[int]:
        """Of queues with jobs that are in hand, or on their way to the disk."""
        numbers = {job.key >> SEQUENCE_BITS for job in self.working.values()}
        numbers.update(queue.id for arrivals in self._arriving for queue in arrivals.by_queue)
        return numbers

    def _forget(self, jobs: Iterable[StoredJob]) -> None:
        """Jobs of a queue that was removed."""
        for job in jobs:
            self._known.discard(job.jid)
            self._maybe_held.pop(job.jid, None)

    def flush(self) -> None:
        """Forget everything."""
        for queue in self.queues.values():
            queue.clear()
        self.working.clear()
        self._maybe_held.clear()
        self._known.clear()
        self.store.counters = dict.fromkeys(self.store.counters, 0)
        self.store.wipe(
            *((f"DELETE FROM {table}", ()) for table in ("jobs", "reservations", "sets", "gone")),
            (f"DELETE FROM counters WHERE name NOT IN ({_KEPT_COUNTERS})", ()),
            ("UPDATE queues SET is_paused = 0, rows = 0", ()),
        )
        self.sets.hide(SET_NAMES)

    def listed_queues(self) -> list[Queue]:
        """Those that were pushed to; a FETCH alone does not make a queue."""
        return [queue for queue in self.queues.values() if queue.is_listed]

    def forget_unused_queues(self) -> None:
        """A FETCH can name any queue, and so can a PUSH: one that is empty and that nobody uses
        must not stay in memory. Of those that were pushed to, some stay listed. A part of them is
        looked at each time."""
        if not self._unseen_queues:
            self._unseen_queues = list(reversed(self.queues.values()))
        seen = self._unseen_queues[-LOOKED_AT_QUEUES:]
        del self._unseen_queues[-LOOKED_AT_QUEUES:]
        idle = [queue for queue in seen if self._is_idle(queue)]
        forgotten = [queue for queue in idle if not queue.is_stored]
        stored = [queue for queue in idle if queue.is_stored and not queue.is_listed]
        excess = len(self.queues) - len(forgotten) - len(stored) - KEPT_EMPTY_QUEUES
        stored += itertools.islice((queue for queue in idle if queue.is_listed), max(0, excess))
        in_use = self._numbers_in_use() if stored else set()
        forgotten += [queue for queue in stored if queue.id not in in_use]
        for queue in forgotten:
            self._drop_queue(queue)
        if numbers := [queue.id for queue in forgotten if queue.is_stored]:
            self.store.run_alone(
                (
                    "DELETE FROM queues WHERE id IN (SELECT value FROM json_each(?))",
                    (orjson.dumps(numbers).decode(),),
                )
            )

    def _is_idle(self, queue: Queue) -> bool:
        queue.shed()
        # A queue of this name may have been forgotten since the list was made.
        is_here = self._by_number.get(queue.id) is queue
        return is_here and not (queue.size or queue.waiters or queue.is_paused)

    def _drop_queue(self, queue: Queue) -> None:
        queue.clear()
        queue.is_forgotten = True
        del self.queues[queue.name]
        del self._by_number[queue.id]
        self._memory.queues -= 1
        if not queue.is_stored:
            self._unused_queues -= 1
        self.forgotten_queues += 1

    def _new_queue(self, name: str) -> Queue:
        self._last_number += 1
        self._unused_queues += 1
        number = self._last_number
        first_key = number << SEQUENCE_BITS
        queue = Queue(number, name, self.store.reader, self._memory, last_key=first_key, rows=0)
        self._add_queue(queue)
        return queue

    def _store_queue(self, queue: Queue) -> None:
        if not queue.is_stored:
            queue.is_stored = True
            self._unused_queues -= 1
        self.store.batch.queues.append((queue.id, queue.name, queue.is_paused))

    def _add_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self._by_number[queue.id] = queue
        self._last_number = max(self._last_number, queue.id)
        self._memory.queues += 1

    # Start

    def _restore(self, snapshot: Snapshot, now: float) -> None:
        for number, name, is_paused, rows, last_key in snapshot.queues:
            last_key = last_key or number << SEQUENCE_BITS
            queue = Queue(
                number, name, self.store.reader, self._memory, last_key=last_key, rows=rows
            )
            queue.is_paused, queue.is_stored = is_paused, True
            # A paused queue without jobs must be there to be resumed.
            queue.is_listed = rows > 0 or is_paused
            self._add_queue(queue)
        for key in snapshot.gone:
            if (number := key >> SEQUENCE_BITS) in self._by_number:
                self._by_number[number].skipped.add(key)
        held = [row for row in snapshot.reservations if row.is_held]
        given_back = [row for row in snapshot.reservations if not row.is_held]
        for row in (*held, *reversed(given_back)):
            self._restore_reservation(row, now)
        share = GENERATION // (1 + len(self.queues))
        for jid in self.store.reader.newest_in_sets(share):
            self._known.add(jid)
        for queue in self.queues.values():
            for jid in self.store.reader.newest_jids(queue.id, share):
                self._known.add(jid)
            if self.is_holding:
                queue.load_all_that_fits()
                self._maybe_held.update((job.jid, job) for job in queue.head)

    def _restore_reservation(self, row: Reservation, now: float) -> None:
        payload = row.payload or self.store.reader.payload(row.key)
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
        queue = self._by_number[row.key >> SEQUENCE_BITS]
        queue.skipped.add(row.key)
        queue.size -= 1
        if row.is_held:
            self.working[job.jid] = job
        else:
            self._maybe_held[job.jid] = job
            queue.put_first(job)


def _reserved_s(job: StoredJob) -> float:
    seconds = job.reserve_for or DEFAULT_RESERVE_FOR_S
    return min(max(seconds, MIN_RESERVE_FOR_S), MAX_RESERVE_FOR_S)


def _wall_ahead_s() -> float:
    """What is stored must mean the same after a restart of the machine."""
    return time.time() - time.monotonic()

"""The life of a job in the broker: pushed, queued, in hand, settled or given back.

Everything here and in its parts runs in the loop's thread. What must survive goes into the store's
batch at the same moment as it changes in memory; answers wait for the commit (verbs.py). The parts
are `queues` (registry.py), `intake` (a push), `handout` (a FETCH), `reservations` (jobs in hand)
and `sets` (scheduled, retries, dead). Here is what concerns several of them.
"""

import random
import time
from collections.abc import Iterable, Sequence

from manyhands.broker.batches import SET_NAMES, SetRow
from manyhands.broker.handout import Handout
from manyhands.broker.intake import Intake
from manyhands.broker.jobs import Refused, StoredJob, decode_one, encode, utc_text
from manyhands.broker.known import GENERATION, KnownJids
from manyhands.broker.queues import Queue
from manyhands.broker.reading import Snapshot
from manyhands.broker.registry import Queues
from manyhands.broker.reservations import Reservations
from manyhands.broker.retries import RANDOM_DELAY_S, Fate, fate, record_failure, retry_delay_s
from manyhands.broker.sets import Sets
from manyhands.broker.statements import clear_everything
from manyhands.broker.store import Store
from manyhands.shared.logs import get_logger

# After a crash nobody gets a job for this long, so that acknowledgements that the crash left
# unanswered come in again before their jobs go out again.
HOLD_AFTER_CRASH_S = 3.0
# The jobs of so many queues are looked up one by one when they are removed.
LOOKED_UP_QUEUES = 16


class Manager:
    """State: none but that of its parts."""

    def __init__(self, store: Store, snapshot: Snapshot, now: float) -> None:
        self.store = store
        self._known = KnownJids()
        self.queues = Queues(store)
        self.reservations = Reservations(store, self.queues, self._known)
        held_until = 0.0 if snapshot.was_closed else now + HOLD_AFTER_CRASH_S
        self.handout = Handout(self.queues, self.reservations, store.memory, held_until)
        self.intake = Intake(store, self.queues, self._known, self.reservations, self.handout)
        self.sets = Sets(store, self._known)
        self._log = get_logger("manager")
        self.queues.restore(snapshot)
        self.reservations.restore(snapshot.reservations, now)
        self._restore_known(is_after_crash=not snapshot.was_closed)

    def _restore_known(self, *, is_after_crash: bool) -> None:
        reader, queues = self.store.reader, self.queues.by_name.values()
        share = GENERATION // (1 + len(queues))
        for jid in reader.newest_in_sets(share):
            self._known.add(jid)
        for queue in queues:
            for jid in reader.newest_jids(queue.id, share):
                self._known.add(jid)
            if is_after_crash:
                queue.load_all_that_fits()
                self.reservations.maybe_held.update((job.jid, job) for job in queue.head)

    # Results

    def acknowledge(self, jids: Iterable[str]) -> None:
        """These are done. One that nobody has is fine: it was acknowledged before."""
        done = self.reservations.take_out(jids)
        self.reservations.settle(done)
        self.store.count("processed", len(done))

    def fail(self, jid: str, errtype: str, message: str, backtrace: list[str]) -> None:
        found = self.reservations.take_out([jid])
        if not found:
            raise Refused(f"Job not found {jid}")
        self._fail(found[0], errtype, message, backtrace)

    def _fail(self, job: StoredJob, errtype: str, message: str, backtrace: list[str]) -> None:
        now = time.time()
        payload = self.payload_of(job)
        if payload is None:
            # It cannot be read any more; the damage was reported when that was found.
            self.reservations.settle([job])
            return
        wire = decode_one(payload)
        record_failure(wire, errtype, message, backtrace, now)
        assert wire.failure is not None and wire.jobtype is not None
        what = fate(wire)
        self.reservations.settle([job])
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

    # Giving back

    def give_back_of(self, owner: str) -> None:
        """A process is gone: others get what it had."""
        self._give_back(self.reservations.of_owner(owner))

    def keep_held(self, wid: str, held: set[str], owner: str | None) -> None:
        """A connection broke; its client says which jobs it has. The others that went out on it
        never arrived."""
        lost = self.reservations.lost_by(wid, held)
        self.reservations.keep(held, wid, owner)
        self._give_back(lost)

    def _give_back(self, jobs: list[StoredJob]) -> None:
        queues, worn_out = self.reservations.give_back(jobs)
        for job in worn_out:
            self._fail(
                job, "WorkerLost", f"its worker went away {job.given_back} times with it", []
            )
        self.handout.serve_all(queues)

    # From time to time

    def end_reservations(self, now: float) -> None:
        """What was not settled in time has failed."""
        for job in self.reservations.take_overdue(now):
            self._fail(job, "ReservationExpired", "Faktory job reservation expired", [])

    def clock_was_set(self, step_s: float) -> None:
        """What is stored as wall time is stored anew; scheduled jobs are due by the new time."""
        self._log.warning("the clock was set", seconds=round(step_s, 1))
        self.reservations.store_anew()
        self.sets.clock_was_set(step_s)

    def queue_due(self, wall: float) -> int:
        """Move jobs whose time has come into their queues; returns how many (at most a page)."""
        moved = 0
        for kind in ("scheduled", "retries"):
            started = time.monotonic()
            rows = self.sets.due(kind, wall)
            self.requeue(rows)
            self.sets.scans[kind].note(len(rows), started)
            moved += len(rows)
        return moved

    def forget_unused_queues(self) -> None:
        self.queues.forget_unused(self._numbers_in_use)

    def _numbers_in_use(self) -> set[int]:
        """Of queues with jobs that are in hand, or on their way to the disk."""
        return self.reservations.queue_numbers() | self.intake.queue_numbers()

    # Orders of operators

    def requeue(self, rows: list[SetRow]) -> None:
        """From a set into the queues, in one commit."""
        if rows:
            self.sets.discard(rows)
            self.intake.requeue(rows)

    def pause(self, queue: Queue, *, is_paused: bool) -> None:
        self.queues.set_paused(queue, is_paused)
        if not is_paused:
            self.handout.serve(queue)

    def remove(self, queues: Sequence[Queue]) -> None:
        """Forget the jobs of queues; those in hand stay in hand."""
        for queue in queues:
            if len(queues) <= LOOKED_UP_QUEUES:
                queue.load_all_that_fits()
            if queue.size > len(queue.head):
                # Too many to look up; and to forget a push is better than to swallow one.
                self._known.clear()
            self.reservations.forget_queued(queue.head)
        self.intake.forget_for(queues)
        in_hand = self.reservations.keys_of({queue.id for queue in queues})
        self.queues.clear(queues, self._numbers_in_use(), in_hand)

    def flush(self) -> None:
        """Forget everything."""
        for queue in self.queues.by_name.values():
            queue.clear()
        self.reservations.forget_all()
        self._known.clear()
        self.store.counters = dict.fromkeys(self.store.counters, 0)
        self.store.wipe(*clear_everything())
        self.sets.hide(SET_NAMES)

    def state_of(self, jid: str) -> str | None:
        """Where a job is; None when it is done, or was never here, or is far down a long queue."""
        if jid in self.reservations.in_hand:
            return "working"
        rows = self.sets.without_leaving(self.store.reader.find_jid(jid))
        if rows:
            return rows[-1].kind
        return "queued" if jid in self._known else None

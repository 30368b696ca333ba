"""Jobs in: checked, given a key, and in their queues once they are stored."""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from manyhands.broker.batches import Push, SetRow
from manyhands.broker.handout import Handout
from manyhands.broker.jobs import (
    Refused,
    StoredJob,
    WireJob,
    check_pushed,
    decode_one,
    encode,
    utc_text,
)
from manyhands.broker.known import KnownJids
from manyhands.broker.queues import Queue
from manyhands.broker.registry import Queues
from manyhands.broker.reservations import Reservations
from manyhands.broker.store import Store


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


class Intake:
    """State: what is on its way to the disk."""

    def __init__(
        self,
        store: Store,
        queues: Queues,
        known: KnownJids,
        reservations: Reservations,
        handout: Handout,
    ) -> None:
        self._store = store
        self._queues = queues
        self._known = known
        self._reservations = reservations
        self._handout = handout
        self._arriving: set[Arrivals] = set()

    def push(
        self, jobs: Iterable[WireJob], stored: Callable[[], None], refused: Callable[[str], None]
    ) -> dict[str, str]:
        """Store jobs in one transaction; `stored` or `refused` is called then. Returns the reasons
        why some of them are not among them, by jid."""
        if (refusal := self._store.refusal) is not None:
            raise Refused(f"{refusal}: no job was stored")
        now = time.time()
        now_text = utc_text(now)
        reasons: dict[str, str] = {}
        arrivals = Arrivals()
        set_rows: list[SetRow] = []
        repeated: list[str] = []
        known, in_hand = self._known, self._reservations.in_hand
        for job in jobs:
            try:
                at = check_pushed(job, now_text)
                assert job.jid and job.queue and job.jobtype
                if job.jid in known or job.jid in in_hand:
                    repeated.append(job.jid)
                    continue
                if at > now:
                    self._queues.check_room_for(job.queue)
                    set_rows.append(SetRow("scheduled", at, job.jid, job.jobtype, encode(job)))
                else:
                    job.enqueued_at = now_text
                    self._arrive(arrivals, job.jid, job)
                known.add(job.jid)
            except Refused as error:
                reasons[job.jid or ""] = str(error)
        self._store.counters["scheduled"] += len(set_rows)
        self._arriving.add(arrivals)

        def make_visible() -> None:
            self._make_visible(arrivals)
            if self._store.is_disk_full and not all(map(self._is_known, repeated)):
                # What they repeated was on its way to the disk, and found it full.
                refused("the disk is full")
            else:
                stored()

        def forget(reason: str) -> None:
            self._arriving.discard(arrivals)
            # Never below 0: they may have been cleared in the meantime.
            self._store.counters["scheduled"] = max(
                0, self._store.counters["scheduled"] - len(set_rows)
            )
            self._known.discard_all([*arrivals.jids(), *(row.jid for row in set_rows)])
            refused(reason)

        self._store.push(Push(arrivals.rows, set_rows, make_visible, forget))
        return reasons

    def requeue(self, rows: Iterable[SetRow]) -> None:
        """Jobs that leave a set in the same commit."""
        now_text = utc_text(time.time())
        arrivals = Arrivals()
        for row in rows:
            wire = decode_one(row.payload)
            wire.enqueued_at = now_text
            jid = wire.jid or row.jid
            self._known.add(jid)
            self._arrive(arrivals, jid, wire)
        self._arriving.add(arrivals)
        batch = self._store.batch
        batch.rows.extend(arrivals.rows)
        self._store.hold(sum(len(payload) for _, payload in arrivals.rows))
        batch.when_stored.append(lambda: self._make_visible(arrivals))

    def forget_for(self, queues: Collection[Queue]) -> None:
        """What is on its way to queues that are removed."""
        for arrivals in self._arriving:
            for queue in arrivals.by_queue.keys() & set(queues):
                self._reservations.forget_queued(arrivals.of(queue))

    def queue_numbers(self) -> set[int]:
        """Of the queues that something is on its way to."""
        return {queue.id for arrivals in self._arriving for queue in arrivals.by_queue}

    def _is_known(self, jid: str) -> bool:
        return jid in self._known or jid in self._reservations.in_hand

    def _arrive(self, arrivals: Arrivals, jid: str, wire: WireJob) -> None:
        assert wire.queue
        queue = self._queues.by_name.get(wire.queue)
        if queue is None or not queue.is_listed:
            queue = self._queues.pushed_to(wire.queue)
        arrivals.add(queue, StoredJob(queue.new_key(), jid, wire.reserve_for or 0, encode(wire)))

    def _make_visible(self, arrivals: Arrivals) -> None:
        """They are stored: hand them out, unless their queue was cleared in the meantime."""
        self._arriving.discard(arrivals)
        for queue, (generation, jobs) in arrivals.by_queue.items():
            if queue.generation == generation:
                queue.stored(jobs)
                self._handout.serve(queue)

"""The scheduled, retry and dead jobs."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from manyhands.broker.batches import SET_NAMES, SetRow
from manyhands.broker.choices import EVERY_JOB, Choice, due_by
from manyhands.broker.known import KnownJids
from manyhands.broker.statements import clear_set, put_off_set
from manyhands.broker.store import Store

DEAD_KEPT_S = 180 * 24 * 3600.0
DEAD_KEPT = 100_000
MOVED_AT_ONCE = 1000


@dataclass(slots=True)
class Scan:
    """How often a set was looked through for what is due, what that moved and how long it took."""

    cycles: int = 0
    moved: int = 0
    took_s: float = 0.0

    def note(self, moved: int, started: float) -> None:
        """`started` is on the monotonic clock."""
        self.cycles += 1
        self.moved += moved
        self.took_s += time.monotonic() - started


class Sets:
    """State: what is on its way out of the sets, in a batch that is not committed yet."""

    def __init__(self, store: Store, known: KnownJids) -> None:
        self._store = store
        self._known = known
        self.scans = {kind: Scan() for kind in SET_NAMES}
        self._leaving: set[int] = set()
        # Sets that are to be emptied by statements which are not committed yet.
        self._clearing: Counter[str] = Counter()

    def add(self, row: SetRow) -> None:
        self._store.batch.set_rows.append(row)
        self._store.hold(len(row.payload))
        self._store.count(row.kind, 1)

    def clear(self, kind: str) -> None:
        rows = self._ids(kind)
        if len(rows) < self._store.counters[kind]:
            # Too many to look up; and to forget a push is better than to swallow one.
            self._known.clear()
        for row in rows:
            self._known.discard(row.jid)
        self._store.counters[kind] = 0
        self._store.wipe(*clear_set(kind))
        self.hide((kind,))

    def hide(self, kinds: Sequence[str]) -> None:
        """Nothing is found in these sets until they are really empty."""
        self._clearing.update(kinds)
        self._store.batch.when_stored.append(lambda: self._clearing.subtract(kinds))

    def due(self, kind: str, wall: float) -> list[SetRow]:
        return self.page(kind, due_by(wall)) if self._store.counters[kind] else []

    def page(self, kind: str, choice: Choice = EVERY_JOB) -> list[SetRow]:
        """A page of a set, without what is on its way out of it."""
        rows = self._store.reader.read_set(kind, choice, limit=MOVED_AT_ONCE)
        return self.without_leaving(rows)

    def _ids(self, kind: str, choice: Choice = EVERY_JOB) -> list[SetRow]:
        rows = self._store.reader.read_set_ids(kind, choice, limit=MOVED_AT_ONCE)
        return self.without_leaving(rows)

    def without_leaving(self, rows: list[SetRow]) -> list[SetRow]:
        leaving, clearing = self._leaving, self._clearing
        return [row for row in rows if row.id not in leaving and not clearing[row.kind]]

    def kill(self, rows: list[SetRow]) -> None:
        self.discard(rows)
        for row in rows:
            self.bury(row.jid, row.jobtype, row.payload)

    def bury(self, jid: str, jobtype: str, payload: bytes) -> None:
        self.add(SetRow("dead", time.time() + DEAD_KEPT_S, jid, jobtype, payload))

    def discard(self, rows: list[SetRow]) -> None:
        if not rows:
            return
        ids = [row.id for row in rows]
        for row in rows:
            self._store.count(row.kind, -1)
            self._known.discard(row.jid)
        self._leaving.update(ids)
        batch = self._store.batch
        batch.removed_set_ids.extend(ids)
        batch.when_stored.append(lambda: self._leaving.difference_update(ids))

    def clock_was_set(self, step_s: float) -> None:
        """Keep delays as they were meant, where the step would do harm: a clock that was set back
        makes retries wait, one that was set forward makes the dead too old. Not the other way
        round, for what an earlier process stored may have been right all the time."""
        kind = "retries" if step_s < 0 else "dead"
        if self._store.counters[kind]:
            self._store.run_alone(*put_off_set(kind, step_s))

    def bound_dead(self, wall: float) -> None:
        """Forget the dead that are too old, and the oldest when there are too many."""
        started, before = time.monotonic(), self._store.counters["dead"]
        if before:
            self.discard(self._ids("dead", due_by(wall)))
        excess = self._store.counters["dead"] - DEAD_KEPT
        if excess > 0:
            self.discard(self._ids("dead")[:excess])
        self.scans["dead"].note(before - self._store.counters["dead"], started)

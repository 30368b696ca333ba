"""What the manager should do, in lists and dicts: no disk, no batches, no keys."""

from dataclasses import dataclass, field

from manyhands.broker.manager import HOLD_AFTER_CRASH_S
from manyhands.broker.reservations import MAX_GIVEN_BACK, STORED_AFTER_S
from manyhands.broker.retries import retry_delay_s
from manyhands.shared.jobs import DEFAULT_RESERVE_FOR_S


@dataclass
class ModelJob:
    """`order` is when it came into its queue. `row` is what is written about its holder: nothing,
    that it is `held`, or that it was given `back`; `row_since` is since when it was held then."""

    jid: str
    queue: str
    retry: int
    retry_count: int | None = None
    order: int = 0
    owner: str | None = None
    wid: str = ""
    since: float = 0.0
    reserved_until: float = 0.0
    given_back: int = 0
    row: str = ""
    row_since: float = 0.0


@dataclass
class ModelRow:
    """A job in a set; it can be found once it is committed."""

    job: ModelJob
    at: float
    is_committed: bool = False


@dataclass
class Model:
    queues: dict[str, list[ModelJob]] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    arriving: list[ModelJob] = field(default_factory=list)
    working: dict[str, ModelJob] = field(default_factory=dict)
    sets: dict[str, list[ModelRow]] = field(
        default_factory=lambda: {"scheduled": [], "retries": [], "dead": []}
    )
    maybe_held: set[str] = field(default_factory=set)
    held_until: float = 0.0
    processed: int = 0
    failures: int = 0
    arrived: int = 0

    def everywhere(self) -> list[str]:
        """The jid of every job, once for each place where it is."""
        jobs = [job for queue in self.queues.values() for job in queue]
        jobs += [*self.arriving, *self.working.values()]
        jobs += [row.job for rows in self.sets.values() for row in rows]
        return [job.jid for job in jobs]

    def arrive(self, job: ModelJob) -> None:
        self.arrived += 1
        job.order, job.row, job.given_back = self.arrived, "", 0
        self.arriving.append(job)

    def commit(self) -> None:
        for job in self.arriving:
            self.queues.setdefault(job.queue, []).append(job)
        self.arriving.clear()
        for rows in self.sets.values():
            for row in rows:
                row.is_committed = True

    def take(self, names: list[str], owner: str | None, wid: str, now: float) -> str | None:
        if now < self.held_until:
            return None
        for name in names:
            if self.queues.get(name) and name not in self.paused:
                job = self.queues[name].pop(0)
                self._hold(job, owner, wid, now)
                return job.jid
        return None

    def _hold(self, job: ModelJob, owner: str | None, wid: str, now: float) -> None:
        self.maybe_held.discard(job.jid)
        job.owner, job.wid, job.since = owner, wid, now
        job.reserved_until = now + DEFAULT_RESERVE_FOR_S
        self.working[job.jid] = job

    def settle(self, jid: str) -> ModelJob | None:
        """A result came: for a job in hand, or for a queued one that somebody may have."""
        job = self.working.pop(jid, None)
        if job is None and jid in self.maybe_held:
            job = self._withdraw(jid)
        if job is not None:
            self.processed += 1
        return job

    def _withdraw(self, jid: str) -> ModelJob:
        self.maybe_held.discard(jid)
        (job,) = [job for queue in self.queues.values() for job in queue if job.jid == jid]
        self.queues[job.queue].remove(job)
        return job

    def fail(self, jid: str, now: float) -> None:
        job = self.settle(jid)
        assert job is not None
        self.failures += 1
        if job.retry == 0:
            return
        job.retry_count = 0 if job.retry_count is None else job.retry_count + 1
        if job.retry_count < job.retry:
            delay_s = retry_delay_s(job.retry_count, 0)
            self.sets["retries"].append(ModelRow(job, now + delay_s))
        else:
            self.sets["dead"].append(ModelRow(job, now))

    def give_back(self, lost: list[ModelJob], now: float) -> None:
        for job in reversed(lost):
            job.given_back += 1
            if job.given_back >= MAX_GIVEN_BACK:
                self.fail(job.jid, now)
                continue
            del self.working[job.jid]
            job.row, job.row_since = "back", job.since
            self.maybe_held.add(job.jid)
            self.queues.setdefault(job.queue, []).insert(0, job)

    def keep_held(self, wid: str, held: set[str], owner: str | None, now: float) -> None:
        lost = [job for job in self.working.values() if job.wid == wid and job.jid not in held]
        for jid in held & self.maybe_held:
            self._hold(self._withdraw(jid), owner, wid, now)
        self.give_back(lost, now)

    def store_reservations(self, now: float, after_s: float = STORED_AFTER_S) -> None:
        for job in self.working.values():
            if now - job.since >= after_s:
                job.row, job.row_since = "held", job.since

    def end_reservations(self, now: float) -> None:
        for job in list(self.working.values()):
            if job.reserved_until <= now:
                self.fail(job.jid, now)

    def queue_due(self, now: float) -> int:
        due = []
        for kind in ("scheduled", "retries"):
            rows = [row for row in self.sets[kind] if row.is_committed and row.at <= now]
            due += sorted(rows, key=lambda row: row.at)
        for row in due:
            self.leave(row)
            self.arrive(row.job)
        return len(due)

    def leave(self, row: ModelRow) -> None:
        for rows in self.sets.values():
            if row in rows:
                rows.remove(row)

    def remove(self, name: str) -> None:
        gone = [*self.queues.pop(name, []), *(job for job in self.arriving if job.queue == name)]
        self.maybe_held.difference_update(job.jid for job in gone)
        self.arriving = [job for job in self.arriving if job.queue != name]
        self.paused.discard(name)

    def flush(self) -> None:
        held_until, arrived = self.held_until, self.arrived
        self.__init__(held_until=held_until, arrived=arrived)  # type: ignore[misc]

    def restart(self, now: float, *, is_crash: bool) -> None:
        """From what is written: those whose holder is known stay in hand, those given back are in
        front, all others in the order in which they came."""
        jobs = [*self.working.values(), *(job for queue in self.queues.values() for job in queue)]
        for job in jobs:
            if not job.row:
                job.given_back = 0
            if job.row == "held":
                job.since = job.row_since
                job.reserved_until = job.since + DEFAULT_RESERVE_FOR_S
                if job.reserved_until <= now and job.owner:
                    job.reserved_until = now + DEFAULT_RESERVE_FOR_S
        held = sorted((job for job in jobs if job.row == "held"), key=lambda job: job.since)
        back = sorted((job for job in jobs if job.row == "back"), key=lambda job: job.row_since)
        rest = sorted((job for job in jobs if not job.row), key=lambda job: job.order)
        self.working = {job.jid: job for job in held}
        self.queues = {}
        for job in (*back, *rest):
            self.queues.setdefault(job.queue, []).append(job)
        self.maybe_held = {job.jid for job in (*back, *(rest if is_crash else ()))}
        self.held_until = now + HOLD_AFTER_CRASH_S if is_crash else 0.0

    def end_hold(self, now: float) -> None:
        """What may be held stays so until it goes out again: a result can come later still."""
        if self.held_until and now >= self.held_until:
            self.held_until = 0.0

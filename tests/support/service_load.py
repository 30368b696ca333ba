"""Jobs for a worker service that never run out, and what its ledger tells of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget
from manyhands.shared.jobs import Job
from tests.support.broker_state import BrokerState
from tests.support.ledger import ANSWERED, LedgerTail
from tests.support.waiting import eventually

JOBTYPE = "signed"
JOB_S = 0.05
BATCH = 250
# Without a job that ends, nobody is there to run one.
STANDSTILL_S = 60.0
RETRIES_LOOK_S = 1.0


@dataclass(slots=True)
class Runs:
    """Of one job, in the order of the ledger: the processes that began it, those that ended it,
    and how many had begun it when its ACK was answered."""

    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    answered_after: int | None = None


@dataclass
class ServiceLoad:
    """`lead`: so many are pushed before they have ended, far more than are ever in hand.
    State: the jobs that were pushed, and the ledger as far as it was read."""

    client: Client
    state: BrokerState
    queue: str
    tail: LedgerTail
    lead: int
    pushed: set[str] = field(default_factory=set)

    @property
    def ended(self) -> int:
        """Counted by their runs."""
        self.tail.read()
        return sum(count for note, count in self.tail.notes.items() if note.startswith("ended "))

    @property
    def hung(self) -> set[int]:
        """The processes in which a job hangs, or has."""
        self.tail.read()
        notes = [note.partition(" ") for note in self.tail.notes]
        return {int(pid) for what, _, pid in notes if what == "hangs"}

    @property
    def waiting(self) -> int:
        return int(self.state.info()["queues"].get(self.queue, 0))

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        is_over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_ahead(is_over), name="load")
            yield
            is_over.set()

    async def has_ended(self, count: int) -> None:
        await eventually(lambda: self.ended >= count, STANDSTILL_S, "the work stands still")

    async def all_done(self, within_s: float) -> None:
        """Wait until none waits or runs. Those that wait for another try are hurried: what is
        tested is that they are there."""
        async with asyncio.timeout(within_s):
            while self._are_left():
                await asyncio.sleep(RETRIES_LOOK_S)
                await self.client.requeue(MutateTarget.RETRIES, JobFilter(jobtype=JOBTYPE))

    def runs(self) -> dict[str, Runs]:
        """By id. A job that was never put back has its id as its jid, by which it is answered."""
        runs: dict[str, Runs] = {}
        for entry in self.tail.read():
            of_job = runs.setdefault(entry.id, Runs())
            what, _, pid = entry.note.partition(" ")
            if what == "started":
                of_job.started.append(int(pid))
            elif what == "ended":
                of_job.ended.append(int(pid))
            elif what == ANSWERED:
                of_job.answered_after = len(of_job.started)
        return runs

    def lost(self, runs: dict[str, Runs]) -> set[str]:
        return {id_ for id_ in self.pushed if id_ not in runs or not runs[id_].ended}

    async def _keep_ahead(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            jobs = [Job(jobtype=JOBTYPE, args=[JOB_S], queue=self.queue) for _ in range(BATCH)]
            self.pushed |= {job.jid for job in jobs}
            assert await self.client.push_bulk(jobs) == {}
            await self.has_ended(len(self.pushed) - self.lead)

    def _are_left(self) -> bool:
        info = self.state.info()
        sets = info["sets"]
        return bool(info["total_enqueued"] or sets["working"] or sets["retries"])


def ran_twice(runs: dict[str, Runs]) -> set[str]:
    return {id_ for id_, of_job in runs.items() if len(of_job.ended) > 1}


def begun_again_without_a_kill(runs: dict[str, Runs], killed: set[int]) -> set[str]:
    """Each run but the last must have been cut short with its process."""
    return {id_ for id_, of_job in runs.items() if not killed.issuperset(of_job.started[:-1])}


def begun_again_after_their_ack(runs: dict[str, Runs]) -> set[str]:
    return {
        id_
        for id_, of_job in runs.items()
        if of_job.answered_after not in (None, len(of_job.started))
    }

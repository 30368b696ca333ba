"""For tests of handlers: run a job as the worker does, without a server.

    def test_a_short_text_is_counted():
        result = run_job_sync("count_words", "to be or not to be")
        assert isinstance(result.outcome, Done)
        assert result.records == [{"words": 6}]

The job goes over the wire format and through `Execution.run_one`, so its arguments are checked and
converted, a plain function runs in a thread, and an exception becomes a failure. The worker itself
imports nothing from here.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson

from manyhands.shared.jobs import FIRST_VERSION, Job, check_batch, encode_job
from manyhands.shared.settings import Settings
from manyhands.shared.settings.loading import load
from manyhands.worker.jobs.delivery import Delivery, fresh_copy, parse_delivery
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.outcomes import (
    Dead,
    Defer,
    Done,
    Drop,
    Failed,
    Move,
    Outcome,
    PutBack,
    Retry,
)
from manyhands.worker.jobs.registry import REGISTRY, Registry
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.records import Capture, PlainRecord, Record
from manyhands.worker.service.settings import SECTIONS

__all__ = [
    "Dead",
    "Defer",
    "Done",
    "Drop",
    "Failed",
    "JobResult",
    "MemorySinks",
    "MemorySource",
    "PutBack",
    "Retry",
    "make_delivery",
    "run_job",
    "run_job_sync",
    "set_up",
]

TEST_JID = "job-00000001"


@dataclass(slots=True, frozen=True)
class JobResult:
    """How a job ended, and what it left: records for the sinks, jobs that it pushed, and the fresh
    copy of itself that waits in its queue if it is to run again."""

    outcome: Outcome
    records: list[Any]
    children: list[Job]
    queued_again: dict[str, Any] | None


async def run_job(
    jobtype: str,
    *args: Any,
    deliveries: int = 1,
    version: int = FIRST_VERSION,
    registry: Registry = REGISTRY,
) -> JobResult:
    """Run one job to its end. `deliveries` is how often it was handed out, this time included.

    Every run is of the same job, so that a test can run it twice and compare what it left."""
    identity = {"id": TEST_JID, "deliveries": deliveries - 1}
    job = Job(jobtype=jobtype, args=list(args), jid=TEST_JID, version=version)
    job.custom["mh"] = identity
    if not registry.is_set_up:
        set_up(registry=registry)
    source, sinks = MemorySource(), MemorySinks()
    delivery = parse_delivery(encode_job(job), asyncio.get_running_loop().time())
    with ThreadPoolExecutor(1, thread_name_prefix="handler") as threads:
        execution = Execution(source, registry, [], threads, sinks)
        await execution.run_one(delivery, source.job_ended)
    ((_, outcome),) = source.settled
    return JobResult(
        outcome=outcome,
        records=sinks.records,
        children=source.pushed,
        queued_again=source.queued_again[0] if source.queued_again else None,
    )


def run_job_sync(
    jobtype: str,
    *args: Any,
    deliveries: int = 1,
    version: int = FIRST_VERSION,
    registry: Registry = REGISTRY,
) -> JobResult:
    """As `run_job`, for a test that is a plain function: in a new event loop."""
    return asyncio.run(
        run_job(jobtype, *args, deliveries=deliveries, version=version, registry=registry)
    )


def set_up(settings: Settings | None = None, registry: Registry = REGISTRY) -> ProcessSetup:
    """Call the setup hooks now, with these settings or with those that a worker would read. The
    first `run_job` does so if the test has not; a test that replaces what a hook made calls this
    before."""
    process = ProcessSetup.of(load(SECTIONS).settings if settings is None else settings)
    registry.set_up(process)
    return process


def make_delivery(
    jobtype: str = "add",
    args: Sequence[Any] = (),
    *,
    jid: str = TEST_JID,
    reserved_after: float | None = None,
    **fields: Any,
) -> Delivery:
    """A job as the server would send it; reserved just now unless `reserved_after` says
    otherwise."""
    if reserved_after is None:
        reserved_after = asyncio.get_running_loop().time()
    wire = {"jid": jid, "jobtype": jobtype, "args": list(args), "queue": "default"} | fields
    return parse_delivery(orjson.dumps(wire), reserved_after)


class MemorySinks:
    """A `worker.jobs.execution.Records`. State: what was emitted; of a plain record its body."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def takes(self, kind: type) -> bool:
        return kind is not Capture

    async def room(self) -> None:
        """There is always room."""

    async def write(self, records: Sequence[Record]) -> None:
        """Raises for what is not JSON, as a sink on disk would."""
        bodies = [one.body if isinstance(one, PlainRecord) else one for one in records]
        for body in bodies:
            orjson.dumps(body)
        self.records += bodies


class MemorySource:
    """A `worker.jobs.source.Source` that records its calls. State: `events` in their order, and
    the parts of them that tests ask for most."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.settled: list[tuple[Delivery, Outcome]] = []
        self.queued_again: list[dict[str, Any]] = []
        self.pushed: list[Job] = []
        self.put_back_jids: list[str] = []
        self.ended: list[Delivery] = []
        self.push_error: Exception | None = None
        self.settle_gate = asyncio.Event()
        self.settle_gate.set()
        self._closed = asyncio.Event()

    async def run(self, deliver: Callable[[Delivery], None]) -> None:  # noqa: ARG002
        """There is nothing to bring: tests call the consumer's `deliver` themselves."""
        await self._closed.wait()

    def slot_free(self, delivery: Delivery) -> None:
        self.events.append(f"slot free {delivery.jid}")

    def job_ended(self, delivery: Delivery) -> None:
        self.events.append(f"ended {delivery.jid}")
        self.ended.append(delivery)

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        await self.settle_gate.wait()
        if isinstance(outcome, Retry | Defer | Move | PutBack):
            copy = fresh_copy(delivery, outcome)
            # None: it has no retry left, and the worker would send a FAIL.
            if copy is not None:
                self.queued_again.append(orjson.loads(copy))
        self.events.append(f"settled {delivery.jid}")
        self.settled.append((delivery, outcome))

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self.events.append(f"put back {delivery.jid}")
            self.put_back_jids.append(delivery.jid)

    async def push(self, jobs: Sequence[Job]) -> None:
        """Raises for jobs that would never be sent to a server."""
        if self.push_error is not None:
            raise self.push_error
        check_batch(jobs)
        for job in jobs:
            encode_job(job)
        self.events += [f"pushed {job.jid}" for job in jobs]
        self.pushed += jobs

    async def quiet(self) -> None:
        """Nothing is outstanding here."""

    async def flushed(self) -> None:
        """Nothing is unanswered here."""

    def close(self) -> None:
        self._closed.set()

    def outcomes(self, jid: str) -> list[Outcome]:
        """Every settlement of one delivery; a correct worker makes it one."""
        return [outcome for delivery, outcome in self.settled if delivery.jid == jid]

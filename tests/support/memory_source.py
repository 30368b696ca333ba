"""A `worker.source.Source` in memory: records what it is told, and queues again what it must."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from shared.jobs import Job
from worker import delivery as deliveries
from worker.delivery import Delivery, parse_delivery
from worker.outcomes import Defer, Outcome, PutBack, Retry


def make_delivery(
    jobtype: str = "add",
    args: Sequence[Any] = (),
    *,
    jid: str = "job-00000001",
    reserved_after: float | None = None,
    **fields: Any,
) -> Delivery:
    """A job as the server would send it; reserved just now if a loop runs and nothing is said."""
    if reserved_after is None:
        reserved_after = asyncio.get_running_loop().time()
    wire = {"jid": jid, "jobtype": jobtype, "args": list(args), "queue": "default"} | fields
    return parse_delivery(orjson.dumps(wire), reserved_after)


class MemorySource:
    """State: `events` in their order, and the parts of them that tests ask for most."""

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
        self._deliver: Callable[[Delivery], None] | None = None
        self._closed = asyncio.Event()

    async def run(self, deliver: Callable[[Delivery], None]) -> None:
        self._deliver = deliver
        await self._closed.wait()

    def job_ended(self, delivery: Delivery) -> None:
        self.events.append(f"ended {delivery.jid}")
        self.ended.append(delivery)

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        await self.settle_gate.wait()
        copy: bytes | None = None
        if isinstance(outcome, Retry):
            copy = deliveries.retry_copy(delivery, outcome)
        elif isinstance(outcome, Defer):
            copy = deliveries.deferred_copy(delivery, outcome.until)
        elif isinstance(outcome, PutBack):
            copy = deliveries.put_back_copy(delivery)
        if copy is not None:
            self.queued_again.append(orjson.loads(copy))
        self.events.append(f"settled {delivery.jid}")
        self.settled.append((delivery, outcome))

    async def put_back(self, deliveries_: Sequence[Delivery]) -> None:
        for delivery in deliveries_:
            self.events.append(f"put back {delivery.jid}")
            self.put_back_jids.append(delivery.jid)

    async def push(self, jobs: Sequence[Job]) -> None:
        if self.push_error is not None:
            raise self.push_error
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

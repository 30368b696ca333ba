"""The seam between the consumer and where jobs come from (Faktory and the broker; later Kafka)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from manyhands.shared.jobs import Job
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.outcomes import Outcome


class Source(Protocol):
    """All methods are called in the event loop's thread."""

    async def run(self, deliver: Callable[[Delivery], None]) -> None:
        """Bring jobs until closed: `deliver` is called for each, never for more than there are
        free slots. Raises when going on is pointless (wrong password, no such server)."""

    def slot_free(self, delivery: Delivery) -> None:
        """A delivered job has left its slot, and only waits for its records to be written."""

    def job_ended(self, delivery: Delivery) -> None:
        """A delivered job is over; its slot is free, if it was not before."""

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """Report to the server how it ended. Returns once the report is sent and will be repeated
        until answered; a job that must run again is queued by then. After `quiet`, a job is put
        back only when none can arrive here any more: sooner, our own requests could fetch it
        again."""

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """Settle many jobs that were not started, in few round trips."""

    async def push(self, jobs: Sequence[Job]) -> None:
        """Queue jobs; returns when the server has them all, raises when it does not."""

    async def quiet(self) -> None:
        """Ask for no more jobs; returns when none can arrive any more."""

    async def flushed(self) -> None:
        """Return when every settled job has been answered."""

    def close(self) -> None:
        """End `run`."""

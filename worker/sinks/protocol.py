"""The seam between jobs and the places where their records go."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from manyhands.shared.errors import ManyhandsError
from manyhands.worker.records import Record


class RecordsRefused(ManyhandsError):
    """A sink can never take these records, by their positions in the batch: their jobs fail. The
    others of the batch are written again without them."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__(next(iter(reasons.values()), "refused"))
        self.reasons = dict(reasons)


class SinkDown(ManyhandsError):
    """The sink takes no records, and we are about to stop: jobs are put back."""


class Sink(Protocol):
    """One place. All methods are called in the event loop's thread; a sink does blocking work in
    its own thread."""

    # For logs and metrics: its kind and its place, without a password.
    name: str
    # The records it wants; others are not given to it.
    kinds: frozenset[type]

    async def open(self) -> None:
        """Connect, recover, create what is missing. Raises ConfigError where trying again cannot
        help: no such bucket, a wrong password. Any other exception is retried."""

    async def write(self, records: Sequence[Record]) -> None:
        """Return when all of them are durable; a record whose id is known is not written again.
        Raises RecordsRefused for records that it can never take; after any other exception the same
        records come again. Called for one batch at a time."""

    async def close(self) -> None:
        """Nothing is written any more: finish files, close connections."""

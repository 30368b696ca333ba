"""The seam between those who read records back and the kinds of sinks that can be read."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from manyhands.shared.errors import ManyhandsError

# A page's record, with those of its fields that were asked for.
Page = dict[str, Any]
# Where a reading goes on: JSON that only its kind of sink understands.
Place = Any


class ResultsAway(ManyhandsError):
    """It cannot be read for the time being."""


class WrongPlace(ManyhandsError):
    """No reading of this sink has been there."""


class Reader(Protocol):
    """One reading of a crawl's records: of all that was durable when it began, each once. What is
    written meanwhile comes in the next reading, which begins at `end`. Blocking; for one thread at
    a time."""

    @property
    def place(self) -> Place:
        """Behind what was given last."""

    @property
    def end(self) -> Place:
        """Behind all of it."""

    def pages(self) -> Iterator[Page | None]:
        """None: nothing was found, but `place` is another. Raises ResultsAway, WrongPlace."""

    def close(self) -> None: ...


class Source(Protocol):
    """A sink that can be read back. `name` is without a password."""

    name: str

    def read(self, crawl: int, place: Place | None, fields: Sequence[str]) -> Reader:
        """From there on, or from the beginning. Blocking. Raises ResultsAway, WrongPlace."""

"""A reading as pieces of rows, each with the place behind it: also in the middle of a page's links.
Blocking."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from manyhands.shared.results.choice import Choice
from manyhands.shared.results.formats import Format, encoded
from manyhands.shared.results.protocol import Page, Place, Reader

PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a reading goes on: `given` rows of the record at `place` were given."""

    place: Place
    given: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    rows: int
    is_last: bool


class Pieces:
    """State: the reader, and the rows of its last record that are still to be given. One thread at
    a time is inside."""

    def __init__(self, reader: Reader, choice: Choice, form: Format, begin: Mark | None) -> None:
        self._reader = reader
        self._choice = choice
        self._form = form
        self._skipped = 0 if begin is None else begin.given
        self._before: Mark = Mark(reader.place)
        self._rows: deque[bytes] = deque()
        self._pages: Iterator[Page | None] = reader.pages()
        self._lock = Lock()

    @property
    def mark(self) -> Mark:
        return self._before if self._rows else Mark(self._reader.place)

    @property
    def end(self) -> Mark:
        """Behind all that was durable when the reading began."""
        return Mark(self._reader.end)

    def next(self, most_rows: int, until: float) -> Piece:
        """As many rows as were wanted, or as fill a piece, or as are found until then, on the
        monotonic clock. Raises ResultsAway, WrongPlace."""
        with self._lock:
            return self._next(most_rows, until)

    def close(self) -> None:
        with self._lock:
            self._reader.close()

    def _next(self, most_rows: int, until: float) -> Piece:
        data: list[bytes] = []
        size = 0
        while len(data) < most_rows and size < PIECE_BYTES:
            if self._rows:
                row = self._rows.popleft()
                self._before = Mark(self._before.place, self._before.given + 1)
                data.append(row)
                size += len(row)
            elif not self._look_on():
                return Piece(b"".join(data), len(data), is_last=True)
            elif time.monotonic() > until:
                break
        return Piece(b"".join(data), len(data), is_last=False)

    def _look_on(self) -> bool:
        """At the next record; whether there was one."""
        self._before = Mark(self._reader.place, self._skipped)
        try:
            page = next(self._pages)
        except StopIteration:
            return False
        if page is not None and self._choice.takes(page):
            rows = self._choice.rows(page)[self._skipped :]
            self._rows.extend(encoded(self._form, row) for row in rows)
        self._skipped = 0
        return True

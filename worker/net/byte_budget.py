"""How many bytes of pages a process holds at a time, from the first one read until the broker has
the page. Pure.

Pages are counted as they are, not as large as they may become: thousands of small ones are fetched
at a time, or a dozen of the largest. When there are too many bytes whoever reads stops reading, all
but one, so that a page of any size goes through and something always moves.
"""

from typing import Protocol

# What one read may bring; so many readers go on as there is room for.
READ_BYTES = 256 * 1024


class Reader(Protocol):
    """Something that reads a page, and can be told to wait."""

    def go_on(self) -> None:
        """There is room again."""


class Hold:
    """Bytes of one page. They count as long as it lives, whoever forgets it."""

    __slots__ = ("_budget", "_is_read", "_size")

    def __init__(self, budget: "ByteBudget") -> None:
        self._budget = budget
        self._size = 0
        self._is_read = False

    def resize(self, size: int) -> None:
        change = size - self._size
        self._size = size
        self._budget.change(change, change if self._is_read else 0)

    def is_read(self) -> None:
        """All of it is here: what becomes of it needs nobody to read."""
        if not self._is_read:
            self._is_read = True
            self._budget.change(0, self._size)

    def __del__(self) -> None:
        if self._size:
            self.resize(0)


class ByteBudget:
    """State: the bytes that are held, how many of them are of pages that were read, the readers
    that wait in their order, and the one that goes on whatever is held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._read = 0
        self._waiting: dict[Reader, None] = {}
        self._first: Reader | None = None
        self.held = 0

    @property
    def is_full(self) -> bool:
        """Nothing new is to be begun."""
        return self.held >= self._limit

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def change(self, held: int, read: int) -> None:
        self.held += held
        self._read += read
        if self._waiting:
            self._wake()

    def may_go_on(self, reader: Reader) -> bool:
        """Asked after a read that was not the last; who may not is told when it may."""
        if self.held < self._limit:
            return True
        if self._first is None and not self._read:
            self._first = reader
        if self._first is reader:
            return True
        self._waiting[reader] = None
        return False

    def ended(self, reader: Reader) -> None:
        """It reads no more: it is at its end, or has given up."""
        self._waiting.pop(reader, None)
        if self._first is reader:
            self._first = None
            if self._waiting:
                self._wake()

    def _wake(self) -> None:
        room = self._limit - self.held
        while room > 0 and self._waiting:
            room -= READ_BYTES
            self._next().go_on()
        # Pages that were read go by themselves. Where there are none, one must be read to its end.
        if self._waiting and self._first is None and not self._read:
            self._first = self._next()
            self._first.go_on()

    def _next(self) -> Reader:
        reader = next(iter(self._waiting))
        del self._waiting[reader]
        return reader

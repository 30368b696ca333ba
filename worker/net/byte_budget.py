"""Bounds the bytes of pages that a process holds, from the first byte read until the broker has the
page. Pure.

Pages count with their present size, not with the largest possible one: thousands of small ones are
fetched at a time, or a dozen of the largest. When there are too many bytes, all readers but one
pause, so that a page of any size gets through and something always moves.
"""

from typing import Protocol

# What one read may bring; as many readers continue as there is room for.
READ_BYTES = 256 * 1024


class Reader(Protocol):
    """Something that reads a page, and can be paused."""

    def go_on(self) -> None:
        """There is room again."""


class Hold:
    """Bytes of one page. They count until the page is garbage."""

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
        """The page is complete: its bytes will be freed without further reads."""
        if not self._is_read:
            self._is_read = True
            self._budget.change(0, self._size)

    def __del__(self) -> None:
        if self._size:
            self.resize(0)


class ByteBudget:
    """State: the bytes held, how many of them belong to complete pages, the paused readers in
    order, and the one that may always continue."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._read = 0
        self._waiting: dict[Reader, None] = {}
        self._first: Reader | None = None
        self.held = 0

    @property
    def is_full(self) -> bool:
        """No new fetch should begin."""
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
        """Called after every read but the last: False pauses the reader until `go_on` is called."""
        if self.held < self._limit:
            return True
        if self._first is None and not self._read:
            self._first = reader
        if self._first is reader:
            return True
        self._waiting[reader] = None
        return False

    def ended(self, reader: Reader) -> None:
        """It reads no more: it is complete, or has given up."""
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
        # Complete pages will go. Without any, one reader must continue to its end.
        if self._waiting and self._first is None and not self._read:
            self._first = self._next()
            self._first.go_on()

    def _next(self) -> Reader:
        reader = next(iter(self._waiting))
        del self._waiting[reader]
        return reader

"""How far a long piece of work has come, for somebody who waits for it."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

# On a terminal the line changes in place; in a file each is a line of its own.
ON_TERMINAL_S, IN_FILE_S = 0.2, 10.0
WIDTH = 30

Item = TypeVar("Item")


class Progress:
    """State: when it was last said, and whether a line stands open."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._said_at = time.monotonic()

    def over(self, items: Sequence[Item], what: str) -> Iterator[Item]:
        for done, item in enumerate(items):
            self.tell(done, len(items), what)
            yield item
        self._end()

    def tell(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._said_at < (ON_TERMINAL_S if self._is_terminal else IN_FILE_S):
            return
        self._said_at = now
        part = done / max(total, 1)
        if self._is_terminal:
            bar = "#" * int(part * WIDTH)
            sys.stderr.write(f"\r[{bar:<{WIDTH}}] {part:4.0%} of {total:,} {what} ")
        else:
            sys.stderr.write(f"{part:.0%} of {total:,} {what}\n")
        sys.stderr.flush()

    def _end(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")

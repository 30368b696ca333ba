"""Closing what was opened when the next step fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Closable(Protocol):
    def close(self) -> object: ...


@contextmanager
def closed_on_error(opened: Closable) -> Iterator[None]:
    """Close it if the block raises, or is cancelled; else leave it open."""
    try:
        yield
    except BaseException:
        opened.close()
        raise

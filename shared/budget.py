"""The bytes that a process holds for all its clients together. Pure."""

import contextlib
from collections.abc import Iterator

from manyhands.shared.errors import OverBudget


class ByteBudget:
    """State: what is held."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    def has_room(self, size: int) -> bool:
        """Something larger than the whole budget fits when nothing else is held; otherwise it would
        never fit."""
        return not self._held or self._held + size <= self.limit

    def take(self, size: int) -> None:
        """Raises OverBudget, and takes nothing then."""
        if not self.has_room(size):
            raise OverBudget(size, self._held, self.limit)
        self._held += size

    def give_back(self, size: int) -> None:
        assert size <= self._held, "more is given back than was taken"
        self._held -= size

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Raises OverBudget."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

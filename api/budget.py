"""How much of a thing may be held at a time, by everybody together. Pure."""

import contextlib
from collections.abc import Iterator

from api.problems import too_busy


class Budget:
    """State: what is held."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Raises Problem when that would be too much; a single one of any size has its turn."""
        if self._held and self._held + size > self._limit:
            raise too_busy("too many jobs are on their way already: nothing was taken")
        self._held += size
        try:
            yield
        finally:
            self._held -= size

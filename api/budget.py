"""How much of a thing may be held at a time: by everybody together, and by one key. Pure."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from manyhands.api.keys import Key
from manyhands.api.problems import too_busy
from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import OverBudget


class Shares:
    """State: what is held by each key. While there are several keys, none holds more than half:
    who takes all that he can leaves room for the others."""

    def __init__(self, limit: int, *, keys: int) -> None:
        self._whole = ByteBudget(limit)
        self._share = limit // 2 if keys > 1 else limit
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, key: Key, size: int) -> Iterator[None]:
        """Raises Problem when that would be too much; a single one of any size has its turn."""
        of_key = self._held[key.name]
        if of_key and of_key + size > self._share:
            raise too_busy(
                f"the key {key.name!r} has its share on its way already: nothing was taken"
            )
        try:
            self._whole.take(size)
        except OverBudget:
            raise too_busy("too many jobs are on their way already: nothing was taken") from None
        self._held[key.name] += size
        try:
            yield
        finally:
            self._whole.give_back(size)
            self._held[key.name] -= size

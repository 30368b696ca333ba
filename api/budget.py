"""How many bytes may be held at a time, by all keys together and by each one. Pure."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from manyhands.api.keys import Key
from manyhands.api.problems import too_busy
from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import OverBudget


class Shares:
    """State: what each key holds. While there are several keys, none holds more than half, so that
    a greedy one leaves room for the others."""

    def __init__(self, limit: int, *, keys: int) -> None:
        self._whole = ByteBudget(limit)
        self._share = limit // 2 if keys > 1 else limit
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, key: Key, size: int) -> Iterator[None]:
        """Raises Problem when that would be too much; when nothing else is held, any size fits."""
        of_key = self._held[key.name]
        if of_key and of_key + size > self._share:
            raise too_busy(f"the key {key.name!r} uses its whole share already: nothing was taken")
        try:
            self._whole.take(size)
        except OverBudget:
            raise too_busy("too many jobs are being taken already: nothing was taken") from None
        self._held[key.name] += size
        try:
            yield
        finally:
            self._whole.give_back(size)
            self._held[key.name] -= size

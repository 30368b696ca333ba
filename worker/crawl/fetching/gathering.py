"""What comes within a moment and goes to the broker together."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from manyhands.shared.tasks import Tasks

Item = TypeVar("Item")

GATHER_S = 0.02
# Of one push, roughly: a broker takes lines of a few megabytes.
MOST_BYTES = 4 * 1024 * 1024


class Gathering(Generic[Item]):
    """State: what waits for the next call of `send`, and since when each call is under way."""

    def __init__(
        self, send: Callable[[list[Item]], Coroutine[Any, Any, None]], tasks: Tasks
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._tasks = tasks
        self._waiting: list[Item] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: dict[object, float] = {}

    def add(self, item: Item, size: int) -> None:
        """`size` is in bytes."""
        self._waiting.append(item)
        self._bytes += size
        if self._bytes >= MOST_BYTES:
            self._go()
        elif self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._go)

    def waits_s(self) -> float:
        """How long the oldest call has been under way."""
        now = self._loop.time()
        return now - min(self._under_way.values(), default=now)

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._tasks.spawn(self._send_all(waiting))

    async def _send_all(self, waiting: list[Item]) -> None:
        call = object()
        self._under_way[call] = self._loop.time()
        try:
            await self._send(waiting)
        finally:
            del self._under_way[call]

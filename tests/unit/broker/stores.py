"""A store whose event loop is turned by the test."""

import queue
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manyhands.broker.memory import Memory
from manyhands.broker.store import Store

WAIT_S = 20.0


class HandLoop:
    """An event loop that only runs when it is told to. Timers are due at once."""

    def __init__(self) -> None:
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._from_threads: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = (
            queue.SimpleQueue()
        )

    def time(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._soon.append((callback, args))

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        del when
        self.call_soon(callback, *args)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        self._from_threads.put((callback, args))

    def run_soon(self) -> None:
        while self._soon:
            callback, args = self._soon.popleft()
            callback(*args)

    def run_one_from_thread(self) -> None:
        callback, args = self._from_threads.get(timeout=WAIT_S)
        callback(*args)


def open_store(directory: Path) -> tuple[Store, HandLoop]:
    loop = HandLoop()
    return Store(directory, is_full_sync=False, loop=loop, memory=Memory(100_000_000)), loop


def settle(store: Store, loop: HandLoop) -> None:
    """Until everything that was asked for is committed and answered."""
    loop.run_soon()
    while store._is_writing:
        loop.run_one_from_thread()
        loop.run_soon()

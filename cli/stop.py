"""Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


class Stop:
    """State: whether a stop was asked for. A second request cancels the task that waits."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._asked = asyncio.Event()
        self._task = asyncio.current_task()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self, seconds: float) -> bool:
        """Wait this long, or until a stop is asked for; True if it was."""
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        return True

    def ask(self) -> None:
        if self.is_asked:
            if self._task is not None:
                self._task.cancel()
            return
        self._asked.set()
        self._on_first()


@contextmanager
def stop_by_signals(on_first: Callable[[], None]) -> Iterator[Stop]:
    loop = asyncio.get_running_loop()
    stop = Stop(on_first)
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

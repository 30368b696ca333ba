"""Tasks that nobody waits for: held until they end, and their mistakes are told."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from manyhands.shared.logs import get_logger


class Tasks:
    """State: those that run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[object]] = set()
        self._log = get_logger("crawl")

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("unhandled exception in a crawl", exc_info=error)

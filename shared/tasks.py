"""Tasks that nobody awaits: kept alive until they end; unhandled exceptions are logged."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from manyhands.shared.logs import get_logger


class Tasks:
    """State: the running tasks."""

    def __init__(self, component: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[object]] = set()
        self._log = get_logger(component)

    @property
    def running(self) -> frozenset["asyncio.Task[object]"]:
        return frozenset(self._running)

    def spawn(self, work: Coroutine[Any, Any, object], name: str | None = None) -> None:
        task = self._loop.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("unhandled exception in a task", exc_info=error)

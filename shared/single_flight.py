"""One piece of work for all who want its result at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """State: the tasks under way, by key. `what` begins their names."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._tasks: dict[str, asyncio.Task[Result]] = {}

    async def run(self, key: str, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the task under way for `key`, or of `work`, started now if there is none.
        A caller that is cancelled does not cancel the task: others may wait for it."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(work(), name=f"{self._what} {key}")
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel every task; those who wait for one are cancelled with it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

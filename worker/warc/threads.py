"""Blocking work in a separate thread, awaited by a job that may be cancelled meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], abort: Callable[[], None]) -> T:
    """What `work` returns. When the job is cancelled, `abort` is called, and nobody waits for the
    thread: it closes what it has open, and the process may end before it does."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)

    def tell(set_outcome: Callable[..., None], outcome: object) -> None:
        def set_if_awaited() -> None:
            if not done.done():
                set_outcome(outcome)

        # The loop is gone when the process stops.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(set_if_awaited)

    threading.Thread(target=run, name="archive", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        abort()
        raise

"""Ends code of others that takes too long, in the thread that it blocks.

A plain function runs in the event loop's thread, as parsing does, and nothing else there can stop
it. So the system does: after the time, a signal raises Overdue in the midst of it, also out of
`while True`, `time.sleep` and a regular expression that backtracks for ever, and again every second
if it catches that. Code in C that never looks, such as an XPath expression over a large page, is
not reached that way: when the process has used several times as much of a processor, the system
ends the process. See `deaths` for what becomes of the page then.
"""

import signal
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

AGAIN_S = 1.0
# Of the limit, in processor time: all threads of the process use it.
HARD_LIMITS = 3

Result = TypeVar("Result")


class Overdue(BaseException):
    """Raised where the code is. No Exception: the code may catch these."""


class TimeLimit:
    """For one call at a time. Outside of the main thread, which alone gets signals, it does
    nothing. State: what was set before."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._is_armed = False
        self._handler: Any = None
        self._timer = (0.0, 0.0)

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._handler = signal.signal(signal.SIGALRM, self._overdue)
        self._is_armed = True
        # Nobody handles SIGVTALRM, so it ends the process.
        signal.setitimer(signal.ITIMER_VIRTUAL, HARD_LIMITS * self.seconds)
        self._timer = signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN_S)

    def __exit__(self, *_: object) -> None:
        self.disarm()

    def disarm(self) -> None:
        """Also after an Overdue that was raised while it was disarmed."""
        if not self._is_armed:
            return
        self._is_armed = False
        signal.setitimer(signal.ITIMER_REAL, *self._timer)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGALRM, self._handler)

    def _overdue(self, *_: object) -> None:
        if self._is_armed:
            raise Overdue


@types.coroutine
def step_by_step(
    coroutine: Coroutine[Any, Any, Result], guard: Callable[[], AbstractContextManager[None]]
) -> Generator[Any, Any, Result]:
    """Await it; whatever it does between two awaits is in a guard."""
    thrown: BaseException | None = None
    while True:
        try:
            with guard():
                waits_for = coroutine.send(None) if thrown is None else coroutine.throw(thrown)
        except StopIteration as end:
            result: Result = end.value
            return result
        thrown = None
        try:
            yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            thrown = error

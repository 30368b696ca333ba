"""How a job can end. A handler raises Retry, Defer, Drop or Dead; the rest come from run_one."""

import traceback
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.faktory.codec import MAX_BACKTRACE_LINES
from manyhands.shared.jobs import rfc3339

LONGEST_DELAY_S = 10 * 365 * 86_400


class JobOutcome(ManyhandsError):
    """Base of what a handler raises to end its job without returning or failing."""


class Retry(JobOutcome):
    """Not now: run it again after `after_s` seconds. Spends one of the job's retries."""

    def __init__(self, after_s: float, reason: str = "the handler asked for a retry") -> None:
        super().__init__(reason)
        if not 0 <= after_s <= LONGEST_DELAY_S:
            raise ValueError(f"Retry after {after_s} s: must be 0 to {LONGEST_DELAY_S}")
        self.after_s = after_s
        self.reason = reason


class Defer(JobOutcome):
    """Not yet: run it at `until`. Spends no retry, and holds neither slot nor reservation."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"deferred until {rfc3339(until)}")
        self.until = until


class Move(JobOutcome):
    """Not in this queue: to another one, as it is. Spends no retry."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"moved to {queue}")
        self.queue = queue


class Drop(JobOutcome):
    """There is nothing to do: acknowledge it."""


class Dead(JobOutcome):
    """It can never succeed: to the dead set, without further retries."""


class Done:
    """The handler returned, its records are durable and its children are queued."""


class PutBack:
    """Not run here after all (shutdown, too little time left): back into its queue, as it was."""


@dataclass(slots=True, frozen=True)
class Failed:
    """An error: the server decides on retry or death by the job's own `retry`."""

    error_type: str
    message: str
    backtrace: tuple[str, ...] = ()

    @classmethod
    def from_exception(cls, error: BaseException) -> Self:
        return cls(type(error).__name__, _text(error), _backtrace(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:
        return f"(its text cannot be shown: {type(second).__name__})"


def _backtrace(error: BaseException) -> tuple[str, ...]:
    """The innermost frames show the cause; the server limits the number of lines."""
    try:
        chunks = traceback.format_exception(error)
    except BaseException as second:
        # The exception may be of any class, with any bug.
        return (f"(its backtrace cannot be shown: {type(second).__name__})",)
    lines = [line for chunk in chunks for line in chunk.rstrip("\n").split("\n")]
    return tuple(lines[-MAX_BACKTRACE_LINES:])


Outcome = Done | PutBack | Failed | Retry | Defer | Move | Drop | Dead

DONE = Done()
PUT_BACK = PutBack()

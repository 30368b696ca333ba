"""The life of a job in hand, in one function: `run_one`."""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from typing import Any, Protocol

from manyhands.shared.jobs import utc_now
from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.context import JobContext, RecordTaker
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.outcomes import (
    DONE,
    PUT_BACK,
    Dead,
    Defer,
    Drop,
    Failed,
    Move,
    Outcome,
    Retry,
)
from manyhands.worker.jobs.registry import Handler, Registry
from manyhands.worker.jobs.source import Source
from manyhands.worker.records import Record
from manyhands.worker.service.held_jobs import HeldJobs
from manyhands.worker.sinks.protocol import SinkDown

# A job too new for its handler comes back after a second, as its worker is probably being replaced;
# each time later, if it is not.
TOO_NEW_AGAIN_S = 1.0
TOO_NEW_AT_MOST_S = 30.0


class Middleware(Protocol):
    """Called before and after every job, in the loop's thread. Two calls instead of a wrapping
    coroutine, because thousands of jobs are in hand at a time and each coroutine around a job costs
    every busy slot half a kilobyte."""

    def job_started(self, delivery: Delivery) -> None: ...

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None: ...


class Records(RecordTaker, Protocol):
    """The part of worker.sinks.sinks.Sinks that is needed here."""

    async def room(self) -> None:
        """Return when records may be written."""

    def write(self, records: Sequence[Record]) -> Awaitable[None]:
        """Done when the records are durable."""


class Execution:
    """Runs jobs; `on_ended` frees the slot. State: the job types with a payload that was too
    new."""

    def __init__(
        self,
        source: Source,
        registry: Registry,
        middleware: Sequence[Middleware],
        threads: Executor,
        sinks: Records | None = None,
        held: HeldJobs | None = None,
    ) -> None:
        # Kept: asking for the running loop costs a system call each time (CPython 3.11).
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._registry = registry
        self._middleware = middleware
        self._threads = threads
        self._sinks = sinks
        self._held = held
        self._too_new: set[str] = set()
        self._log = get_logger("execution")

    async def run_one(self, delivery: Delivery, on_ended: Callable[[Delivery], None]) -> None:
        """handler → records durable → children queued → settled. Every path ends in one settle.

        A job that waits for its records holds no slot: others run meanwhile, as many as the sinks
        have room for."""
        started_at = self._loop.time()
        outcome: Outcome = DONE
        try:
            for middleware in self._middleware:
                middleware.job_started(delivery)
            handler = self._registry.get(delivery.jobtype)
            if handler is None:
                outcome = Failed("UnknownJobType", f"no handler for {delivery.jobtype!r} here")
            elif delivery.version > handler.version:
                outcome = self._leave_to_a_newer_one(delivery, handler)
            else:
                context = self._context(handler, delivery)
                arguments = handler.arguments(delivery.args, context)
                if handler.is_async:
                    await handler.function(*arguments)
                else:
                    await self._run_in_thread(handler, arguments)
                if context is not None:
                    await self._keep_results(delivery, context)
        except BaseException as error:
            # All of them: a handler may raise anything.
            outcome = self._outcome_of(delivery, error)
        try:
            if delivery.task is not None and delivery.task.cancelling():
                await _let_cancellation_pass()
            await self.settle(delivery, outcome, self._loop.time() - started_at)
        finally:
            on_ended(delivery)

    async def settle(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        """Report the outcome, once. If that fails, the job comes back when its reservation ends."""
        if delivery.is_settled:
            return
        delivery.is_settled = True
        try:
            await self._source.settle(delivery, outcome)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # It cannot be queued again as asked; a FAIL can always be sent.
            outcome = Failed.from_exception(error)
            await self._source.settle(delivery, outcome)
        if delivery.held_as and self._held is not None:
            self._held.remove(delivery.held_as)
        for middleware in self._middleware:
            middleware.job_ended(delivery, outcome, took_s)

    def _outcome_of(self, delivery: Delivery, error: BaseException) -> Outcome:
        if isinstance(error, Retry | Defer | Move | Drop | Dead):
            return error
        if isinstance(error, asyncio.CancelledError):
            return _why_cancelled(delivery, error)
        if isinstance(error, GeneratorExit) and not self._loop.is_running():
            raise error  # the loop is gone, and with it every way to report anything
        return PUT_BACK if isinstance(error, SinkDown) else Failed.from_exception(error)

    def _leave_to_a_newer_one(self, delivery: Delivery, handler: Handler) -> Defer:
        if delivery.jobtype not in self._too_new:
            self._too_new.add(delivery.jobtype)
            self._log.warning(
                "jobs with a newer payload than this worker knows are left to another",
                jobtype=delivery.jobtype,
                version=delivery.version,
                known=handler.version,
            )
        after_s = min(TOO_NEW_AT_MOST_S, TOO_NEW_AGAIN_S * delivery.deliveries)
        return Defer(utc_now() + timedelta(seconds=after_s))

    def _context(self, handler: Handler, delivery: Delivery) -> JobContext | None:
        if not handler.wants_context:
            return None
        return JobContext(delivery, self._sinks)

    async def _run_in_thread(self, handler: Handler, arguments: list[Any]) -> None:
        result = await self._loop.run_in_executor(self._threads, _call, handler.function, arguments)
        if inspect.isawaitable(result):
            # A plain function that wraps a coroutine: the work is still to be done.
            await result

    async def _keep_results(self, delivery: Delivery, context: JobContext) -> None:
        delivery.is_handled = True
        if context.records and self._sinks is not None:
            await self._sinks.room()
            durable = self._sinks.write(context.records)
            self._source.slot_free(delivery)
            await durable
        if context.children:
            await self._source.push(context.children)


def _call(function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        return function(*arguments)
    except StopIteration as error:
        # A future cannot carry it, and would never end.
        raise RuntimeError("the handler raised StopIteration") from error


async def _let_cancellation_pass() -> None:
    """A handler may cancel its own task and return: its job must be settled all the same."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def _why_cancelled(delivery: Delivery, cancelled: asyncio.CancelledError) -> Outcome:
    # A handler that has returned is not to blame for a sink that is down.
    if delivery.cancel_reason == "shutdown" or (delivery.cancel_reason and delivery.is_handled):
        return PUT_BACK
    if delivery.cancel_reason == "time-out":
        return Failed("TimeoutError", "the job ran into the end of its reservation")
    return Failed.from_exception(cancelled)

"""What an outcome means on Faktory's wire: ACK, FAIL, or a fresh copy pushed and then ACK.

This order always: a crash between push and ACK repeats a job, the other way round it would be
lost. The server has no NACK.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import orjson

from manyhands.shared.errors import ConnectionLost, FaktoryError, ServerError
from manyhands.shared.faktory.client import MAX_BULK_JOBS, FaktoryVerbs, JobFilter, MutateTarget
from manyhands.shared.jobs import Job
from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.delivery import Delivery, fresh_copy, put_back_copy
from manyhands.worker.jobs.outcomes import DONE, Dead, Defer, Drop, Failed, Outcome, PutBack, Retry
from manyhands.worker.source.results import Results

Answer = TypeVar("Answer")

REPEAT_AFTER_S = 0.25


class Settlement:
    """State: none; results on their way are kept by `Results`."""

    def __init__(self, verbs: FaktoryVerbs, results: Results) -> None:
        self._verbs = verbs
        self._results = results
        self._log = get_logger("settlement")

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if outcome is DONE or isinstance(outcome, Drop):
            self._results.ack(delivery.jid)
        elif isinstance(outcome, Failed):
            self._fail(delivery, outcome)
        elif isinstance(outcome, Dead):
            await self._bury(delivery, Failed.from_exception(outcome))
        elif isinstance(outcome, Retry | Defer | PutBack):
            await self._queue_again(delivery, outcome)
        for copy in delivery.copies or ():
            self._results.ack(copy.jid)

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        """As PutBack for each of them, in few round trips."""
        for start in range(0, len(deliveries), MAX_BULK_JOBS):
            batch = deliveries[start : start + MAX_BULK_JOBS]
            copies = [put_back_copy(delivery) for delivery in batch]
            refused = await repeat(partial(self._verbs.push_encoded, copies))
            for delivery, copy in zip(batch, copies, strict=True):
                reason = refused and refused.get(orjson.loads(copy)["jid"])
                if reason:
                    self._fail(delivery, Failed("PutBackRefused", reason))
                else:
                    self._results.ack(delivery.jid)

    async def push(self, jobs: Sequence[Job]) -> None:
        for start in range(0, len(jobs), MAX_BULK_JOBS):
            batch = jobs[start : start + MAX_BULK_JOBS]
            raise_if_refused(await repeat(partial(self._verbs.push_bulk, batch)))

    async def _queue_again(self, delivery: Delivery, outcome: Retry | Defer | PutBack) -> None:
        copy = fresh_copy(delivery, outcome)
        if copy is None:
            # No retry left: by the job's own `retry` the server discards or buries it.
            self._fail(delivery, Failed("Retry", str(outcome)))
            return
        try:
            raise_if_refused(await repeat(partial(self._verbs.push_encoded, [copy])))
        except ServerError as error:
            self._fail(delivery, Failed.from_exception(error))
        else:
            self._results.ack(delivery.jid)

    async def _bury(self, delivery: Delivery, failed: Failed) -> None:
        """FAIL moves it to the retries (or, by its own `retry`, away), MUTATE from there."""
        try:
            await self._verbs.fail(
                delivery.jid, failed.error_type, failed.message, failed.backtrace
            )
            await self._verbs.kill(MutateTarget.RETRIES, JobFilter(jids=[delivery.jid]))
        except FaktoryError as error:
            # It will be retried and die then: later than asked for, but not lost.
            self._log.warning("a dead job is left to its retries", reason=str(error))
            self._fail(delivery, failed)

    def _fail(self, delivery: Delivery, failed: Failed) -> None:
        self._results.fail(delivery.jid, failed, delivery.reserved_until)


async def repeat(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat over lost connections until answered or cancelled: twice beats never."""
    while True:
        try:
            return await attempt()
        except ConnectionLost:
            await asyncio.sleep(REPEAT_AFTER_S)


def raise_if_refused(refused: dict[str, str]) -> None:
    if refused:
        jid, reason = next(iter(refused.items()))
        raise ServerError("ERR", f"{len(refused)} jobs were refused, {jid}: {reason}")

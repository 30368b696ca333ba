"""How jobs end on Faktory's wire: ACK, FAIL, or a fresh copy pushed and then ACK; kept, counted and
repeated until the server has answered.

Always in this order: a crash between push and ACK repeats a job; the other way round would lose it.
The server has no NACK. The number of unanswered results bounds how many jobs are taken (window.py):
without a bound, results pile up at the server and make it slower.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import TypeVar

import orjson

from manyhands.shared.errors import ConnectionLost, FaktoryError, ServerError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.client import MAX_BULK_JOBS, FaktoryVerbs, JobFilter, MutateTarget
from manyhands.shared.faktory.codec import OK, ErrorReply, Reply
from manyhands.shared.faktory.lanes import Command, CommandLanes
from manyhands.shared.jobs import Job
from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.delivery import Delivery, fresh_copy, put_back_copy
from manyhands.worker.jobs.outcomes import (
    DONE,
    Dead,
    Defer,
    Drop,
    Failed,
    Move,
    Outcome,
    PutBack,
    Retry,
)

Answer = TypeVar("Answer")

MAX_ATTEMPTS = 4
# A result that the server refused, and a push whose connection was lost.
REPEAT_AFTER_S = 1.0
PUSH_AGAIN_AFTER_S = 0.25
# A lane answers one command after the other, so a batch is also what one lane is kept busy with.
BATCH = 16


class Results:
    """State: results collected in this turn, how many await their answer, how many were given
    up. `on_change` asks the owner to call `send_collected` soon."""

    def __init__(
        self, lanes: CommandLanes, verbs: FaktoryVerbs, on_change: Callable[[], None]
    ) -> None:
        self.unanswered = 0
        self.given_up = 0
        self._lanes = lanes
        self._verbs = verbs
        self._on_change = on_change
        self._collected: list[Command] = []
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._log = get_logger("results")

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if outcome is DONE or isinstance(outcome, Drop):
            self.ack(delivery.jid)
        elif isinstance(outcome, Failed):
            self._fail(delivery, outcome)
        elif isinstance(outcome, Dead):
            await self._bury(delivery, Failed.from_exception(outcome))
        elif isinstance(outcome, Retry | Defer | Move | PutBack):
            await self._queue_again(delivery, outcome)
        for copy in delivery.copies or ():
            self.ack(copy.jid)

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
                    self.ack(delivery.jid)

    async def push(self, jobs: Sequence[Job]) -> None:
        for start in range(0, len(jobs), MAX_BULK_JOBS):
            batch = jobs[start : start + MAX_BULK_JOBS]
            raise_if_refused(await repeat(partial(self._verbs.push_bulk, batch)))

    async def _queue_again(
        self, delivery: Delivery, outcome: Retry | Defer | Move | PutBack
    ) -> None:
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
            self.ack(delivery.jid)

    async def _bury(self, delivery: Delivery, failed: Failed) -> None:
        """FAIL moves it to the retry set (or discards it, by its own `retry`), MUTATE to the dead
        set."""
        try:
            await self._verbs.fail(
                delivery.jid, failed.error_type, failed.message, failed.backtrace
            )
            await self._verbs.kill(MutateTarget.RETRIES, JobFilter(jids=[delivery.jid]))
        except FaktoryError as error:
            # It will be retried until it dies: later than asked for, but not lost.
            self._log.warning("a dead job is left to its retries", reason=str(error))
            self._fail(delivery, failed)

    def _fail(self, delivery: Delivery, failed: Failed) -> None:
        self.fail(delivery.jid, failed, delivery.reserved_until)

    # On their way

    def ack(self, jid: str) -> None:
        """Sent again until answered: the server says OK to an ACK that it has seen before."""
        self._send(Command(codec.ack(jid), self._answered, is_kept=True, jid=jid))

    def fail(self, jid: str, failed: Failed, reserved_until: float = inf) -> None:
        """Not sent after the reservation has ended: by then the server has failed the job itself,
        and another worker may have it."""
        line = codec.fail(jid, failed.error_type, failed.message, failed.backtrace)
        command = Command(line, self._answered, is_kept=True, expires_at=reserved_until, jid=jid)
        self._send(command)

    def unanswered_jids(self) -> list[str]:
        unsent = [command.jid for command in self._collected]
        return unsent + [command.jid for command in self._lanes.unanswered() if command.jid]

    async def flushed(self) -> None:
        await self._none_left.wait()

    def send_collected(self) -> None:
        """Hand over what has come together: few writes of many lines each."""
        if self._collected:
            collected, self._collected = self._collected, []
            for start in range(0, len(collected), BATCH):
                self._lanes.submit_together(collected[start : start + BATCH])

    def _send(self, command: Command) -> None:
        self.unanswered += 1
        self._none_left.clear()
        self._collected.append(command)
        self._on_change()

    def _answered(self, command: Command, reply: Reply | FaktoryError) -> None:
        if reply != OK and self._is_repeated(command, reply):
            return
        self.unanswered -= 1
        if self.unanswered == 0:
            self._none_left.set()
        self._on_change()

    def _is_repeated(self, command: Command, reply: Reply | FaktoryError) -> bool:
        """A refused result is sent again a few times, then given up."""
        if not isinstance(reply, ErrorReply | FaktoryError) or _is_known_already(reply):
            return False
        command.attempts += 1
        if isinstance(reply, ErrorReply) and command.attempts < MAX_ATTEMPTS:
            loop = asyncio.get_running_loop()
            loop.call_later(REPEAT_AFTER_S, self._lanes.submit, command)
            return True
        self.given_up += 1
        self._log.error(
            "a result could not be reported; the job comes back when its reservation ends",
            jid=command.jid,
            reason=str(reply),
        )
        return False


def _is_known_already(reply: ErrorReply | FaktoryError) -> bool:
    """A FAIL whose job is gone was either repeated, or came after the reservation's end."""
    return isinstance(reply, ErrorReply) and reply.text.lower().startswith("job not found")


async def repeat(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat over lost connections until answered or cancelled: twice beats never."""
    while True:
        try:
            return await attempt()
        except ConnectionLost:
            await asyncio.sleep(PUSH_AGAIN_AFTER_S)


def raise_if_refused(refused: dict[str, str]) -> None:
    if refused:
        jid, reason = next(iter(refused.items()))
        raise ServerError("ERR", f"{len(refused)} jobs were refused, {jid}: {reason}")

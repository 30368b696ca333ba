"""Jobs of many requests in few PUSHBs; each request is answered when its own job is stored.

A batch leaves when it is full, when its oldest job has waited long enough, or at once when no
PUSHB is under way: a lone request never waits, and under load the batches grow by themselves.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from manyhands.api.intake import EncodedJob
from manyhands.api.problems import Problem, outcome_unknown, too_busy, unavailable, unprocessable
from manyhands.shared.errors import FaktoryError, NotSent, ServerError
from manyhands.shared.logs import get_logger

MAX_IN_FLIGHT = 16
# The most that waits for a slow broker; beyond that, clients get 429.
MAX_HELD_JOBS = 20_000
MAX_HELD_BYTES = 64 * 1024 * 1024
# A batch of large jobs leaves before it is full.
MAX_BATCH_BYTES = 8 * 1024 * 1024
PUSH_TIMEOUT_S = 10.0
# How a server's messages begin when it refuses the job itself.
SURE_REFUSALS = (
    "jobs must",
    "jobs cannot",
    "invalid timestamp",
    "invalid JSON",
    "cannot marshal",
    'cannot get "',
)
# Timers may fire a little early: a shorter wait for the rest would repeat again and again.
SHORTEST_TIMER_S = 0.001


class Broker(Protocol):
    """Who takes the batches."""

    @property
    def is_up(self) -> bool: ...

    async def push_encoded(self, jobs: Sequence[bytes], *, timeout_s: float) -> dict[str, str]: ...


class BatchFigures(Protocol):
    """Hears of each batch that was answered."""

    def batch_pushed(self, size: int, waited_s: float, took_s: float) -> None: ...


@dataclass(slots=True, frozen=True)
class BatchRules:
    """When a batch leaves, and how many jobs it has then. Pure."""

    max_size: int
    max_delay_s: float

    def next_size(self, waiting: int, oldest_waits_s: float, in_flight: int) -> int:
        if not waiting or in_flight >= MAX_IN_FLIGHT:
            return 0
        if waiting >= self.max_size:
            return self.max_size
        return waiting if in_flight == 0 or oldest_waits_s >= self.max_delay_s else 0


@dataclass(slots=True)
class Waiting:
    job: EncodedJob
    since: float
    answer: asyncio.Future[None]


class Batcher:
    """State: the jobs that wait for a batch, and how many batches are under way."""

    def __init__(self, broker: Broker, rules: BatchRules, figures: BatchFigures) -> None:
        self._broker = broker
        self._rules = rules
        self._figures = figures
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._held_jobs = 0
        self._held_bytes = 0
        self._in_flight: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_look_due = False

    @property
    def held_jobs(self) -> int:
        """Taken, and not answered by the broker yet."""
        return self._held_jobs

    async def push(self, job: EncodedJob) -> None:
        """Return when the broker has the job. Raises Problem."""
        self._refuse_if_full()
        answer: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(Waiting(job, self._loop.time(), answer))
        self._held_jobs += 1
        self._held_bytes += len(job.payload)
        if not self._is_look_due:
            # After this turn of the loop: what came in together goes out together.
            self._is_look_due = True
            self._loop.call_soon(self._send_what_is_due)
        await answer

    def _refuse_if_full(self) -> None:
        if not self._broker.is_up:
            raise unavailable("the broker is away: the job was not taken", retry_after_s=2)
        if self._held_jobs >= MAX_HELD_JOBS or self._held_bytes >= MAX_HELD_BYTES:
            raise too_busy("the broker is slower than its clients: the job was not taken")

    def _send_what_is_due(self) -> None:
        self._is_look_due = False
        while self._waiting:
            oldest_waits_s = self._loop.time() - self._waiting[0].since
            size = self._rules.next_size(len(self._waiting), oldest_waits_s, len(self._in_flight))
            if size == 0:
                self._look_again_later(self._rules.max_delay_s - oldest_waits_s)
                return
            task = self._loop.create_task(self._send(self._take(size), oldest_waits_s))
            self._in_flight.add(task)
            task.add_done_callback(self._sent)

    def _look_again_later(self, delay_s: float) -> None:
        # When all are in flight, the next answer checks again.
        if self._timer is None and len(self._in_flight) < MAX_IN_FLIGHT:
            self._timer = self._loop.call_later(max(delay_s, SHORTEST_TIMER_S), self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        self._send_what_is_due()

    def _take(self, size: int) -> list[Waiting]:
        batch: list[Waiting] = []
        batch_bytes = 0
        while self._waiting and len(batch) < size and batch_bytes < MAX_BATCH_BYTES:
            batch.append(self._waiting.popleft())
            batch_bytes += len(batch[-1].job.payload)
        return batch

    async def _send(self, batch: list[Waiting], waited_s: float) -> None:
        started_at = self._loop.time()
        outcome = await push_jobs(self._broker, [waiting.job for waiting in batch])
        self._figures.batch_pushed(len(batch), waited_s, self._loop.time() - started_at)
        for waiting in batch:
            self._answer(waiting, outcome.get(waiting.job.jid))

    def _answer(self, waiting: Waiting, problem: Problem | None) -> None:
        self._held_jobs -= 1
        self._held_bytes -= len(waiting.job.payload)
        if waiting.answer.done():
            return  # its client went away
        if problem is None:
            waiting.answer.set_result(None)
        else:
            waiting.answer.set_exception(problem)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled():  # else the loop ends
            self._send_what_is_due()


async def push_jobs(broker: Broker, jobs: Sequence[EncodedJob]) -> dict[str, Problem]:
    """One PUSHB; the jobs that are not certainly stored, by jid, and why."""
    try:
        reasons = await broker.push_encoded([job.payload for job in jobs], timeout_s=PUSH_TIMEOUT_S)
    except FaktoryError as error:
        return {job.jid: _why(error, job.jid) for job in jobs}
    except Exception:
        # The requests for these jobs must not wait for ever.
        get_logger("api").exception("unhandled exception in a push")
        return {job.jid: _nobody_knows(job.jid) for job in jobs}
    return {jid: _why_not_taken(reason, jid) for jid, reason in reasons.items()}


def _why_not_taken(reason: str, jid: str) -> Problem:
    """A stopping Faktory also reports jobs that it has stored as failed: only a complaint about the
    job itself is sure."""
    if reason.startswith(SURE_REFUSALS):
        return unprocessable(f"the broker refused the job: {reason}", jid=jid)
    return outcome_unknown(f"the broker could not say what became of job {jid}: {reason}", jid=jid)


def _why(error: FaktoryError, jid: str) -> Problem:
    if isinstance(error, NotSent):
        return unavailable("the broker is away: the job was not queued", retry_after_s=2)
    if isinstance(error, ServerError):
        return unavailable(f"the broker takes no jobs: {error.text}", retry_after_s=10)
    return _nobody_knows(jid)


def _nobody_knows(jid: str) -> Problem:
    return outcome_unknown(
        f"the broker went away before it answered: job {jid} may be queued or not", jid=jid
    )

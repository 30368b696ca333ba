"""The FETCHes of one connection."""

import time
from collections import deque
from collections.abc import Sequence

from manyhands.broker.answers import Answer, Answers
from manyhands.broker.clients import Worker
from manyhands.broker.handout import FETCH_BLOCKS_S, Handout
from manyhands.broker.holders import COUNTED_BYTES
from manyhands.broker.jobs import KEPT_IN_HAND_BYTES, StoredJob
from manyhands.broker.memory import PLACE_BYTES
from manyhands.broker.queues import Queue, Waiter
from manyhands.broker.registry import Queues

NOTHING = b"$-1\r\n"


def bulk(payload: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(payload), payload)


class Fetches:
    """State: who fetches, and the FETCHes that wait for a job. Only the first of them is offered
    one, so that answers keep their order."""

    def __init__(self, answers: Answers, handout: Handout, queues: Queues) -> None:
        self.owner: str | None = None
        self.wid = ""
        self._worker: Worker | None = None
        self._answers = answers
        self._handout = handout
        self._queues = queues
        self._waiting: deque[tuple[Answer, Sequence[Queue], float]] = deque()
        self._waiter: Waiter | None = None
        self._waiting_bytes = 0

    def belong_to(self, owner: str | None, worker: Worker | None) -> None:
        self.owner, self.wid, self._worker = owner, worker.wid if worker else "", worker

    def fetch(self, queues: Sequence[Queue], count: int) -> int:
        """So many times the same. Returns how many were done: not all if one of them has to wait,
        if the client has enough unread then, or if it was closed because of that."""
        now = time.monotonic()
        answers, take = self._answers, self._handout.take
        if not self._waiting and not self._is_quiet():
            for done in range(1, count + 1):
                job = take(queues, self, now)
                if job is None:
                    self._queue_up(queues, now)
                    return done
                payload = job.payload
                answers.reply(bulk(payload))
                if len(payload) > KEPT_IN_HAND_BYTES:
                    job.let_go()
                if answers.is_full or answers.is_closing():
                    return done
            return count
        self._queue_up(queues, now)
        return 1

    def _queue_up(self, queues: Sequence[Queue], now: float) -> None:
        self._waiting.append((self._answers.reply_later(), queues, now))
        self._waiting_bytes += PLACE_BYTES * len(queues)
        if self._waiter is None:
            self._wait(queues, now)

    def _wait(self, queues: Sequence[Queue], now: float) -> None:
        # A quiet worker waits for no queue: only for the time to pass.
        self._waiter = self._handout.wait(() if self._is_quiet() else queues, self, now)

    def _is_quiet(self) -> bool:
        return self._worker is not None and self._worker.state > 0

    def held_bytes(self) -> int:
        return self._waiting_bytes

    # For those who hand out jobs

    def can_take(self) -> bool:
        return not self._answers.is_full and not self._answers.is_closing()

    def deliver(self, job: StoredJob | None) -> None:
        """The FETCH in front has its answer; see what those behind it get."""
        self._waiter = None
        now = time.monotonic()
        self._answer_first(job)
        while self._waiting:
            _, queues, read_at = self._waiting[0]
            queues = self._queues.renewed(queues)
            can_take = self.can_take() and not self._is_quiet()
            job = self._handout.take(queues, self, now) if can_take else None
            if job is None and now - read_at < FETCH_BLOCKS_S:
                self._wait(queues, now)
                break
            self._answer_first(job)
        self._answers.flush()

    def _answer_first(self, job: StoredJob | None) -> None:
        answer, queues, _ = self._waiting.popleft()
        self._waiting_bytes -= PLACE_BYTES * len(queues)
        answer.is_ready = True
        if job is None:
            answer.fill(NOTHING)
            return
        answer.fill(bulk(job.payload))
        job.let_go()
        if len(answer.data) > COUNTED_BYTES:
            self._answers.send()

    # For its connection

    def read_again(self) -> None:
        """The client has read: it may get what it waits for."""
        if self._waiter is not None and self.can_take():
            self._handout.serve_all(self._waiter.queues)

    def end(self) -> None:
        """The worker is quiet: it gets nothing more, and need not wait to know."""
        self._stop_waiting()
        while self._waiting:
            self._answer_first(None)
        self._answers.flush()

    def drop(self) -> None:
        """Nobody is there any more who could be answered."""
        self._waiting.clear()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._waiter is not None:
            self._handout.stop_waiting(self._waiter)
            self._waiter = None

"""A broker that answers when the test says so."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from manyhands.api.intake import EncodedJob
from manyhands.shared.errors import FaktoryError


@dataclass
class Push:
    """One PUSHB that was received."""

    jobs: list[str]
    answer: asyncio.Future[dict[str, str]]

    def succeed(self, **reasons: str) -> None:
        """The reasons are of the jobs that are refused."""
        self.answer.set_result(reasons)

    def fail(self, error: Exception) -> None:
        self.answer.set_exception(error)


@dataclass
class FakeBroker:
    """State: every PUSHB, answered or not; how many are under way, and were at most."""

    is_up: bool = True
    pushes: list[Push] = field(default_factory=list)
    received: asyncio.Queue[Push] = field(default_factory=asyncio.Queue)
    under_way: int = 0
    most_under_way: int = 0

    async def push_encoded(self, jobs: Sequence[bytes], *, timeout_s: float) -> dict[str, str]:
        push = Push(
            [orjson.loads(job)["jid"] for job in jobs],
            asyncio.get_running_loop().create_future(),
        )
        self.pushes.append(push)
        self.received.put_nowait(push)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self._received(push)
        try:
            return await push.answer
        finally:
            self.under_way -= 1

    def _received(self, push: Push) -> None:
        """The test answers."""

    @property
    def sizes(self) -> list[int]:
        return [len(push.jobs) for push in self.pushes]

    @property
    def jids(self) -> list[str]:
        return [jid for push in self.pushes for jid in push.jobs]


class ObligingBroker(FakeBroker):
    """Answers by itself, after `takes_s`; with an error from the `fails_from`th PUSHB on."""

    def __init__(
        self,
        takes_s: float = 0.01,
        error: FaktoryError | None = None,
        fails_from: int = 0,
        refuses: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__()
        self._takes_s = takes_s
        self._error = error
        self._fails_from = fails_from
        self._refuses = refuses
        self.stored: list[str] = []

    def _received(self, push: Push) -> None:
        number = len(self.pushes) - 1
        asyncio.get_running_loop().call_later(self._takes_s, self._answer, push, number)

    def _answer(self, push: Push, number: int) -> None:
        if push.answer.done():
            return
        if self._error is not None and number >= self._fails_from:
            push.fail(self._error)
            return
        first = sum(self.sizes[:number])
        refused = {
            jid: "jobs must be better than this one"
            for place, jid in enumerate(push.jobs, first)
            if place in self._refuses
        }
        self.stored += [jid for jid in push.jobs if jid not in refused]
        push.succeed(**refused)


def a_job(number: int = 0, size_bytes: int = 0) -> EncodedJob:
    jid = f"job-{number:08}"
    payload = orjson.dumps({"jid": jid, "filling": "x" * size_bytes})
    return EncodedJob(jid, "any", "default", payload)

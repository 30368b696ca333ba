"""Things of any number in one request: lines in, batches of a thousand out, a report at the end.
Mostly jobs, and PUSHBs.

Reading waits while enough batches are under way, so a fast sender is held back by the speed of
whoever stores them, and memory stays the same however long the body is.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

from manyhands.api.batcher import Broker, push_jobs
from manyhands.api.bodies import Chunks, Lines, Unpacker
from manyhands.api.intake import EncodedJob, Item
from manyhands.api.problems import Problem
from manyhands.shared.faktory.client import MAX_BULK_JOBS
from manyhands.shared.jobs import utc_now

MAX_IN_FLIGHT = 4
# Large jobs leave in smaller batches: a stream holds five of them at most.
MAX_BATCH_BYTES = 1024 * 1024
# Told in full; the rest are counted.
MAX_ERRORS = 1000
# Unpacked between two looks at the other requests: a few packed bytes can be megabytes of them.
TURN_BYTES = 256 * 1024

BROKER_GONE = "the broker went away"
WHERE_LINES_ARE = (
    "unqueued_lines are not queued, unknown_lines may be; from next_line on nothing was read"
)
# What ends the whole stream, not only a line: the store is away, or takes no more of this.
ENDS_STREAM = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT)


class Measured(Protocol):
    """What a line becomes."""

    @property
    def size_bytes(self) -> int: ...


Thing = TypeVar("Thing", bound=Measured)
# Raises Problem.
ReadLine = Callable[[bytes, datetime], Thing]
# Stores a batch; gives those that are not certainly stored, by their place in it, and why.
Store = Callable[[Sequence[Thing]], Awaitable[Mapping[int, Problem]]]
# Waits until so many things may be stored. Raises Problem.
Pay = Callable[[int], Awaitable[None]]


@dataclass(slots=True)
class Numbered(Generic[Thing]):
    """A batch, and the lines that its things came from."""

    things: list[Thing] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, thing: Thing, line: int) -> bool:
        """Whether it is full now."""
        self.things.append(thing)
        self.lines.append(line)
        self.size_bytes += thing.size_bytes
        return len(self.things) >= MAX_BULK_JOBS or self.size_bytes >= MAX_BATCH_BYTES


@dataclass(slots=True)
class Report:
    """What became of the lines before `next_line`: each is counted once, unless it is blank.
    `stopped_by` ended it before the last line was read or queued."""

    accepted: int = 0
    refused: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)
    unknown_lines: list[int] = field(default_factory=list)
    unqueued_lines: list[int] = field(default_factory=list)
    stopped_by: Problem | None = None
    next_line: int = 1

    def refuse(self, problem: Problem, line: int) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            known = {"line": line, "status": problem.status, "detail": problem.detail}
            self.errors.append(known | problem.more)

    def counts(self) -> dict[str, Any]:
        return {
            "accepted": self.accepted,
            "refused": self.refused,
            "errors": sorted(self.errors, key=lambda error: error["line"]),
        }

    def result(self) -> dict[str, Any]:
        """What is answered with 202. Raises Problem when the request as a whole failed."""
        if self.stopped_by is not None:
            raise Problem(
                self.stopped_by.status,
                self.stopped_by.detail,
                self.stopped_by.more
                | self.counts()
                | {
                    "unknown_lines": ranges(self.unknown_lines),
                    "unqueued_lines": ranges(self.unqueued_lines),
                    "next_line": self.next_line,
                },
                self.stopped_by.retry_after_s,
                self.stopped_by.closes,
            )
        if self.refused and not self.accepted:
            raise Problem(422, "no line can be taken", self.counts())
        return self.counts()


class LineStream(Generic[Thing]):
    """Takes the lines of one request. State: the batch that fills, how many batches are in flight,
    and the tasks that see to them.

    `stop` is shared with who reads the body: the store's going away resolves it here (it is `gone`
    then, in words), the end of the service elsewhere.
    """

    def __init__(
        self,
        store: Store[Thing],
        read_line: ReadLine[Thing],
        pay: Pay,
        stop: asyncio.Future[Problem],
        gone: str,
    ) -> None:
        self.report = Report()
        self._store = store
        self._read_line = read_line
        self._pay = pay
        self._stop = stop
        self._gone = gone
        self._is_store_away = False
        self._filling: Numbered[Thing] = Numbered()
        self._is_reading = True
        self._sending = asyncio.Lock()
        self._in_flight = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._line = 0

    async def take(self, chunks: Chunks, unpacker: Unpacker, lines: Lines) -> Report:
        """Read to the end, or to what stops it; returns when every line has its outcome. Raises
        ClientGone, and stores then only what was under way already."""
        try:
            try:
                await self._read(chunks, unpacker, lines)
            except Problem as problem:
                self.report.stopped_by = problem
            await self._push_rest()
        finally:
            self._is_reading = False
            while self._under_way:
                await asyncio.wait(self._under_way)
        self._close_report()
        return self.report

    async def _read(self, chunks: Chunks, unpacker: Unpacker, lines: Lines) -> None:
        turn_bytes = 0
        while (chunk := await chunks.next()) is not None:
            for data in unpacker.unpack(chunk):
                await self._take_lines(lines.feed(data))
                turn_bytes += len(data)
                if turn_bytes > TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)
        unpacker.end()
        await self._take_lines(lines.last())

    async def _take_lines(self, lines: Iterable[bytes]) -> None:
        now = utc_now()
        for line in lines:
            self._line += 1
            if not line or line.isspace():
                continue
            try:
                thing = self._read_line(line.rstrip(b"\r"), now)
            except Problem as problem:
                self.report.refuse(problem, self._line)
                continue
            if self._filling.add(thing, self._line):
                await self._send()
        if not self._in_flight:
            await self._send()

    async def _send(self) -> None:
        async with self._sending:
            if not self._filling.things:
                return
            if self._is_store_away:
                raise self._stop.result()
            await self._pay(len(self._filling.things))
            batch, self._filling = self._filling, Numbered[Thing]()
            self._in_flight += 1
            task = asyncio.create_task(self._push(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        while self._in_flight >= MAX_IN_FLIGHT:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def _push_rest(self) -> None:
        try:
            await self._send()
        except Problem as problem:
            self.report.stopped_by = problem

    async def _push(self, batch: Numbered[Thing]) -> None:
        problems = await self._store(batch.things)
        self._in_flight -= 1
        self.report.accepted += len(batch.things) - len(problems)
        if problems:
            self._tell_failed(batch, problems)
        if self._is_reading and not self._in_flight:
            # What came meanwhile must not wait until the sender sends more. A problem stops the
            # reading too, and is told of there.
            with contextlib.suppress(Problem):
                await self._send()

    def _tell_failed(self, batch: Numbered[Thing], problems: Mapping[int, Problem]) -> None:
        for place, problem in problems.items():
            line = batch.lines[place]
            if problem.status not in ENDS_STREAM:
                self.report.refuse(problem, line)
                continue
            if _is_unknown(problem):
                self.report.unknown_lines.append(line)
            else:
                self.report.unqueued_lines.append(line)
            self._store_takes_no_more(problem)

    def _store_takes_no_more(self, problem: Problem) -> None:
        self._is_store_away = True
        if self._stop.done():
            return
        is_away = problem.status == HTTPStatus.SERVICE_UNAVAILABLE
        why = f"{self._gone if is_away else problem.detail}: {WHERE_LINES_ARE}"
        self._stop.set_result(Problem(problem.status, why, {}, problem.retry_after_s))

    def _close_report(self) -> None:
        self.report.next_line = self._line + 1
        # Read, and not sent.
        self.report.unqueued_lines += self._filling.lines
        if self._is_store_away:
            self.report.stopped_by = self._stop.result()


class JobStream(LineStream[EncodedJob]):
    """Lines that become jobs of the broker."""

    def __init__(
        self,
        broker: Broker,
        read_line: ReadLine[EncodedJob],
        pay: Pay,
        stop: asyncio.Future[Problem],
    ) -> None:
        async def store(jobs: Sequence[EncodedJob]) -> Mapping[int, Problem]:
            problems = await push_jobs(broker, jobs)
            if not problems:
                return {}
            return {
                place: problems[job.jid] for place, job in enumerate(jobs) if job.jid in problems
            }

        super().__init__(store, read_line, pay, stop, BROKER_GONE)


def ranges(numbers: list[int]) -> list[list[int]]:
    """[3, 4, 5, 9] as [[3, 5], [9, 9]]: a thousand lines in a few characters."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


async def push_list(
    broker: Broker,
    items: Sequence[Item],
    read_item: Callable[[Item, datetime], EncodedJob],
    pay: Callable[[int], None],
) -> list[EncodedJob]:
    """Jobs of a list: if one of them is not in order, none is queued. Raises Problem."""
    now = utc_now()
    jobs: list[EncodedJob] = []
    errors: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        try:
            jobs.append(read_item(item, now))
        except Problem as problem:
            errors.append({"index": index, "detail": problem.detail} | problem.more)
    if errors:
        detail = f"{len(errors)} of {len(items)} jobs are not in order: none was queued"
        raise Problem(422, detail, {"errors": errors[:MAX_ERRORS]})
    pay(len(jobs))
    batches = list(_batches(jobs))
    if len(batches) == 1:
        problems = await push_jobs(broker, jobs)  # without a task of its own
    else:
        outcomes = await asyncio.gather(*(push_jobs(broker, batch) for batch in batches))
        problems = {jid: problem for outcome in outcomes for jid, problem in outcome.items()}
    if problems:
        raise _partly_failed(jobs, problems)
    return jobs


def _batches(jobs: Iterable[EncodedJob]) -> Iterator[list[EncodedJob]]:
    batch: Numbered[EncodedJob] = Numbered()
    for index, job in enumerate(jobs):
        if batch.add(job, index):
            yield batch.things
            batch = Numbered()
    if batch.things:
        yield batch.things


def _partly_failed(jobs: list[EncodedJob], problems: dict[str, Problem]) -> Problem:
    """Says of each job where it is."""
    worst = max(problems.values(), key=lambda problem: (_is_unknown(problem), problem.status))
    detail = f"{len(problems)} of {len(jobs)} jobs are not certainly queued: {worst.detail}"
    outcome = {"outcome": "unknown"} if _is_unknown(worst) else {}
    states = [{"jid": job.jid, "state": _state(problems.get(job.jid))} for job in jobs]
    return Problem(worst.status, detail, outcome | {"jobs": states}, worst.retry_after_s)


def _state(problem: Problem | None) -> str:
    if problem is None:
        return "queued"
    return "unknown" if _is_unknown(problem) else "not queued"


def _is_unknown(problem: Problem) -> bool:
    return "outcome" in problem.more

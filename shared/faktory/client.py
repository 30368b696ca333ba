"""Typed verbs over command lanes: what producers, the API and tests talk to a server with.

async with Client.from_url("tcp://localhost:7419") as client:
    await client.push(Job(jobtype="add", args=[1, 2]))
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from manyhands.shared.errors import (
    ConnectionLost,
    FaktoryError,
    InvalidJob,
    NotSent,
    ProtocolError,
    ServerError,
)
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.codec import ErrorReply, Reply
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import ServerAddress, parse_url
from manyhands.shared.faktory.lanes import Command, CommandLanes
from manyhands.shared.jobs import Job, check_batch, check_queue_name, encode_job
from manyhands.shared.logs import get_logger

# The server pushes a batch one by one within 5 s and fails the rest, so batches stay small.
MAX_BULK_JOBS = 1000
DEFAULT_TIMEOUT_S = 15.0


class MutateTarget(StrEnum):
    RETRIES = "retries"
    SCHEDULED = "scheduled"
    DEAD = "dead"


@dataclass(slots=True, frozen=True)
class JobFilter:
    """Which jobs of a set are meant. With jids the server looks at nothing else; `pattern` is a
    Redis glob over the job's JSON."""

    jids: Sequence[str] = field(default_factory=tuple)
    jobtype: str = ""
    pattern: str = ""

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {}
        if self.jids:
            wire["jids"] = list(self.jids)
        if self.jobtype:
            wire["jobtype"] = self.jobtype
        if self.pattern:
            wire["regexp"] = self.pattern
        if not wire:
            raise InvalidJob("an empty filter would match every job: use clear for that")
        return wire


class FaktoryVerbs:
    """Every verb of the protocol on a running group of command lanes (owned by somebody else)."""

    def __init__(self, lanes: CommandLanes) -> None:
        self._lanes = lanes

    @property
    def is_up(self) -> bool:
        """Whether a command can be sent now."""
        return self._lanes.is_up

    @property
    def is_our_broker(self) -> bool:
        return self._lanes.is_our_broker

    async def push(self, job: Job, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
        """Push one job; its jid. As a batch of one: PUSH with `retry` poisons the server's
        default for every job of every client that names none."""
        failures = await self.push_bulk([job], timeout_s=timeout_s)
        if failures:
            raise ServerError("ERR", failures[job.jid])
        return job.jid

    async def push_bulk(
        self, jobs: Sequence[Job], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, str]:
        """Push up to 1,000 jobs; the jids that the server refused, with its reason for each."""
        if len(jobs) > MAX_BULK_JOBS:
            raise InvalidJob(f"{len(jobs)} jobs in one batch: at most {MAX_BULK_JOBS}")
        check_batch(jobs)
        await self._lanes.wait_up_within(timeout_s)
        keeps = self._lanes.is_our_broker
        return await self.push_encoded(
            [encode_job(job, keeps_big_integers=keeps) for job in jobs], timeout_s=timeout_s
        )

    async def push_encoded(
        self, jobs: Sequence[bytes], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, str]:
        """Push jobs that are JSON already, e.g. ones that the server gave us."""
        if not jobs:
            return {}
        answer = await self._json(codec.push_bulk(jobs), timeout_s)
        return {str(jid): str(reason) for jid, reason in answer.items()}

    async def ack(self, jid: str) -> None:
        await self._ok(codec.ack(jid))

    async def fail(
        self, jid: str, error_type: str, message: str, backtrace: Sequence[str] = ()
    ) -> None:
        await self._ok(codec.fail(jid, error_type, message, backtrace))

    async def beat(self, wid: str, *, state: str | None = None, rss_kb: int = 0) -> str | None:
        """Send a heartbeat; the state that the server wants this worker to be in, if any."""
        reply = await self.call(codec.beat(wid, state=state, rss_kb=rss_kb))
        return parse_beat_answer(reply)

    async def info(self) -> dict[str, Any]:
        return await self._json(codec.info(), DEFAULT_TIMEOUT_S)

    async def flush(self) -> None:
        """Delete everything on the server, every queue and set."""
        await self._ok(codec.flush())

    async def queue_pause(self, names: Iterable[str]) -> None:
        await self._queue("PAUSE", names)

    async def queue_resume(self, names: Iterable[str]) -> None:
        await self._queue("RESUME", names)

    async def queue_remove(self, names: Iterable[str]) -> None:
        await self._queue("REMOVE", names)

    async def queue_latency(self, names: Iterable[str]) -> dict[str, float]:
        """Age in seconds of each queue's oldest job."""
        checked = _checked_names(names, allow_all=False)
        answer = await self._json(codec.queue("LATENCY", checked), DEFAULT_TIMEOUT_S)
        return {str(name): float(age_s) for name, age_s in answer.items()}

    async def clear(self, target: MutateTarget) -> None:
        await self._ok(codec.mutate("clear", target, None))

    async def kill(self, target: MutateTarget, which: JobFilter) -> None:
        """Move matching jobs to the dead set."""
        await self._ok(codec.mutate("kill", target, which.to_wire()))

    async def discard(self, target: MutateTarget, which: JobFilter) -> None:
        await self._ok(codec.mutate("discard", target, which.to_wire()))

    async def requeue(self, target: MutateTarget, which: JobFilter) -> None:
        """Put matching jobs back into their queues now."""
        await self._ok(codec.mutate("requeue", target, which.to_wire()))

    async def call(self, line: bytes, timeout_s: float = DEFAULT_TIMEOUT_S) -> Reply:
        """Send one command and wait for its answer. Never sent twice."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def settle(_command: Command, reply: Reply | FaktoryError) -> None:
            if answer.done():
                return
            if isinstance(reply, FaktoryError):
                answer.set_exception(reply)
            else:
                answer.set_result(reply)

        command = Command(line, settle)
        self._lanes.submit(command)
        try:
            async with asyncio.timeout(timeout_s):
                reply = await answer
        except TimeoutError:
            if self._lanes.give_up_on(command):
                raise NotSent(
                    f"no connection to {self._lanes.dialer.address} in {timeout_s:g} s"
                ) from None
            raise ConnectionLost(
                f"no answer from {self._lanes.dialer.address} in {timeout_s:g} s"
            ) from None
        except asyncio.CancelledError:
            # If it was sent, its place in the line of answers stays taken: nothing shifts.
            self._lanes.withdraw(command)
            raise
        if isinstance(reply, ErrorReply):
            raise reply.to_error()
        return reply

    async def _ok(self, line: bytes) -> None:
        reply = await self.call(line)
        if reply != codec.OK:
            raise ProtocolError(f"expected OK, got {str(reply)[:100]!r}")

    async def _json(self, line: bytes, timeout_s: float) -> dict[str, Any]:
        reply = await self.call(line, timeout_s)
        try:
            answer = orjson.loads(reply) if isinstance(reply, bytes) else None
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise ProtocolError(f"expected a JSON object, got {str(reply)[:100]!r}")
        return answer

    async def _queue(self, action: str, names: Iterable[str]) -> None:
        await self._ok(codec.queue(action, _checked_names(names, allow_all=True)))


class Client(FaktoryVerbs):
    """A client that owns its connections: enter to connect, leave to close."""

    def __init__(
        self, address: ServerAddress, *, ca_file: Path | None = None, connections: int = 1
    ) -> None:
        dialer = Dialer(address, ca_file)
        super().__init__(CommandLanes(dialer, connections))
        # FETCH blocks what stands behind it, so it gets a socket of its own; it carries no
        # worker id, which a real server accepts, and so needs no heartbeat.
        self._fetch = FaktoryVerbs(CommandLanes(dialer, 1))
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def from_url(cls, url: str, *, ca_file: Path | None = None) -> Self:
        """`tcp://:password@host:7419`, or `tcp+tls://…`. Raises ConfigError."""
        return cls(parse_url(url), ca_file=ca_file)

    async def __aenter__(self) -> Self:
        """Connect. Raises ConnectFailed when the first attempt fails."""
        await self.probe()
        self.start()
        await self._lanes.wait_up_within(DEFAULT_TIMEOUT_S)
        return self

    async def probe(self) -> None:
        """See whether the server is there and lets us in. Raises ConnectFailed."""
        first = await self._lanes.dialer.dial()
        first.close("the server is there")

    def start(self) -> None:
        """Keep connections up from now on, whether the server is there already or not."""
        self._keep_up(self._lanes)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._lanes.close()
        self._fetch._lanes.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def fetch(self, queues: Sequence[str]) -> dict[str, Any] | None:
        """One FETCH: a job, or None after the server's two seconds. For tools and tests; the
        worker keeps many in flight instead."""
        if len(self._tasks) == len(self._lanes.lanes):
            self._keep_up(self._fetch._lanes)
        reply = await self._fetch.call(codec.fetch(_checked_names(queues, allow_all=False)))
        if reply is None:
            return None
        job: dict[str, Any] = orjson.loads(reply) if isinstance(reply, bytes) else {}
        return job

    def _keep_up(self, lanes: CommandLanes) -> None:
        for number, lane in enumerate(lanes.lanes):
            task = asyncio.create_task(lane.run(), name=f"faktory-client-{number}")
            task.add_done_callback(_tell_why_it_ended)
            self._tasks.append(task)


def _tell_why_it_ended(lane: asyncio.Task[None]) -> None:
    if not lane.cancelled() and (error := lane.exception()) is not None:
        get_logger("faktory").error(f"a connection is given up: {error}")


def parse_beat_answer(reply: Reply) -> str | None:
    """`+OK`, or a state as JSON (a bulk in fact, a simple string in the written protocol)."""
    if reply == codec.OK:
        return None
    if isinstance(reply, str | bytes):
        try:
            state = orjson.loads(reply).get("state")
        except (orjson.JSONDecodeError, AttributeError):
            raise ProtocolError(f"an unreadable answer to BEAT: {reply[:100]!r}") from None
        return str(state) if state else None
    raise ProtocolError(f"an unreadable answer to BEAT: {reply!r}")


def _checked_names(names: Iterable[str], *, allow_all: bool) -> list[str]:
    checked = list(names)
    if not checked:
        raise InvalidJob("no queue is named")
    if not (allow_all and checked == ["*"]):
        for name in checked:
            check_queue_name(name)
    return checked

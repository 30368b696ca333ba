"""The jobs that tests give to `manyhands worker`: WORKER_HANDLERS=tests.support.handlers."""

import asyncio
import json
import os
import signal
import time
from datetime import timedelta

from manyhands import Dead, Defer, Drop, Job, JobContext, Retry, job
from manyhands.shared.jobs import utc_now
from tests.support.ledger import LEDGER_VARIABLE, write_entry

# The topic whose records are values for the job `raw`.
RAW_TOPIC_VARIABLE = "TEST_RAW_TOPIC"


class Broken(Exception):
    """What the job `fails` ends with."""


def note(context: JobContext, text: object) -> None:
    path = os.environ[LEDGER_VARIABLE]
    write_entry(path, context.id, context.jid, context.deliveries, str(text))


@job("ledger")
async def ledger(n: int, context: JobContext) -> None:
    note(context, n)


@job("sleepy")
async def sleepy(seconds: float, context: JobContext) -> None:
    note(context, "started")
    await asyncio.sleep(seconds)
    note(context, "ended")


@job("blocks")
async def blocks(seconds: float, context: JobContext) -> None:
    """What a careless handler does to everything else in the loop."""
    note(context, "started")
    time.sleep(seconds)  # noqa: ASYNC251
    note(context, "ended")


@job("hogs")
async def hogs(seconds: float) -> None:
    """Keep the loop busy in short pieces: answers of several sockets wait and come together."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.02)  # noqa: ASYNC251
        await asyncio.sleep(0)


@job("fails")
async def fails(message: str) -> None:
    raise Broken(message)


@job("retries")
async def retries(after_s: float, context: JobContext) -> None:
    note(context, "run")
    if context.deliveries == 1:
        raise Retry(after_s, "come back later")


@job("always_retries")
async def always_retries(after_s: float, context: JobContext) -> None:
    note(context, "run")
    raise Retry(after_s, "never satisfied")


@job("defers")
async def defers(after_s: float, context: JobContext) -> None:
    note(context, "run")
    if context.deliveries == 1:
        raise Defer(utc_now() + timedelta(seconds=after_s))


@job("drops")
async def drops() -> None:
    raise Drop("nothing to do")


@job("dies")
async def dies(reason: str) -> None:
    raise Dead(reason)


@job("parent")
async def parent(queue: str, context: JobContext) -> None:
    context.push(*(Job(jobtype="ledger", args=[n], queue=queue) for n in range(3)))


@job("failing_parent")
async def failing_parent(queue: str, context: JobContext) -> None:
    context.push(Job(jobtype="ledger", args=[0], queue=queue))
    raise Broken("after the push")


@job("spell")
async def spell(name: str, n: int, context: JobContext) -> None:
    """Takes long enough for another one to come in between, if it may."""
    note(context, f"{name} started {n}")
    await asyncio.sleep(0.01)
    note(context, f"{name} ended {n}")


@job("raw", topic=os.environ.get(RAW_TOPIC_VARIABLE, ""))
async def raw(value: bytes, context: JobContext) -> None:
    message = context.message
    assert message is not None and message.key is not None
    header = (message.header("h") or b"").decode()
    note(context, f"{value.hex()} {message.key.decode()} {header} {message.topic}")


@job("sync_add")
def sync_add(a: int, b: int, context: JobContext) -> None:
    """A plain function: runs in a thread."""
    note(context, a + b)


@job("sync_sleepy")
def sync_sleepy(seconds: float, context: JobContext) -> None:
    """A thread that nobody can cancel."""
    note(context, "started")
    time.sleep(seconds)


@job("add")
async def add(n: int, context: JobContext) -> None:
    """What other clients push in the interoperability tests."""
    note(context, n)


@job("tells")
async def tells(how: str, context: JobContext) -> None:
    """Notes all that it sees of its job, and runs twice."""
    custom = {name: value for name, value in context.custom.items() if name != "mh"}
    note(context, json.dumps({"custom": custom, "backtrace": context.fields.get("backtrace")}))
    if context.deliveries == 1:
        raise Retry(0.1, "once more") if how == "retry" else Defer(utc_now())


@job("kills")
async def kills(context: JobContext) -> None:
    """What a job that runs its worker out of memory does to it."""
    note(context, "started")
    os.kill(os.getpid(), signal.SIGKILL)

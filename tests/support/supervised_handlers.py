"""Jobs that are hard on the process that runs them; beside those of tests.support.handlers."""

import asyncio
import contextlib
import os
import resource
import time

from manyhands import JobContext, job
from manyhands.worker.process.figures import open_descriptors
from tests.support.handlers import note

MIB = 1024 * 1024
# What `leaks` never gives back.
_leaked: list[bytearray] = []


@job("signed")
async def signed(seconds: float, context: JobContext) -> None:
    """Tells which process runs it."""
    note(context, f"started {os.getpid()}")
    await asyncio.sleep(seconds)
    note(context, f"ended {os.getpid()}")


@job("hangs")
async def hangs(context: JobContext) -> None:
    """Keeps the loop from turning, for nothing."""
    note(context, f"hangs {os.getpid()}")
    time.sleep(3600)  # noqa: ASYNC251


@job("exits")
async def exits(after_s: float, context: JobContext) -> None:
    """Takes its process with it."""
    note(context, f"exits {os.getpid()}")
    await asyncio.sleep(after_s)
    os._exit(3)


@job("opens_all")
async def opens_all(context: JobContext) -> None:
    """Leaves no descriptor to anybody for some time."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors(), hard))
    opened = []
    with contextlib.suppress(OSError):
        while True:
            opened.append(os.dup(2))
    await asyncio.sleep(8)
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    note(context, "closed")


@job("raises_unusual")
async def raises_unusual(name: str) -> None:
    raise {"GeneratorExit": GeneratorExit, "KeyboardInterrupt": KeyboardInterrupt}[name]


@job("computes")
async def computes(seconds: float, context: JobContext) -> None:
    """Keeps the loop from turning, but not for nothing."""
    note(context, "started")
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass
    note(context, "ended")


@job("leaks")
async def leaks(mib: int, context: JobContext) -> None:
    _leaked.append(bytearray(b"x") * mib * MIB)
    await asyncio.sleep(0)
    note(context, "leaked")


@job("stubborn")
async def stubborn(context: JobContext) -> None:
    """Takes no notice of being cancelled."""
    note(context, "started")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            note(context, "cancelled")

"""Jobs that are hard on the process that runs them; beside those of tests.support.handlers."""

import asyncio
import time

from tests.support.handlers import note
from worker import JobContext, job

MIB = 1024 * 1024
# What `leaks` never gives back.
_leaked: list[bytearray] = []


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

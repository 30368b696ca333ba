"""The two jobs of the benchmark, for our own worker: WORKER_HANDLERS=loadtest.bench_handlers."""

import asyncio

from worker import job


@job("bench_noop")
async def noop(n: int) -> None:
    """Do nothing, so that only the consumer itself is measured."""


@job("bench_sleep")
async def sleep(n: int, ms: int) -> None:  # noqa: ARG001 - as above
    """Wait like a job that waits for the network."""
    await asyncio.sleep(ms / 1000)

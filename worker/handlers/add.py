"""`add`: the smallest useful job, for first steps, demos and smoke tests."""

from manyhands.worker.jobs.registry import job


@job("add")
async def add(a: int, b: int) -> int:
    return a + b

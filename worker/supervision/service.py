"""The worker service: the supervisor, its HTTP pages and what it tells CloudWatch."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from manyhands.shared.settings import Settings
from manyhands.shared.settings.environment import environment
from manyhands.worker.supervision.cloudwatch import write_stage_lines
from manyhands.worker.supervision.cloudwatch_put import CloudWatch, Putting
from manyhands.worker.supervision.http import serve_http
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.supervisor import Supervisor


async def run_service(settings: Settings) -> int:
    """Run until stopped; returns the exit code. Raises ConfigError when something cannot start."""
    metrics = ServiceMetrics()
    supervisor = Supervisor(settings, metrics)
    beside: list[Coroutine[Any, Any, None]] = []
    if settings.worker.cloudwatch_put:
        put = Putting(supervisor.status, CloudWatch(environment()).put)
        metrics.tells_also(put.families)
        beside.append(put.run())
    if settings.worker.cloudwatch:
        beside.append(write_stage_lines(supervisor.status, metrics, sys.stdout))
    async with (
        _running(beside),
        serve_http(settings.worker.http_bind, supervisor.status, metrics),
    ):
        return await supervisor.run()


@contextlib.asynccontextmanager
async def _running(work: list[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """While the context is open."""
    tasks = [asyncio.create_task(one, name="cloudwatch") for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

"""The worker service: the supervisor, its HTTP pages and its CloudWatch lines."""

import asyncio
import contextlib
import sys

from manyhands.shared.settings import Settings
from manyhands.worker.supervision.cloudwatch import write_stage_lines
from manyhands.worker.supervision.http import serve_http
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.supervisor import Supervisor


async def run_service(settings: Settings) -> int:
    """Run until stopped; returns the exit code. Raises ConfigError when something cannot start."""
    metrics = ServiceMetrics()
    supervisor = Supervisor(settings, metrics)
    async with serve_http(settings.worker.http_bind, supervisor.status, metrics):
        if not settings.worker.cloudwatch:
            return await supervisor.run()
        lines = write_stage_lines(supervisor.status, metrics, sys.stdout)
        writing = asyncio.create_task(lines, name="cloudwatch")
        try:
            return await supervisor.run()
        finally:
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing

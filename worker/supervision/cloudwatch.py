"""Writes a line per stage every five seconds, from which CloudWatch makes metrics."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TextIO

from manyhands.shared.logs import get_logger
from manyhands.worker.service.link import FIGURES_S
from manyhands.worker.supervision.emf import StageLine, emf_line
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.stage_summary import summarize_stages
from manyhands.worker.supervision.status import ServiceStatus


async def write_stage_lines(
    read_status: Callable[[], ServiceStatus], metrics: ServiceMetrics, output: TextIO
) -> None:
    """Until cancelled, or until nobody reads the output, which must not end the service."""
    while True:
        await asyncio.sleep(FIGURES_S)
        lines = stage_lines(read_status(), metrics)
        now = time.time()
        try:
            output.write("".join(f"{emf_line(line, now)}\n" for line in lines))
            output.flush()
        except OSError as error:
            get_logger("cloudwatch").error("no more lines for CloudWatch", reason=str(error))
            return


def stage_lines(status: ServiceStatus, metrics: ServiceMetrics) -> Iterable[StageLine]:
    rates = metrics.jobs_per_second()
    for stage in summarize_stages(status):
        yield StageLine(
            stage=stage.name,
            process_type=stage.process_type,
            queue_depth=stage.queue_depth,
            active_workers=stage.active,
            jobs_per_second=rates.get((stage.process_type, stage.name), 0.0),
        )

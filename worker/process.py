"""One worker process: builds the parts, runs them, and stops them in order.

Stop order: ask for no more jobs → let handlers finish → put back what is left → wait until every
result is answered → close the lanes → end the heartbeat → close what handlers and sinks had open.
"""

import asyncio
import importlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from shared.errors import ConfigError, ManyhandsError
from shared.faktory.dialer import Dialer
from shared.faktory.handshake import parse_url
from shared.logs import get_logger
from shared.settings import CrawlSettings, FaktorySettings, SinkSettings, WorkerSettings
from worker.consumer import CANCEL_GRACE_S, Consumer
from worker.execution import Execution, Middleware
from worker.faktory_source import FaktorySource
from worker.heartbeat import Heartbeat, HeartbeatEvents
from worker.observers import JobFigures, JobLog
from worker.queues import QueueOrder
from worker.registry import REGISTRY
from worker.resources import RESOURCES
from worker.sinks.ndjson import NdjsonSink

MOST_THREADS = 32
THREAD_NAME = "handler"
REPORT_EVERY_S = 10.0
# Kept of the shutdown time-out for putting back and for the last answers.
REPORTING_TIME_S = 4.0


class WorkerProcess:
    """The composition root. State: the parts, and how far the stop has come."""

    def __init__(
        self,
        faktory: FaktorySettings,
        settings: WorkerSettings,
        crawl: CrawlSettings,
        sinks: SinkSettings,
    ) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("worker")
        self.figures = JobFigures()
        self._dialer = Dialer(parse_url(faktory.url), faktory.ca_file)
        self.source = FaktorySource(
            self._dialer,
            QueueOrder.parse(settings.queues, crawl.shards),
            slots=settings.concurrency,
            idle_fetches=settings.idle_fetches,
            connections=faktory.connections,
        )
        self._threads = ThreadPoolExecutor(
            min(settings.concurrency, MOST_THREADS), thread_name_prefix=THREAD_NAME
        )
        middleware: list[Middleware] = [self.figures]
        if settings.log_level.lower() == "debug":
            middleware.append(JobLog())
        self._sink = NdjsonSink.open(sinks.ndjson) if sinks.ndjson is not None else None
        execution = Execution(self.source, REGISTRY, middleware, self._threads, self._sink)
        self.consumer = Consumer(self.source, execution)
        self._heartbeat = Heartbeat(self._dialer, self.source.worker_ids, self._heartbeat_events())
        self._stop_asked = asyncio.Event()
        self._quiet_task: asyncio.Task[None] | None = None

    async def run(self) -> bool:
        """Work until told to stop; True when nothing was left behind."""
        self._listen_to_signals()
        self._announce()
        self._heartbeat.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                side_tasks = [
                    tasks.create_task(self.source.run(self.consumer.deliver), name="source"),
                    tasks.create_task(self.consumer.watch_deadlines(), name="deadlines"),
                    tasks.create_task(self._report(), name="report"),
                ]
                await self._stop_asked.wait()
                is_clean = await self._stop()
                self.source.close()
                for task in side_tasks[1:]:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise first_cause(group) from group
        finally:
            self._heartbeat.stop()
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._close_resources()
        self._log.info("stopped", is_clean=is_clean, **self.figures.by_outcome())
        return is_clean

    def quiet(self) -> None:
        """Take no more jobs, finish those in hand, stay registered."""
        self._heartbeat.state = "quiet"
        if self._quiet_task is None:
            self._log.info("quiet: taking no more jobs")
            self._quiet_task = asyncio.create_task(self.source.quiet(), name="quiet")

    def terminate(self) -> None:
        if self._stop_asked.is_set():
            self._log.warning("asked to stop again: putting back what still runs")
            self.consumer.stop_now()
            return
        self._log.info("stopping", jobs_in_hand=len(self.consumer.in_hand))
        self._heartbeat.state = "quiet"
        self._stop_asked.set()

    async def _stop(self) -> bool:
        finish_by = self._loop.time() + self._settings.shutdown_timeout
        handlers_by = max(self._loop.time(), finish_by - REPORTING_TIME_S - CANCEL_GRACE_S)
        try:
            async with asyncio.timeout_at(finish_by):
                await self.consumer.stop(self.source.quiet, handlers_by)
                await self.source.flushed()
                return True
        except TimeoutError:
            left = len(self.consumer.in_hand)
            self._log.error(
                "out of time: what was not reported comes back when its reservation ends",
                jobs_in_hand=left,
                unanswered_results=self.source.results.unanswered,
            )
            return False

    async def _close_resources(self) -> None:
        await RESOURCES.close()
        if self._sink is not None:
            await self._sink.close()

    def _listen_to_signals(self) -> None:
        self._loop.add_signal_handler(signal.SIGTERM, self.terminate)
        self._loop.add_signal_handler(signal.SIGINT, self.terminate)
        self._loop.add_signal_handler(signal.SIGTSTP, self.quiet)

    def _heartbeat_events(self) -> HeartbeatEvents:
        def in_loop(function, *arguments) -> None:  # type: ignore[no-untyped-def]
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function, *arguments)

        return HeartbeatEvents(
            state_wanted=lambda state: in_loop(self._obey, state),
            worker_unknown=lambda wid: in_loop(self.source.worker_unknown, wid),
            beat_took=lambda took_s: in_loop(self.source.beat_took, took_s),
        )

    def _obey(self, state: str) -> None:
        """Any of this process's ids may be told; it counts for the process."""
        if state == "terminate" and not self._stop_asked.is_set():
            self._log.info("the server's web page asks this worker to stop")
            self.terminate()
        elif state == "quiet" and self._heartbeat.state is None:
            self._log.info("the server's web page asks this worker to be quiet")
            self.quiet()

    def _announce(self) -> None:
        self._log.info(
            f"Concurrency: {self._settings.concurrency} jobs per worker",
            server=str(self._dialer.address),
            queues=self._settings.queues,
            jobtypes=sorted(REGISTRY.handlers),
            **({"records": str(self._sink.path)} if self._sink is not None else {}),
        )

    async def _report(self) -> None:
        """A line every ten seconds in which something happened."""
        before: dict[str, int] = {}
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            now = self.figures.by_outcome()
            if now != before:
                ended = sum(now.values()) - sum(before.values())
                self._log.info(
                    f"{ended / REPORT_EVERY_S:.0f} jobs/s",
                    in_hand=len(self.consumer.in_hand),
                    window=self.source.window.outstanding,
                    unanswered=self.source.results.unanswered,
                    **now,
                )
            before = now


def load_handlers(modules: str) -> None:
    """Import what WORKER_HANDLERS names, so that its `@job`s register."""
    # `python -m` puts the current directory first; a console script would not.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    for name in filter(None, (name.strip() for name in modules.split(","))):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(f"WORKER_HANDLERS: cannot import {name}: {error}") from error
    if not REGISTRY.handlers:
        raise ConfigError(f"WORKER_HANDLERS={modules} registers no job type")


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What to tell the user: our own error if there is one, else whatever came first."""
    ours, _ = group.split(ManyhandsError)
    chosen: BaseException = ours if ours is not None else group
    while isinstance(chosen, BaseExceptionGroup):
        chosen = chosen.exceptions[0]
    return chosen

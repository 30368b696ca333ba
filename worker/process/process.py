"""One worker process, a child of the supervisor: builds the parts, runs them, stops them in order.

Stop order: ask for no more jobs → let handlers finish → put back what is left → wait until every
result is answered → close the lanes → end the heartbeat → close what handlers and sinks had open.
"""

import asyncio
import errno
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.consumer import CANCEL_GRACE_S, Consumer
from manyhands.worker.jobs.execution import Execution, Middleware
from manyhands.worker.jobs.observers import FailureLog, JobFigures, JobLog
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.process.child_link import ChildLink
from manyhands.worker.process.figures import ProcessFigures
from manyhands.worker.process.fork_safety import AT_ONCE
from manyhands.worker.process.handler_modules import set_up_handlers
from manyhands.worker.process.intake import IntakeEvents
from manyhands.worker.process.intakes import make_intake
from manyhands.worker.process.loop_lag import LoopLag
from manyhands.worker.process.task_dump import describe_tasks
from manyhands.worker.service.held_jobs import HeldJobs
from manyhands.worker.service.link import FIGURES_S, TURN_S, Family, Pulse
from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.sinks.kinds import make_sinks
from manyhands.worker.sinks.sinks import Sinks

MOST_THREADS = 32
THREAD_NAME = "handler"
# Kept of the shutdown time-out for putting back and for the last answers.
REPORTING_TIME_S = 4.0
STDERR = 2


class WorkerProcess:
    """The composition root. State: the parts, and how far the stop has come."""

    def __init__(
        self,
        settings: Settings,
        group: ProcessGroup,
        connections: int,
        parent: Connection,
        held: HeldJobs,
        process_id: str,
    ) -> None:
        self._settings = settings.worker
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("worker")
        self._setup = set_up_handlers(settings)
        self._jobs = JobFigures()
        self._intake = make_intake(
            settings,
            group,
            self._setup,
            connections,
            IntakeEvents(self._tell_turn_soon, self._obey),
            process_id=process_id,
        )
        self.source = self._intake.source
        self._threads = ThreadPoolExecutor(
            min(group.slots, MOST_THREADS), thread_name_prefix=THREAD_NAME
        )
        middleware: list[Middleware] = [self._jobs, FailureLog()]
        if settings.worker.log_level.lower() == "debug":
            middleware.append(JobLog())
        self._sinks = Sinks(make_sinks(settings.sinks.urls, self._intake.kinds), settings.sinks)
        execution = Execution(self.source, REGISTRY, middleware, self._threads, self._sinks, held)
        self.consumer = Consumer(self.source, execution, slots=group.slots, held=held)
        self._intake.make_services(self._sinks)
        self._lag = LoopLag()
        self._figures = ProcessFigures(
            self._jobs, group.slots, self.consumer, self._lag, self._more_figures
        )
        self._link = ChildLink(
            parent,
            self._intake.told,
            self._parent_gone,
            exit_within_s=settings.worker.shutdown_timeout,
        )
        self._is_turn_due = False
        self.is_stopped_by_server = False
        self._stop_asked = asyncio.Event()
        self._quiet_task: asyncio.Task[None] | None = None

    async def run(self) -> bool:
        """Work until stopped; True when nothing was left behind."""
        self._listen_to_signals()
        self._announce()
        self._link.start()
        self._lag.start()
        self._intake.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                side_tasks = [
                    tasks.create_task(self.source.run(self.consumer.deliver), name="source"),
                    tasks.create_task(self.consumer.watch_deadlines(), name="deadlines"),
                    tasks.create_task(self._sinks.run(), name="sinks"),
                    tasks.create_task(self._tell_ready(), name="ready"),
                    tasks.create_task(self._tell_turns(), name="turns"),
                    tasks.create_task(self._tell_figures(), name="figures"),
                ]
                side_tasks += [
                    tasks.create_task(work, name=name) for name, work in self._intake.services()
                ]
                await self._stop_asked.wait()
                is_clean = await self._stop()
                self.source.close()
                for task in side_tasks[1:]:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise first_cause(group) from group
        finally:
            self._intake.stop()
            self._lag.stop()
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._close_resources()
            self._link.tell(self._figures.snapshot())
            self._link.close()
        self._log.info("stopped", is_clean=is_clean, **self._jobs.by_outcome())
        return is_clean

    def quiet(self) -> None:
        """Take no more jobs, finish those in hand, stay registered."""
        self._intake.drain()
        if self._quiet_task is None:
            self._log.info("quiet: taking no more jobs")
            self._quiet_task = asyncio.create_task(self.source.quiet(), name="quiet")

    def terminate(self) -> None:
        """Finish or put back every job, and end. A second call changes nothing."""
        if not self._stop_asked.is_set():
            self._log.info("stopping", jobs_in_hand=len(self.consumer.in_hand))
            self._intake.drain()
            self._sinks.hurry()
            self._stop_asked.set()

    def terminate_at_once(self) -> None:
        """The same, and wait for no handler any longer."""
        self.terminate()
        self._log.warning("putting back what still runs")
        self.consumer.stop_now()

    async def _stop(self) -> bool:
        finish_by = self._loop.time() + self._settings.shutdown_timeout
        handlers_by = max(self._loop.time(), finish_by - REPORTING_TIME_S - CANCEL_GRACE_S)
        try:
            async with asyncio.timeout_at(finish_by):
                await self._intake.stop_feeding()
                await self.consumer.stop(self.source.quiet, handlers_by)
                await self._intake.close()
                await self.source.flushed()
                return True
        except TimeoutError:
            left = len(self.consumer.in_hand)
            self._log.error(
                "out of time: what was not reported comes back when its reservation ends",
                jobs_in_hand=left,
                unanswered_results=self._intake.pulse().unanswered,
            )
            return False

    async def _close_resources(self) -> None:
        await self._setup.resources.close()
        await self._sinks.close()

    def _listen_to_signals(self) -> None:
        self._loop.add_signal_handler(signal.SIGTERM, self.terminate)
        self._loop.add_signal_handler(AT_ONCE, self.terminate_at_once)
        self._loop.add_signal_handler(signal.SIGTSTP, self.quiet)
        self._loop.add_signal_handler(signal.SIGUSR1, self._dump_tasks)
        # A terminal sends these to the whole group; the parent decides what to do about them.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _obey(self, state: str) -> None:
        """The server may ask any of this process's ids; it applies to the process."""
        if state == "terminate" and not self._stop_asked.is_set():
            self._log.info("stopped through the server's web page")
            self.is_stopped_by_server = True
            self.terminate()
        elif state == "quiet" and not self._intake.is_draining:
            self._log.info("quieted through the server's web page")
            self.quiet()

    def _announce(self) -> None:
        self._log.info(
            "taking jobs",
            jobtypes=sorted(REGISTRY.handlers),
            **self._intake.announced(),
            **({"sinks": self._sinks.names} if self._sinks.names else {}),
        )

    def _more_figures(self) -> list[Family]:
        return [*self._intake.families(), *self._sinks.families()]

    def _parent_gone(self) -> None:
        self._log.error("the supervisor is gone: putting back what runs")
        self.terminate_at_once()

    def _dump_tasks(self) -> None:
        for line in describe_tasks(asyncio.all_tasks(self._loop)):
            self._log.info(f"tasks: {line}")

    # Reports to the supervisor

    async def _tell_ready(self) -> None:
        self._link.tell(await self._intake.ready())

    async def _tell_turns(self) -> None:
        while True:
            self._link.tell(self._turn())
            await asyncio.sleep(TURN_S)

    def _tell_turn_soon(self) -> None:
        """The worker ids have changed; lanes come up by the dozen, so report them together."""
        if not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._tell_turn)

    def _tell_turn(self) -> None:
        self._is_turn_due = False
        self._link.tell(self._turn())

    def _turn(self) -> Pulse:
        taken = self._intake.pulse()
        return Pulse(
            wids=taken.wids,
            is_connected=taken.is_connected,
            is_draining=self._intake.is_draining,
            in_hand=len(self.consumer.in_hand),
            unanswered=taken.unanswered,
            fetch_silence_s=taken.fetch_silence_s,
            loop_lag_s=self._lag.take_worst_s(),
            stages=taken.stages,
            pushed=taken.pushed,
            is_out_of_files=is_out_of_files(),
            waits_for=taken.waits_for,
            slow_sink=self._sinks.slow_one(),
        )

    async def _tell_figures(self) -> None:
        while True:
            await asyncio.sleep(FIGURES_S)
            self._link.tell(self._figures.snapshot())


def is_out_of_files() -> bool:
    """Whether the system refuses this process another open file, or connection."""
    try:
        os.close(os.dup(STDERR))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show: one of ours if there is one, else the first."""
    ours, _ = group.split(ManyhandsError)
    chosen: BaseException = ours if ours is not None else group
    while isinstance(chosen, BaseExceptionGroup):
        chosen = chosen.exceptions[0]
    return chosen

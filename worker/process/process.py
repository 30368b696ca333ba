"""One worker process, a child of the supervisor: builds the parts, runs them, stops them in order.

Stop order: ask for no more jobs → let handlers finish → put back what is left → wait until every
result is answered → close the lanes → end the heartbeat → close what handlers and sinks had open.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.opening import shards_of, tag_of
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import Settings
from manyhands.shared.urls import shard_queues
from manyhands.worker.jobs.consumer import CANCEL_GRACE_S, Consumer
from manyhands.worker.jobs.execution import Execution, Middleware
from manyhands.worker.jobs.observers import FailureLog, JobFigures, JobLog
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.jobs.stage_services import StageNeeds, StageService
from manyhands.worker.process.child_link import ChildLink
from manyhands.worker.process.figures import ProcessFigures
from manyhands.worker.process.fork_safety import AT_ONCE
from manyhands.worker.process.handler_modules import set_up_handlers
from manyhands.worker.process.loop_lag import LoopLag
from manyhands.worker.process.task_dump import describe_tasks
from manyhands.worker.service.held_jobs import HeldJobs
from manyhands.worker.service.link import (
    FIGURES_S,
    TURN_S,
    Backlog,
    Family,
    Pulse,
    Ready,
    StagePulse,
    StageReport,
)
from manyhands.worker.service.stages import (
    FETCHING_STAGES,
    ProcessGroup,
    Stage,
    resolve_stages,
    with_owner,
    without_a_store,
)
from manyhands.worker.sinks.kinds import CAPTURED, EMITTED, make_sinks
from manyhands.worker.sinks.sinks import Sinks
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.heartbeat import Heartbeat, HeartbeatEvents
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.stage_lanes import StageLanes

MOST_THREADS = 32
THREAD_NAME = "handler"
# Kept of the shutdown time-out for putting back and for the last answers.
REPORTING_TIME_S = 4.0
READY_LOOK_S = 0.05
# Where crawls are kept if nobody says where, in the working directory.
OWN_STATE = "crawls"
STATE_LOOK_S = 1.0
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
    ) -> None:
        self._settings = settings.worker
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("worker")
        self._setup = set_up_handlers(settings)
        self._jobs = JobFigures()
        if settings.worker.queues:
            # Stages each get a part of it: what is wrong is said of the whole.
            QueueOrder.parse(settings.worker.queues, settings.crawl.shards)
        stages = resolve_stages(
            group, settings.worker.queues, REGISTRY.queues_by_type(), settings.stages
        )
        if FETCH in self._setup.stage_services:
            stages = with_owner(stages)
        resolved = {stage.name for stage in stages}
        self._wanted_shards = settings.crawl.shards
        self._state = settings.crawl.state
        if not self._state and FETCH in self._setup.stage_services and resolved & FETCHING_STAGES:
            self._state = self._own_state()
        if not self._state:
            stages = without_a_store(stages, group)
        self._left_out = sorted(resolved - {stage.name for stage in stages})
        self._dialer = Dialer(parse_url(settings.faktory.url), settings.faktory.ca_file)
        orders = {stage: QueueOrder.parse(stage.queues, settings.crawl.shards) for stage in stages}
        self._queues = {stage.name: order.names for stage, order in orders.items()}
        self.source = FaktorySource(
            self._dialer,
            orders,
            slots=group.slots,
            idle_fetches=settings.worker.idle_fetches,
            connections=connections,
            on_lanes_changed=self._tell_turn_soon,
        )
        for stage in [one for one in self.source.stages if are_fetch_queues(one.queues)]:
            # No job before the supervisor says that these queues are ours.
            stage.pace = 0.0
        self._threads = ThreadPoolExecutor(
            min(group.slots, MOST_THREADS), thread_name_prefix=THREAD_NAME
        )
        middleware: list[Middleware] = [self._jobs, FailureLog()]
        if settings.worker.log_level.lower() == "debug":
            middleware.append(JobLog())
        self._sinks = Sinks(
            make_sinks(settings.sinks.urls, _kinds_of(stages, bool(settings.worker.queues))),
            settings.sinks,
        )
        execution = Execution(self.source, REGISTRY, middleware, self._threads, self._sinks, held)
        self.consumer = Consumer(self.source, execution, slots=group.slots, held=held)
        self._heartbeat = Heartbeat(
            self._dialer, self.source.lanes.worker_ids, self._heartbeat_events()
        )
        self._services = self._make_services(settings)
        self._lag = LoopLag()
        self._figures = ProcessFigures(
            self._jobs, self.source, self.consumer, self._dialer, self._lag, self._more_figures
        )
        self._link = ChildLink(
            parent,
            self._told_backlog,
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
        self._heartbeat.start()
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
                    tasks.create_task(service.run(), name=stage.stage.name)
                    for stage, service in self._services.items()
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
            self._lag.stop()
            self._threads.shutdown(wait=False, cancel_futures=True)
            await self._close_resources()
            self._link.tell(self._figures.snapshot())
            self._link.close()
        self._log.info("stopped", is_clean=is_clean, **self._jobs.by_outcome())
        return is_clean

    def quiet(self) -> None:
        """Take no more jobs, finish those in hand, stay registered."""
        self._heartbeat.state = "quiet"
        if self._quiet_task is None:
            self._log.info("quiet: taking no more jobs")
            self._quiet_task = asyncio.create_task(self.source.quiet(), name="quiet")

    def terminate(self) -> None:
        """Finish or put back every job, and end. A second call changes nothing."""
        if not self._stop_asked.is_set():
            self._log.info("stopping", jobs_in_hand=len(self.consumer.in_hand))
            self._heartbeat.state = "quiet"
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
                for service in self._services.values():
                    await service.stop_feeding()
                await self.consumer.stop(self.source.quiet, handlers_by)
                for service in self._services.values():
                    await service.close()
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

    def _heartbeat_events(self) -> HeartbeatEvents:
        def in_loop(function, *arguments) -> None:  # type: ignore[no-untyped-def]
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function, *arguments)

        return HeartbeatEvents(
            state_wanted=lambda state: in_loop(self._obey, state),
            worker_unknown=lambda wid: in_loop(self.source.lanes.worker_unknown, wid),
            beat_took=lambda took_s: in_loop(self.source.lanes.beat_took, took_s),
        )

    def _obey(self, state: str) -> None:
        """The server may ask any of this process's ids; it applies to the process."""
        if state == "terminate" and not self._stop_asked.is_set():
            self._log.info("stopped through the server's web page")
            self.is_stopped_by_server = True
            self.terminate()
        elif state == "quiet" and self._heartbeat.state is None:
            self._log.info("quieted through the server's web page")
            self.quiet()

    def _announce(self) -> None:
        self._log.info(
            "taking jobs",
            stages={stage.stage.name: stage.stage.queues for stage in self.source.stages},
            jobtypes=sorted(REGISTRY.handlers),
            **({"sinks": self._sinks.names} if self._sinks.names else {}),
        )

    def _told_backlog(self, backlog: Backlog) -> None:
        self.source.told_backlog(backlog.queues, backlog.paces)
        for stage, service in self._services.items():
            service.set_pace(stage.pace)
            service.found_fetch_queues(backlog.fetch_queues)
            service.told_slow_sink(backlog.slow_sink)

    def _more_figures(self) -> list[Family]:
        told = [made for service in self._services.values() for made in service.families()]
        return [*told, *self._sinks.families()]

    def _make_services(self, settings: Settings) -> dict[StageLanes, StageService]:
        """One for all stages of an owner of shards, under its stage `crawl`."""
        wanted = self._setup.stage_services
        lanes = {one.stage.name: one for one in self.source.stages if one.stage.name in wanted}
        for stage in lanes.values():
            # No job before the service says from where.
            stage.set_queues([])
        of_fetch_jobs = lanes.pop(FETCH, None)
        return {
            stage: wanted[name](
                StageNeeds(
                    settings=settings,
                    state=self._state,
                    slots=stage.window.slots,
                    push=self.source.push,
                    sinks=self._sinks,
                    set_queues=stage.set_queues,
                    set_fetch_queues=None if of_fetch_jobs is None else of_fetch_jobs.set_queues,
                )
            )
            for name, stage in lanes.items()
        }

    def _own_state(self) -> tuple[str, ...]:
        """Enough for the workers of one machine, started in one directory."""
        place = str(Path.cwd() / OWN_STATE)
        self._log.info(
            "crawls and fetch jobs are kept beside this worker: set CRAWL_STATE for another place",
            state=place,
        )
        return (place,)

    def _parent_gone(self) -> None:
        self._log.error("the supervisor is gone: putting back what runs")
        self.terminate_at_once()

    def _dump_tasks(self) -> None:
        for line in describe_tasks(asyncio.all_tasks(self._loop)):
            self._log.info(f"tasks: {line}")

    # Reports to the supervisor

    async def _tell_ready(self) -> None:
        store = ""
        if self._state and self._takes_fetch_jobs:
            store, shards = await self._look_at_store()
            if FETCH in self._setup.stage_services:
                self._queues[FETCH] = shard_queues(shards)
        while not self.source.lanes.is_connected:  # noqa: ASYNC110 - any lane of many may be the first
            await asyncio.sleep(READY_LOOK_S)
        self._link.tell(
            Ready(
                store=store,
                left_out=self._left_out,
                stages=[
                    StageReport(
                        stage.stage.name,
                        self._queues[stage.stage.name],
                        stage.stage.weight,
                        stage.window.slots,
                        stage.stage.feeds,
                    )
                    for stage in self.source.stages
                ],
            )
        )

    async def _look_at_store(self) -> tuple[str, int]:
        """Its tag, and how many shards it has. Waits while it is away: until then nobody knows
        whose fetch.NN are."""

        def look() -> tuple[str, int]:
            return tag_of(self._state), shards_of(self._state, self._wanted_shards)

        has_said = False
        while True:
            try:
                return await asyncio.to_thread(look)
            except StateAway as error:
                if not has_said:
                    has_said = True
                    self._log.warning("waiting for the crawls' state", reason=str(error))
            await asyncio.sleep(STATE_LOOK_S)

    @property
    def _takes_fetch_jobs(self) -> bool:
        return any(are_fetch_queues(names) for names in self._queues.values())

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
        return Pulse(
            wids=self.source.lanes.worker_ids(),
            is_connected=self.source.lanes.is_connected,
            is_draining=self._heartbeat.state is not None,
            in_hand=len(self.consumer.in_hand),
            unanswered=self.source.results.unanswered,
            fetch_silence_s=self.source.lanes.fetch_silence_s(self._loop.time()),
            loop_lag_s=self._lag.take_worst_s(),
            stages=[
                StagePulse(
                    stage.stage.name,
                    stage.window.running,
                    stage.window.outstanding,
                    stage.window.size,
                )
                for stage in self.source.stages
            ],
            pushed=self.source.pushed,
            is_out_of_files=is_out_of_files(),
            waits_for="; ".join(
                filter(None, (service.waits_for() for service in self._services.values()))
            ),
            slow_sink=self._sinks.slow_one(),
        )

    async def _tell_figures(self) -> None:
        while True:
            await asyncio.sleep(FIGURES_S)
            self._link.tell(self._figures.snapshot())


def _kinds_of(stages: Sequence[Stage], are_queues_named: bool) -> frozenset[type]:
    """The kinds of records that these stages can make: other sinks are not opened. Jobs of any type
    may be in queues that somebody names."""
    if are_queues_named:
        return EMITTED | CAPTURED
    names = {stage.name for stage in stages}
    if names <= FETCHING_STAGES:
        return CAPTURED
    return EMITTED | CAPTURED if names & FETCHING_STAGES else EMITTED


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

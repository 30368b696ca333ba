"""The parent of all worker processes: handles signals; starts, watches, rolls and stops children.

child_slot.py decides what becomes of one child; this is the service as a whole. It runs no job and
imports no handler, so that no user code can bring it down.
"""

import asyncio
import signal
import time
from collections.abc import Coroutine
from dataclasses import replace

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.errors import ConfigError
from manyhands.shared.kafka import kafka_place
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import Settings
from manyhands.worker.process.fork_safety import SIGNALS
from manyhands.worker.service import exits
from manyhands.worker.service.stages import Naming, naming_of_fetch_jobs
from manyhands.worker.supervision.backlog import (
    backlog_of,
    mean_bytes_by_queue,
    slowest_sink,
    watched_queues,
)
from manyhands.worker.supervision.child_handle import ChildHandle
from manyhands.worker.supervision.child_slot import ChildSlot, Service
from manyhands.worker.supervision.claims import FetchQueues
from manyhands.worker.supervision.limits import (
    cgroup_memory_bytes,
    descriptors_needed,
    memory_limit_of_child,
    raise_descriptor_limit,
)
from manyhands.worker.supervision.plan import connections_of_child, service_groups
from manyhands.worker.supervision.pressure import Limits, Pressure, PressureEvent, State
from manyhands.worker.supervision.server_view import ServerView
from manyhands.worker.supervision.status import FiguresKeeper, RollState, RollStatus, ServiceStatus

LOOK_S = 1.0
# The server is asked for sizes with each look, for ages less often.
LAGS_EVERY_LOOKS = 5
# From the end of the shutdown time-out, within which children end by themselves.
STOP_GRACE_S = 3.0


class Supervisor:
    """State: the slots, the connection to the server, and how far a stop or a roll has come."""

    def __init__(self, settings: Settings, figures: FiguresKeeper) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._groups = service_groups(settings.worker)
        children = sum(group.processes for group in self._groups)
        self._server = ServerView(settings.faktory)
        self._pressure = Pressure(
            Limits(
                soft_jobs=settings.pressure.soft_jobs,
                hard_jobs=settings.pressure.hard_jobs,
                soft_bytes=settings.pressure.soft_bytes,
                hard_bytes=settings.pressure.hard_bytes,
            )
        )
        self._tasks = asyncio.TaskGroup()
        self._service = Service(
            settings=settings,
            connections=connections_of_child(settings.faktory.connections, children),
            memory_limit_bytes=memory_limit_of_child(
                settings.worker.memory_limit_mb, cgroup_memory_bytes(), children
            ),
            server=self._server,
            figures=figures,
            start=self._start_task,
            on_ready=self._connect,
            on_given_up=self._place_given_up,
        )
        self._places = [
            ChildSlot(group, number, self._service)
            for group in self._groups
            for number in range(group.processes)
        ]
        names_none = not (settings.worker.stages or settings.worker.queues)
        naming = naming_of_fetch_jobs(self._groups, settings.worker.queues, settings.stages)
        self._fetch_queues = FetchQueues(
            self._server, self._tell, is_named=naming is Naming.IN_PARTICULAR
        )
        # Who has crawls alone takes fetch jobs, too, but need not care for them.
        self._lacks_contact = not settings.fetch.contact and (bool(naming) or names_none)
        self._child_is_ready = asyncio.Event()
        self._connection: asyncio.Task[None] | None = None
        # The tasks that fill slots and roll them; ended by a stop.
        self._keepers: list[asyncio.Task[None]] = []
        self._paces: dict[str, float] = {}
        self._looked_at: float | None = None
        self._roll = RollStatus()
        self._rolls = 0
        self._roll_wanted = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self._has_failed = False
        self._started_at = time.time()
        self._started = self._loop.time()
        self._store = store_at(settings.crawl.state) if settings.crawl.state else None
        self._log = get_logger("supervisor")

    async def run(self) -> int:
        """Supervise until stopped, or until nothing is left to supervise; returns the exit code.
        Raises ConfigError when another store has the queues that it was to take jobs from."""
        self._listen_to_signals()
        self._announce()
        try:
            async with self._tasks as tasks:
                self._keepers = [
                    tasks.create_task(place.keep_filled(), name=place.process_id)
                    for place in self._places
                ]
                self._keepers.append(tasks.create_task(self._roll_when_asked(), name="roll"))
                lookers = [
                    tasks.create_task(self._look(), name="look"),
                    tasks.create_task(self._look_at_queues(), name="queues"),
                ]
                await self._stop_asked.wait()
                is_clean = await self._stop()
                for task in lookers:
                    task.cancel()
        finally:
            # After a stop there are none. Without one, they also see that their link is closed.
            for child in self._children():
                child.drain()
        self._log.info("stopped", is_clean=is_clean)
        if self._fetch_queues.refusal:
            raise ConfigError(self._fetch_queues.refusal)
        return exits.CLEAN if is_clean and not self._has_failed else exits.UNCLEAN

    def status(self) -> ServiceStatus:
        now = self._loop.time()
        return ServiceStatus(
            started_at=self._started_at,
            uptime_s=now - self._started,
            is_quiet=self._service.is_quiet,
            is_stopping=self._service.is_stopping,
            children=[status for place in self._places for status in place.status(now)],
            roll=replace(self._roll, is_another_wanted=self._roll_wanted.is_set()),
            queues=dict(self._server.sizes),
            queue_lag_s=dict(self._server.lags_s),
            queues_age_s=None if self._looked_at is None else now - self._looked_at,
            paces=dict(self._paces),
            memory_limit_bytes=self._service.memory_limit_bytes,
            events=list(self._service.events.events),
            damaged_shards=self._store.damaged_shards() if self._store is not None else (),
            rolls=self._rolls,
            pressure_events=self._pressure.entered,
        )

    # Signals

    def _listen_to_signals(self) -> None:
        actions = {
            signal.SIGTERM: self._terminate,
            signal.SIGINT: self._terminate,
            signal.SIGHUP: self._want_roll,
            signal.SIGTSTP: self._quiet,
            signal.SIGUSR1: self._dump_tasks,
        }
        for number in SIGNALS:
            self._loop.add_signal_handler(number, actions[number])

    def _terminate(self) -> None:
        if not self._stop_asked.is_set():
            self._stop_asked.set()
            return
        self._tell("asked to stop again: the children put back what they still run", "warning")
        for child in self._children():
            child.hurry()

    def _quiet(self) -> None:
        if self._service.takes_no_more:
            return
        self._service.is_quiet = True
        self._tell("quiet: no more jobs are taken, and no child is started any more")
        self._end_keepers()
        for child in self._children():
            child.quiet()

    def _want_roll(self) -> None:
        if self._service.takes_no_more:
            self._tell("not replacing the children: quiet or stopping")
        else:
            self._roll_wanted.set()

    def _dump_tasks(self) -> None:
        for child in self._children():
            child.signal(signal.SIGUSR1)

    # Stopping

    def _place_given_up(self, place: ChildSlot) -> None:
        """It failed for a reason that would stop the others as well; or all were stopped."""
        if place.given_up == exits.POINTLESS:
            self._has_failed = True
            self._stop_asked.set()
        elif all(other.given_up is not None for other in self._places):
            self._stop_asked.set()

    async def _stop(self) -> bool:
        """End all children at the same time; True when none of them left anything behind."""
        self._service.is_stopping = True
        self._end_keepers()
        children = self._children()
        self._tell("stopping", children=len(children))
        for child in children:
            child.drain()
        ends = [asyncio.create_task(child.has_ended.wait()) for child in children]
        if ends:
            await asyncio.wait(ends, timeout=self._settings.worker.shutdown_timeout + STOP_GRACE_S)
        late = [child for child in children if not child.has_ended.is_set()]
        for child in late:
            self._tell(f"{child.spec.process_id} did not end in time: killing it", "error")
            child.kill()
        await asyncio.gather(*ends)
        await self._server.quiet([wid for child in late for wid in child.wids])
        self._server.put_back_soon([job for child in children for job in child.take_left_behind()])
        await self._server.all_put_back()
        self._server.close()
        if self._connection is not None:
            self._connection.cancel()
        return all(child.end_is_clean for child in children)

    def _end_keepers(self) -> None:
        """No child is started any more."""
        for keeper in self._keepers:
            keeper.cancel()
        if self._roll.state is RollState.ROLLING:
            self._roll = replace(self._roll, state=RollState.FAILED)

    # Rolling

    async def _roll_when_asked(self) -> None:
        while True:
            await self._roll_wanted.wait()
            self._roll_wanted.clear()
            await self._roll_all()

    async def _roll_all(self) -> None:
        """One after the other: at most one extra child runs at a time."""
        self._rolls += 1
        total = len(self._places)
        self._tell("replacing the children one by one", children=total)
        for done, place in enumerate(self._places):
            self._roll = RollStatus(RollState.ROLLING, done, total)
            if not await place.roll():
                self._roll = RollStatus(RollState.FAILED, done, total)
                self._tell(
                    f"the new {place.process_id} does not come up: the others stay as they are",
                    "error",
                )
                return
            self._tell(f"replaced {done + 1} of {total} children")
        self._roll = RollStatus(RollState.DONE, total, total)

    # Watching

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = self._loop.time()
            for place in self._places:
                place.look(now)

    async def _look_at_queues(self) -> None:
        looks = 0
        while True:
            await self._until_next_look()
            names = watched_queues(stage for child in self._children() for stage in child.stages)
            if not names or not await self._server.look_at_sizes(names):
                continue
            self._looked_at = self._loop.time()
            await self._fetch_queues.looked(names)
            if self._fetch_queues.refusal:
                self._stop_asked.set()
                return
            self._tell_children()
            if looks % LAGS_EVERY_LOOKS == 0:
                await self._server.look_at_lags()
            looks += 1

    async def _until_next_look(self) -> None:
        """At once when a child is ready: it may wait for our word."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._child_is_ready.wait()
        except TimeoutError:
            return
        self._child_is_ready.clear()
        for child in self._children():
            if child.is_ready:
                self._fetch_queues.child_is_ready(child.stages, child.store, child.left_out)
                self._look_for_contact(child)
        await self._server.wait_up(LOOK_S)

    def _look_for_contact(self, child: ChildHandle) -> None:
        if self._lacks_contact and any(are_fetch_queues(stage.queues) for stage in child.stages):
            self._lacks_contact = False
            self._tell(
                "fetch jobs tell the sites that they visit nobody to turn to: set FETCH_CONTACT to "
                "an e-mail address",
                "warning",
            )

    def _tell_children(self) -> None:
        """How long the queues are, and how fast each stage may go."""
        children = self._children()
        sizes = self._server.sizes
        turns = [child.turn for child in children if child.turn is not None]
        slow_sink = slowest_sink(turns)
        self._paces, events = self._pressure.paces(
            {stage.name: stage.feeds for child in children for stage in child.stages},
            sizes,
            mean_bytes_by_queue(turns),
        )
        for child in children:
            for stage in child.stages:
                if not self._fetch_queues.may_run(stage):
                    self._paces[stage.name] = 0.0
        for event in events:
            self._tell_pressure(event)
        for child in children:
            message = backlog_of(
                child.stages,
                sizes,
                self._paces,
                child.told_paces,
                self._server.fetch_queues,
                slow_sink,
            )
            if message is not None:
                child.tell(message)

    def _tell_pressure(self, event: PressureEvent) -> None:
        said = {
            State.FREE: f"{event.stage} is at full pace again",
            State.SLOWED: f"{event.stage} is slowed: {event.queue}, which it fills, is long",
            State.STOPPED: f"{event.stage} is stopped: {event.queue}, which it fills, is full",
        }
        self._tell(
            said[event.state],
            "info" if event.state is State.FREE else "warning",
            queue=event.queue,
            jobs=event.jobs,
            size_bytes=event.size_bytes,
            pace=round(event.pace, 3),
        )

    # Inside

    def _connect(self) -> None:
        """With the first child that is ready: before that there are no queues to ask about, and the
        child has reported by then what is wrong with the server."""
        self._child_is_ready.set()
        if self._connection is None and not self._settings.worker.source:
            self._connection = self._tasks.create_task(self._server.run(), name="server")

    def _children(self) -> list[ChildHandle]:
        return [child for place in self._places for child in place.children]

    def _start_task(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.create_task(work, name=name)

    def _announce(self) -> None:
        for group in self._groups:
            self._log.info(
                f"Concurrency: {group.slots} jobs per worker",
                child_type=group.name,
                processes=group.processes,
                connections=self._service.connections,
                server=self._where_jobs_come_from(),
                start_method=self._settings.worker.start_method,
            )
        needed = descriptors_needed(self._groups, self._service.connections)
        if warning := raise_descriptor_limit(needed):
            self._tell(warning, "warning")

    def _where_jobs_come_from(self) -> str:
        source = self._settings.worker.source
        return str(kafka_place(source, "WORKER_SOURCE") if source else self._server.address)

    def _tell(self, what: str, level: str = "info", **fields: object) -> None:
        getattr(self._log, level)(what, **fields)
        self._service.events.add(time.time(), "", what)

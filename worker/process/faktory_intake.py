"""Jobs from a Faktory server or our broker: its stages and their services, the source with its
lanes, and the heartbeat."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.opening import shards_of, tag_of
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import Settings
from manyhands.shared.urls import shard_queues
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.jobs.stage_services import StageNeeds, StageService
from manyhands.worker.process.figures import faktory_families, stage_families
from manyhands.worker.process.intake import IntakeEvents, IntakePulse
from manyhands.worker.service.link import Backlog, Family, Ready, StagePulse, StageReport
from manyhands.worker.service.stages import (
    FETCHING_STAGES,
    ProcessGroup,
    Stage,
    resolve_stages,
    with_owner,
    without_a_store,
)
from manyhands.worker.sinks.kinds import CAPTURED, EMITTED
from manyhands.worker.sinks.sinks import Sinks
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.heartbeat import Heartbeat, HeartbeatEvents
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.stage_lanes import StageLanes

READY_LOOK_S = 0.05
# Where crawls are kept if nobody says where, in the working directory.
OWN_STATE = "crawls"
STATE_LOOK_S = 1.0


class FaktoryIntake:
    """An `Intake`. State: the source, the services of its stages, and the heartbeat's state."""

    def __init__(
        self,
        settings: Settings,
        group: ProcessGroup,
        setup: ProcessSetup,
        connections: int,
        events: IntakeEvents,
    ) -> None:
        self._settings = settings
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("worker")
        if settings.worker.queues:
            # Stages each get a part of it: what is wrong is said of the whole.
            QueueOrder.parse(settings.worker.queues, settings.crawl.shards)
        stages = resolve_stages(
            group, settings.worker.queues, REGISTRY.queues_by_type(), settings.stages
        )
        if FETCH in setup.stage_services:
            stages = with_owner(stages)
        resolved = {stage.name for stage in stages}
        self._state = settings.crawl.state
        if not self._state and FETCH in setup.stage_services and resolved & FETCHING_STAGES:
            self._state = self._own_state()
        if not self._state:
            stages = without_a_store(stages, group)
        self._left_out = sorted(resolved - {stage.name for stage in stages})
        self.kinds = _kinds_of(stages, bool(settings.worker.queues))
        self._dialer = Dialer(parse_url(settings.faktory.url), settings.faktory.ca_file)
        orders = {stage: QueueOrder.parse(stage.queues, settings.crawl.shards) for stage in stages}
        self._queues = {stage.name: order.names for stage, order in orders.items()}
        self.source = FaktorySource(
            self._dialer,
            orders,
            slots=group.slots,
            idle_fetches=settings.worker.idle_fetches,
            connections=connections,
            on_lanes_changed=events.is_new,
        )
        for stage in [one for one in self.source.stages if are_fetch_queues(one.queues)]:
            # No job before the supervisor says that these queues are ours.
            stage.pace = 0.0
        self._heartbeat = Heartbeat(
            self._dialer,
            self.source.lanes.worker_ids,
            HeartbeatEvents(
                state_wanted=self._in_loop(events.state_wanted),
                worker_unknown=self._in_loop(self.source.lanes.worker_unknown),
                beat_took=self._in_loop(self.source.lanes.beat_took),
            ),
        )
        self._services: dict[StageLanes, StageService] = {}

    @property
    def is_draining(self) -> bool:
        return self._heartbeat.state is not None

    def make_services(self, sinks: Sinks) -> None:
        """One for all stages of an owner of shards, under its stage `crawl`."""
        wanted = self._setup.stage_services
        lanes = {one.stage.name: one for one in self.source.stages if one.stage.name in wanted}
        for stage in lanes.values():
            # No job before the service says from where.
            stage.set_queues([])
        of_fetch_jobs = lanes.pop(FETCH, None)
        self._services = {
            stage: wanted[name](
                StageNeeds(
                    settings=self._settings,
                    state=self._state,
                    slots=stage.window.slots,
                    push=self.source.push,
                    sinks=sinks,
                    set_queues=stage.set_queues,
                    set_fetch_queues=None if of_fetch_jobs is None else of_fetch_jobs.set_queues,
                )
            )
            for name, stage in lanes.items()
        }

    def start(self) -> None:
        self._heartbeat.start()

    def stop(self) -> None:
        self._heartbeat.stop()

    def drain(self) -> None:
        self._heartbeat.state = "quiet"

    def services(self) -> Iterable[tuple[str, Coroutine[Any, Any, None]]]:
        return [(stage.stage.name, service.run()) for stage, service in self._services.items()]

    async def stop_feeding(self) -> None:
        for service in self._services.values():
            await service.stop_feeding()

    async def close(self) -> None:
        for service in self._services.values():
            await service.close()

    def told(self, backlog: Backlog) -> None:
        self.source.told_backlog(backlog.queues, backlog.paces)
        for stage, service in self._services.items():
            service.set_pace(stage.pace)
            service.found_fetch_queues(backlog.fetch_queues)
            service.told_slow_sink(backlog.slow_sink)

    async def ready(self) -> Ready:
        store = ""
        if self._state and any(are_fetch_queues(names) for names in self._queues.values()):
            store, shards = await self._look_at_store()
            if FETCH in self._setup.stage_services:
                self._queues[FETCH] = shard_queues(shards)
        while not self.source.lanes.is_connected:  # noqa: ASYNC110 - any lane of many may be the first
            await asyncio.sleep(READY_LOOK_S)
        return Ready(
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

    def pulse(self) -> IntakePulse:
        lanes = self.source.lanes
        return IntakePulse(
            wids=lanes.worker_ids(),
            is_connected=lanes.is_connected,
            unanswered=self.source.results.unanswered,
            fetch_silence_s=lanes.fetch_silence_s(self._loop.time()),
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
            waits_for="; ".join(
                filter(None, (service.waits_for() for service in self._services.values()))
            ),
        )

    def families(self) -> Iterable[Family]:
        return [
            *stage_families(self.source.stages),
            *faktory_families(self.source, self._dialer),
            *chain.from_iterable(service.families() for service in self._services.values()),
        ]

    def announced(self) -> Mapping[str, object]:
        return {"stages": {one.stage.name: one.stage.queues for one in self.source.stages}}

    # Inside

    def _in_loop(self, function: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function, *arguments)

        return call

    def _own_state(self) -> tuple[str, ...]:
        """Enough for the workers of one machine, started in one directory."""
        place = str(Path.cwd() / OWN_STATE)
        self._log.info(
            "crawls and fetch jobs are kept beside this worker: set CRAWL_STATE for another place",
            state=place,
        )
        return (place,)

    async def _look_at_store(self) -> tuple[str, int]:
        """Its tag, and how many shards it has. Waits while it is away: until then nobody knows
        whose fetch.NN are."""

        def look() -> tuple[str, int]:
            return tag_of(self._state), shards_of(self._state, self._settings.crawl.shards)

        has_said = False
        while True:
            try:
                return await asyncio.to_thread(look)
            except StateAway as error:
                if not has_said:
                    has_said = True
                    self._log.warning("waiting for the crawls' state", reason=str(error))
            await asyncio.sleep(STATE_LOOK_S)


def _kinds_of(stages: Sequence[Stage], are_queues_named: bool) -> frozenset[type]:
    """Jobs of any type may be in queues that somebody names."""
    if are_queues_named:
        return EMITTED | CAPTURED
    names = {stage.name for stage in stages}
    if names <= FETCHING_STAGES:
        return CAPTURED
    return EMITTED | CAPTURED if names & FETCHING_STAGES else EMITTED

"""Jobs from a Faktory server (or our broker): many slots over few sockets.

Owns the lanes of one process: the stages' fetch lanes and the command lanes that all stages share.
Everything runs in the loop's thread; `_pump` is scheduled at most once per loop turn and sends all
FETCHes that the scheduler and the stages' windows allow.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import orjson

from manyhands.shared.errors import FaktoryError, ProtocolError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.client import FaktoryVerbs
from manyhands.shared.faktory.codec import Reply
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.lanes import Command, CommandLanes, FetchLane
from manyhands.shared.jobs import Job
from manyhands.shared.logs import get_logger
from manyhands.shared.sizing import GATHER_S
from manyhands.worker.jobs.delivery import Delivery, parse_delivery
from manyhands.worker.jobs.outcomes import Failed, Outcome, PutBack
from manyhands.worker.service.link import Pushed
from manyhands.worker.service.stages import Stage
from manyhands.worker.source import scheduler
from manyhands.worker.source.lane_plan import LanePlan, plan_broker_lanes, plan_lanes, split_lanes
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.results import Results, repeat
from manyhands.worker.source.stage_lanes import StageLanes

TICK_S = 0.5
# When a burst of FETCHes was cut short, the next follows after this.
PACE_S = 0.001
BEATS_REMEMBERED = 4
# Payloads in hand above this stop reading from the fetch lanes until half of it is gone.
MAX_HELD_BYTES = 256 * 1024 * 1024


class FaktorySource:
    """A `Source`, and the owner of the stages' lanes. State: the stages, the results on their way,
    and the drain if one has begun."""

    def __init__(
        self,
        dialer: Dialer,
        stages: Mapping[Stage, QueueOrder],
        *,
        slots: int,
        idle_fetches: int,
        connections: int,
        on_lanes_changed: Callable[[], None] = lambda: None,
    ) -> None:
        # Kept: asking for the running loop costs a system call each time (CPython 3.11).
        self._loop = asyncio.get_running_loop()
        self.slots = slots
        self.stages = [
            StageLanes(stage, order, self, slots=slots, idle_fetches=idle_fetches)
            for stage, order in stages.items()
        ]
        self.pushed = {stage.feeds: Pushed() for stage in stages if stage.feeds}
        self.commands = CommandLanes(dialer, 1)
        self._verbs = FaktoryVerbs(self.commands)
        self.results = Results(self.commands, self._verbs, self.fetches_changed)
        self._dialer = dialer
        self._connections = connections
        self._on_lanes_changed = on_lanes_changed
        self._deliver: Callable[[Delivery], None] = _refuse_delivery
        self._beats_took_s: deque[float] = deque(maxlen=BEATS_REMEMBERED)
        self._pump_is_scheduled = False
        # Known once it is connected, and remembered: a crash breaks all connections at once.
        self._is_broker = False
        self._held_bytes = 0
        # Their jids; what a result was sent for is known to `results`.
        self._in_hand: set[str] = set()
        self._is_reading = True
        self._drain_task: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._closed = asyncio.Event()
        self._log = get_logger("source")

    # Source

    async def run(self, deliver: Callable[[Delivery], None]) -> None:
        self._deliver = deliver
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self.commands.lanes[0].run(), name="command-0")]
            keepers.append(tasks.create_task(self._open_lanes(tasks, keepers), name="open-lanes"))
            keepers.append(tasks.create_task(self._tick(), name="tick"))
            await self._closed.wait()
            self.commands.close()
            for stage in self.stages:
                stage.close()
            for keeper in keepers:
                keeper.cancel()

    def slot_free(self, delivery: Delivery) -> None:
        if delivery.has_slot:
            delivery.has_slot = False
            self.stages[delivery.stage].window.job_ended()
            self.fetches_changed()

    def job_ended(self, delivery: Delivery) -> None:
        self._held_bytes -= len(delivery.payload)
        self._in_hand.discard(delivery.jid)
        if not self._is_reading and self._held_bytes < MAX_HELD_BYTES // 2:
            self._set_reading(True)
        self.slot_free(delivery)

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if isinstance(outcome, PutBack) and self._drain_task is not None:
            await self._drained.wait()
        await self.results.settle(delivery, outcome)

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        await self.results.put_back(deliveries)

    async def push(self, jobs: Sequence[Job]) -> None:
        await self.results.push(jobs)
        for job in jobs:
            if (pushed := self.pushed.get(job.queue)) is not None:
                size = len(orjson.dumps(job.args))
                self.pushed[job.queue] = Pushed(pushed.jobs + 1, pushed.bytes + size)

    async def quiet(self) -> None:
        if self._drain_task is None:
            self._drain_task = asyncio.create_task(self._drain(), name="drain")
        await asyncio.shield(self._drain_task)

    async def flushed(self) -> None:
        await self.results.flushed()

    def close(self) -> None:
        self._closed.set()

    # The supervisor's view

    @property
    def is_connected(self) -> bool:
        return self.commands.is_up and any(stage.up for stage in self.stages)

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def fetch_silence_s(self, now: float) -> float:
        return max(stage.silence_s(now) for stage in self.stages)

    def told_backlog(self, queues: Mapping[str, int], paces: Mapping[str, float]) -> None:
        """How many jobs wait in which queue, and how fast each stage may go."""
        for stage in self.stages:
            stage.backlog = sum(queues.get(name, 0) for name in stage.queues)
            stage.pace = paces.get(stage.stage.name, 1.0)
        self.fetches_changed()

    # Heartbeat's view (called in the loop's thread, except `worker_ids`)

    def worker_ids(self) -> list[str]:
        """The ids to beat for; read by the heartbeat's thread."""
        return [lane.wid for stage in self.stages for lane in tuple(stage.up)]

    def worker_unknown(self, wid: str) -> None:
        """The server forgot this id: connect that lane anew, under a new one."""
        for lane in self._up():
            if lane.wid == wid and lane.connection is not None:
                lane.connection.close("the server forgot our worker id")
                return

    def beat_took(self, round_trip_s: float) -> None:
        self._beats_took_s.append(round_trip_s)
        for stage in self.stages:
            stage.measure_round_trip(self._beats_took_s)

    # StageOwner

    def job_answered(self, stage: StageLanes, payload: bytes, reserved_after: float) -> None:
        try:
            delivery = parse_delivery(payload, reserved_after)
        except ProtocolError as error:
            self._refuse_unreadable(stage, payload, error)
            return
        if stage is not self.stages[0]:
            delivery.stage = self.stages.index(stage)
        self._held_bytes += len(payload)
        self._in_hand.add(delivery.jid)
        if self._is_reading and self._held_bytes > MAX_HELD_BYTES:
            self._set_reading(False)
        self._deliver(delivery)

    def fetches_changed(self) -> None:
        if not self._pump_is_scheduled:
            is_busy = any(stage.window.is_busy for stage in self.stages)
            self._schedule_pump(self._gather_s() if is_busy else 0.0)

    def lanes_changed(self, stage: StageLanes) -> None:
        stage.measure_round_trip(self._beats_took_s)
        self._set_reading(self._is_reading)
        self._on_lanes_changed()
        self.fetches_changed()

    def lane_broke(self, wid: str) -> None:
        if not self._closed.is_set():
            self.commands.submit(Command(self._retire_line(wid), _ignore_reply, is_kept=True))

    # Inside

    def _up(self) -> list[FetchLane]:
        return [lane for stage in self.stages for lane in stage.up]

    def _gather_s(self) -> float:
        if not self._is_broker:
            return GATHER_S
        # Our broker takes many lines at a time anyway; longer than its answer takes, the wait
        # would leave it idle.
        return min(GATHER_S, *(stage.window.round_trip_s for stage in self.stages))

    def _retire_line(self, wid: str) -> bytes:
        """What to tell the server of a fetch lane that broke."""
        if self._is_broker:
            # Answers may have been lost on the way: whatever of it we do not have goes back.
            return codec.held(wid, {*self._in_hand, *self.results.unanswered_jids()})
        # Its FETCHes live on at the server; silence the id before they take jobs.
        return codec.beat(wid, state="quiet")

    def _refuse_unreadable(self, stage: StageLanes, payload: bytes, error: ProtocolError) -> None:
        stage.window.job_ended()
        self._log.error("a job cannot be read", reason=str(error))
        try:
            jid = orjson.loads(payload)["jid"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return  # without a jid there is nothing to report on: its reservation will end
        if isinstance(jid, str):
            self.results.fail(jid, Failed("UnreadableJob", str(error)))

    def _schedule_pump(self, after_s: float) -> None:
        self._pump_is_scheduled = True
        if after_s:
            self._loop.call_later(after_s, self._pump)
        else:
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send the results and the FETCHes that have come together."""
        self._pump_is_scheduled = False
        now = self._loop.time()
        self.results.send_collected()
        lanes = sum(stage.window.lanes for stage in self.stages)
        if not lanes:
            return
        # Results are reported for all stages together; each window counts its lanes' share.
        unanswered = self.results.unanswered
        views = [stage.view(now, unanswered * stage.window.lanes // lanes) for stage in self.stages]
        for stage, count in zip(self.stages, scheduler.credits(self.slots, views), strict=True):
            if count:
                stage.fetch(count, now)
        if any(stage.window.is_cut_short for stage in self.stages):
            self._schedule_pump(max(self._gather_s(), PACE_S))

    async def _open_lanes(
        self, tasks: asyncio.TaskGroup, keepers: list[asyncio.Task[None]]
    ) -> None:
        plan = await self._plan()
        for number, lane in enumerate(self.commands.grow(plan.command - 1), start=1):
            keepers.append(tasks.create_task(lane.run(), name=f"command-{number}"))
        shares = split_lanes(plan.fetch, [stage.stage.weight for stage in self.stages])
        for stage, share in zip(self.stages, shares, strict=True):
            lanes = stage.open_lanes(self._dialer, share, is_broker=self._is_broker)
            for number, fetch_lane in enumerate(lanes):
                name = f"fetch-{stage.stage.name}-{number}"
                keepers.append(tasks.create_task(fetch_lane.run(), name=name))

    async def _plan(self) -> LanePlan:
        info = await repeat(self._verbs.info)
        self._is_broker = self.commands.is_our_broker
        if self._is_broker:
            return plan_broker_lanes(self._connections, self.slots, len(self.stages))
        used = int(info.get("server", {}).get("connections", 0))
        plan = plan_lanes(self._connections, self.slots, used)
        wanted = plan_lanes(self._connections, self.slots, 0)
        if plan != wanted:
            self._log.warning(
                f"the server has {used} connections already: taking {plan.connections} "
                f"instead of {wanted.connections}"
            )
        return plan

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            self.commands.look(now)
            self.commands.send_waiting()
            for stage in self.stages:
                stage.look(now)
            self.fetches_changed()

    def _set_reading(self, is_reading: bool) -> None:
        self._is_reading = is_reading
        for lane in self._up():
            if lane.connection is not None:
                if is_reading:
                    lane.connection.resume_reading()
                else:
                    lane.connection.pause_reading()

    async def _drain(self) -> None:
        await asyncio.gather(*(stage.drain(self._quiet_lane) for stage in self.stages))
        self._drained.set()

    async def _quiet_lane(self, lane: FetchLane) -> None:
        await self._verbs.beat(lane.wid, state="quiet")


def _refuse_delivery(_delivery: Delivery) -> None:
    raise AssertionError("a job arrived before run()")


def _ignore_reply(_command: Command, _reply: Reply | FaktoryError) -> None:
    """`unknown worker` means that the server is rid of it already."""

"""All sockets of one process to its server: opened by plan, watched, beaten for, drained, closed.

The fetch lanes belong to the stages (stage_lanes.py); the command lanes are shared by all of them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from manyhands.shared.faktory.client import FaktoryVerbs
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.lanes import CommandLanes, FetchLane
from manyhands.shared.logs import get_logger
from manyhands.worker.source.lane_plan import LanePlan, plan_broker_lanes, plan_lanes, split_lanes
from manyhands.worker.source.results import repeat
from manyhands.worker.source.stage_lanes import StageLanes

TICK_S = 0.5
BEATS_REMEMBERED = 4


class ProcessLanes:
    """State: the lanes, whether the server is our broker, whether the fetch lanes are read from,
    and how long the last beats took. `on_tick` is called twice a second."""

    def __init__(
        self,
        dialer: Dialer,
        commands: CommandLanes,
        stages: Sequence[StageLanes],
        *,
        connections: int,
        slots: int,
        on_tick: Callable[[], None],
    ) -> None:
        # Known once it is connected, and remembered: a crash breaks all connections at once.
        self.is_broker = False
        self.is_reading = True
        self._dialer = dialer
        self._commands = commands
        self._verbs = FaktoryVerbs(commands)
        self._stages = stages
        self._connections = connections
        self._slots = slots
        self._on_tick = on_tick
        self._beats_took_s: deque[float] = deque(maxlen=BEATS_REMEMBERED)
        self._closed = asyncio.Event()
        self._log = get_logger("source")

    async def run(self) -> None:
        """Open the lanes and keep them up until closed."""
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self._commands.lanes[0].run(), name="command-0")]
            keepers.append(tasks.create_task(self._open(tasks, keepers), name="open-lanes"))
            keepers.append(tasks.create_task(self._tick(), name="tick"))
            await self._closed.wait()
            self._commands.close()
            for stage in self._stages:
                stage.close()
            for keeper in keepers:
                keeper.cancel()

    def close(self) -> None:
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    @property
    def is_connected(self) -> bool:
        return self._commands.is_up and any(stage.up for stage in self._stages)

    def fetch_silence_s(self, now: float) -> float:
        """The longest time that any stage has waited for an answer to its FETCHes."""
        return max(stage.silence_s(now) for stage in self._stages)

    def changed(self, stage: StageLanes) -> None:
        """One of this stage's lanes came up or went down."""
        stage.measure_round_trip(self._beats_took_s)
        self.set_reading(self.is_reading)

    def set_reading(self, is_reading: bool) -> None:
        """Read answers from the fetch lanes, or leave them in the system's buffers."""
        self.is_reading = is_reading
        for lane in self._up():
            if lane.connection is not None:
                if is_reading:
                    lane.connection.resume_reading()
                else:
                    lane.connection.pause_reading()

    async def drain(self) -> None:
        """Send no more FETCHes; return when no job can arrive any more."""
        await asyncio.gather(*(stage.drain(self._quiet) for stage in self._stages))

    # Heartbeat's view (called in the loop's thread, except `worker_ids`)

    def worker_ids(self) -> list[str]:
        """The ids to beat for; read by the heartbeat's thread."""
        return [lane.wid for stage in self._stages for lane in tuple(stage.up)]

    def worker_unknown(self, wid: str) -> None:
        """The server forgot this id: reconnect that lane, under a new one."""
        for lane in self._up():
            if lane.wid == wid and lane.connection is not None:
                lane.connection.close("the server forgot our worker id")
                return

    def beat_took(self, round_trip_s: float) -> None:
        self._beats_took_s.append(round_trip_s)
        for stage in self._stages:
            stage.measure_round_trip(self._beats_took_s)

    # Inside

    def _up(self) -> list[FetchLane]:
        return [lane for stage in self._stages for lane in stage.up]

    async def _open(self, tasks: asyncio.TaskGroup, keepers: list[asyncio.Task[None]]) -> None:
        plan = await self._plan()
        for number, lane in enumerate(self._commands.grow(plan.command - 1), start=1):
            keepers.append(tasks.create_task(lane.run(), name=f"command-{number}"))
        shares = split_lanes(plan.fetch, [stage.stage.weight for stage in self._stages])
        for stage, share in zip(self._stages, shares, strict=True):
            lanes = stage.open_lanes(self._dialer, share, is_broker=self.is_broker)
            for number, fetch_lane in enumerate(lanes):
                name = f"fetch-{stage.stage.name}-{number}"
                keepers.append(tasks.create_task(fetch_lane.run(), name=name))

    async def _plan(self) -> LanePlan:
        info = await repeat(self._verbs.info)
        self.is_broker = self._commands.is_our_broker
        if self.is_broker:
            return plan_broker_lanes(self._connections, self._slots, len(self._stages))
        used = int(info.get("server", {}).get("connections", 0))
        plan = plan_lanes(self._connections, self._slots, used)
        wanted = plan_lanes(self._connections, self._slots, 0)
        if plan != wanted:
            self._log.warning(
                f"the server already has {used} connections: opening {plan.connections} "
                f"instead of {wanted.connections}"
            )
        return plan

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            self._commands.look(now)
            self._commands.send_waiting()
            for stage in self._stages:
                stage.look(now)
            self._on_tick()

    async def _quiet(self, lane: FetchLane) -> None:
        await self._verbs.beat(lane.wid, state="quiet")

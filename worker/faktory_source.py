"""Jobs from a Faktory server (or our broker): many slots over few sockets.

Owns the lanes of one process and the window over them. Everything runs in the loop's thread;
`_pump` is scheduled at most once per loop turn and sends all FETCHes that the window allows.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import orjson

from shared.errors import FaktoryError, ProtocolError
from shared.faktory import codec
from shared.faktory.client import FaktoryVerbs
from shared.faktory.codec import ErrorReply, Reply
from shared.faktory.dialer import Dialer
from shared.faktory.lanes import Command, CommandLanes, FetchEvents, FetchLane
from shared.jobs import Job
from shared.logs import get_logger
from shared.sizing import GATHER_S
from worker.delivery import Delivery, parse_delivery
from worker.drain import LaneDrain, should_linger
from worker.lane_plan import LanePlan, plan_broker_lanes, plan_lanes
from worker.outcomes import Failed, Outcome, PutBack
from worker.queues import QueueOrder
from worker.results import Results
from worker.settlement import Settlement, repeat
from worker.window import (
    BROKER_DEPTH_PER_LANE,
    BROKER_RESULTS_PER_LANE,
    Window,
    spread,
)

TICK_S = 0.5
BEATS_REMEMBERED = 4
# Payloads in hand above this stop reading from the fetch lanes until half of it is gone.
MAX_HELD_BYTES = 256 * 1024 * 1024


class FaktorySource(FetchEvents):
    """A `Source`. State: the lanes, the window, the results on their way, and the drain if one
    has begun."""

    def __init__(
        self, dialer: Dialer, queues: QueueOrder, *, slots: int, idle_fetches: int, connections: int
    ) -> None:
        # Kept: asking for the running loop costs a system call each time (CPython 3.11).
        self._loop = asyncio.get_running_loop()
        self.window = Window(slots=slots, idle_fetches=idle_fetches)
        self.commands = CommandLanes(dialer, 1)
        self.results = Results(self.commands, self._schedule_pump)
        self.lanes: list[FetchLane] = []
        self._verbs = FaktoryVerbs(self.commands)
        self._settlement = Settlement(self._verbs, self.results)
        self._dialer = dialer
        self._fetch_lines = queues.fetch_lines()
        self._connections = connections
        self._deliver: Callable[[Delivery], None] = _refuse_delivery
        self._up: list[FetchLane] = []
        self._beats_took_s: deque[float] = deque(maxlen=BEATS_REMEMBERED)
        self._pump_is_scheduled = False
        # Known once it is connected, and remembered: a crash breaks all connections at once.
        self._is_broker = False
        self._held_bytes = 0
        # Their jids; what a result was sent for is known to `results`.
        self._in_hand: set[str] = set()
        self._is_reading = True
        self._job_arrived_at = 0.0
        self._drains: dict[FetchLane, LaneDrain] | None = None
        self._drained = asyncio.Event()
        self._drain_task: asyncio.Task[None] | None = None
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
            for lane in self.lanes:
                lane.close()
            for keeper in keepers:
                keeper.cancel()

    def job_ended(self, delivery: Delivery) -> None:
        self._held_bytes -= len(delivery.payload)
        self._in_hand.discard(delivery.jid)
        if not self._is_reading and self._held_bytes < MAX_HELD_BYTES // 2:
            self._set_reading(True)
        self.window.job_ended()
        self._schedule_pump()

    async def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if isinstance(outcome, PutBack) and self._drain_task is not None:
            await self._drained.wait()
        await self._settlement.settle(delivery, outcome)

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        await self._settlement.put_back(deliveries)

    async def push(self, jobs: Sequence[Job]) -> None:
        await self._settlement.push(jobs)

    async def quiet(self) -> None:
        if self._drain_task is None:
            self._drain_task = asyncio.create_task(self._drain(), name="drain")
        await asyncio.shield(self._drain_task)

    async def flushed(self) -> None:
        await self.results.flushed()

    def close(self) -> None:
        self._closed.set()

    # Heartbeat's view (called in the loop's thread, except `worker_ids`)

    def worker_ids(self) -> list[str]:
        """The ids to beat for; read by the heartbeat's thread."""
        return [lane.wid for lane in tuple(self._up)]

    def worker_unknown(self, wid: str) -> None:
        """The server forgot this id: connect that lane anew, under a new one."""
        for lane in self._up:
            if lane.wid == wid and lane.connection is not None:
                lane.connection.close("the server forgot our worker id")
                return

    def beat_took(self, round_trip_s: float) -> None:
        self._beats_took_s.append(round_trip_s)
        self._measure_round_trip()

    # FetchEvents

    def lane_up(self, lane: FetchLane) -> None:
        self._up.append(lane)
        self._set_reading(self._is_reading)
        self._lanes_changed()

    def lane_down(self, lane: FetchLane, wid: str, unanswered: int) -> None:
        self._up.remove(lane)
        self.window.lane_lost(unanswered)
        if self._drains is not None:
            self._drain_of(lane).is_over = True
            self._check_drained()
        if not self._closed.is_set():
            self.commands.submit(Command(self._retire_line(wid), _ignore_reply, is_kept=True))
        self._lanes_changed()

    def fetch_answered(self, lane: FetchLane, reply: Reply, reserved_after: float) -> None:
        now = self._loop.time()
        if isinstance(reply, bytes):
            self._job_arrived(reply, reserved_after, now)
        elif isinstance(reply, ErrorReply):
            if not self.window.is_held(now):
                self._log.warning("the server refused a FETCH", reason=reply.text)
            self.window.error_answer(now)
        else:
            self.window.empty_answer()
        if self._drains is not None:
            self._drain_of(lane).answered(
                now,
                lane.outstanding,
                was_empty=not isinstance(reply, bytes),
                round_trip_s=lane.round_trip_s,
            )
            self._check_drained()
        self._schedule_pump()

    # Inside

    def _job_arrived(self, payload: bytes, reserved_after: float, now: float) -> None:
        self.window.job_arrived(now)
        self._job_arrived_at = now
        try:
            delivery = parse_delivery(payload, reserved_after)
        except ProtocolError as error:
            self._refuse_unreadable(payload, error)
            return
        self._held_bytes += len(payload)
        self._in_hand.add(delivery.jid)
        if self._is_reading and self._held_bytes > MAX_HELD_BYTES:
            self._set_reading(False)
        self._deliver(delivery)

    def _retire_line(self, wid: str) -> bytes:
        """What to tell the server of a fetch lane that broke."""
        if self._is_broker:
            # Answers may have been lost on the way: whatever of it we do not have goes back.
            return codec.held(wid, {*self._in_hand, *self.results.unanswered_jids()})
        # Its FETCHes live on at the server; silence the id before they take jobs.
        return codec.beat(wid, state="quiet")

    def _refuse_unreadable(self, payload: bytes, error: ProtocolError) -> None:
        self.window.job_ended()
        self._log.error("a job cannot be read", reason=str(error))
        try:
            jid = orjson.loads(payload)["jid"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return  # without a jid there is nothing to report on: its reservation will end
        if isinstance(jid, str):
            self.results.fail(jid, Failed("UnreadableJob", str(error)))

    def _schedule_pump(self) -> None:
        if self._pump_is_scheduled:
            return
        self._pump_is_scheduled = True
        if self.window.is_busy:
            # Our broker takes many lines at a time anyway; longer than its answer takes, the wait
            # would leave it idle.
            wait_s = min(GATHER_S, self.window.round_trip_s) if self._is_broker else GATHER_S
            self._loop.call_later(wait_s, self._pump)
        else:
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send the results and the FETCHes that have come together."""
        self._pump_is_scheduled = False
        now = self._loop.time()
        self.results.send_collected()
        credits = self.window.credits(now, self.results.unanswered)
        if not credits:
            return
        up = self._up
        shares = spread(credits, [lane.outstanding for lane in up])
        for lane, share in zip(up, shares, strict=True):
            for _ in range(share):
                lane.fetch(next(self._fetch_lines), now)
        self.window.sent(credits)

    async def _open_lanes(
        self, tasks: asyncio.TaskGroup, keepers: list[asyncio.Task[None]]
    ) -> None:
        plan = await self._plan()
        for number, lane in enumerate(self.commands.grow(plan.command - 1), start=1):
            keepers.append(tasks.create_task(lane.run(), name=f"command-{number}"))
        self.lanes = [FetchLane(self._dialer, self) for _ in range(plan.fetch)]
        self.window.planned_lanes = plan.fetch
        for number, fetch_lane in enumerate(self.lanes):
            keepers.append(tasks.create_task(fetch_lane.run(), name=f"fetch-{number}"))

    async def _plan(self) -> LanePlan:
        info = await repeat(self._verbs.info)
        self._is_broker = self.commands.is_our_broker
        if self._is_broker:
            self.window.depth_per_lane = BROKER_DEPTH_PER_LANE
            self.window.results_per_lane = BROKER_RESULTS_PER_LANE
            return plan_broker_lanes(self._connections, self.window.slots)
        used = int(info.get("server", {}).get("connections", 0))
        plan = plan_lanes(self._connections, self.window.slots, used)
        wanted = plan_lanes(self._connections, self.window.slots, 0)
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
            self.commands.close_overdue(now)
            self.commands.send_waiting()
            for lane in tuple(self._up):
                lane.close_if_overdue(now)
            self._schedule_pump()

    def _lanes_changed(self) -> None:
        self.window.lanes = len(self._up)
        self._measure_round_trip()
        self._schedule_pump()

    def _measure_round_trip(self) -> None:
        # The quickest of several is the one that waited least for our own processor.
        handshake_s = min((lane.round_trip_s for lane in self._up), default=0.0)
        self.window.round_trip_s = max(handshake_s, min(self._beats_took_s, default=0.0))

    def _set_reading(self, is_reading: bool) -> None:
        self._is_reading = is_reading
        for lane in self._up:
            if lane.connection is not None:
                if is_reading:
                    lane.connection.resume_reading()
                else:
                    lane.connection.pause_reading()

    async def _drain(self) -> None:
        self.window.is_open = False
        self._drains = {lane: LaneDrain() for lane in self.lanes}
        started_at = self._loop.time()
        round_trip_s = self.window.round_trip_s
        while should_linger(  # noqa: ASYNC110 - the rule depends on time as well
            self._loop.time(), started_at, self._job_arrived_at, self._deepest(), round_trip_s
        ):
            await asyncio.sleep(0.02)
        owing = [lane for lane in self._up if lane.outstanding]
        self._check_drained()
        await asyncio.gather(*(self._quiet_lane(lane) for lane in owing))
        await self._drained.wait()

    def _deepest(self) -> int:
        return max((lane.outstanding for lane in self._up), default=0)

    async def _quiet_lane(self, lane: FetchLane) -> None:
        try:
            await self._verbs.beat(lane.wid, state="quiet")
        except FaktoryError as error:
            # Then only the answers themselves can tell: each FETCH ends within its 2 s.
            self._log.warning("a lane could not be quieted", reason=str(error))
        else:
            self._drain_of(lane).quieted_at = self._loop.time()

    def _drain_of(self, lane: FetchLane) -> LaneDrain:
        assert self._drains is not None
        return self._drains.setdefault(lane, LaneDrain())

    def _check_drained(self) -> None:
        if all(self._drain_of(lane).is_over or not lane.outstanding for lane in self._up):
            self._drained.set()


def _refuse_delivery(_delivery: Delivery) -> None:
    raise AssertionError("a job arrived before run()")


def _ignore_reply(_command: Command, _reply: Reply | FaktoryError) -> None:
    """`unknown worker` means that the server is rid of it already."""

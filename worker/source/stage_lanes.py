"""One stage's fetch lanes, the window over them, and how they are drained when it stops.

A lane belongs to one list of queues: a FETCH on an empty queue would hold up, for two seconds, one
on a full queue behind it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory.codec import ErrorReply, Reply
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.lanes import FetchEvents, FetchLane
from manyhands.shared.logs import get_logger
from manyhands.worker.service.stages import Stage
from manyhands.worker.source.drain import LaneDrain, should_linger
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.scheduler import StageView
from manyhands.worker.source.window import (
    BROKER_DEPTH_PER_LANE,
    BROKER_LINES_PER_LANE,
    Window,
    spread,
)

LINGER_LOOK_S = 0.02


class StageOwner(Protocol):
    """What a stage reports to its source; all in the loop's thread."""

    def job_answered(self, stage: "StageLanes", payload: bytes, reserved_after: float) -> None:
        """A FETCH brought a job."""

    def fetches_changed(self) -> None:
        """There may be FETCHes to send."""

    def lanes_changed(self, stage: "StageLanes") -> None:
        """A lane came up or went down."""

    def lane_broke(self, wid: str) -> None:
        """A lane broke: its id must be retired at the server."""


class StageLanes(FetchEvents):
    """State: the lanes, those that are up, the window, the drain if one has begun, and the last
    from the supervisor: the `backlog` of its queues and its `pace`."""

    def __init__(
        self,
        stage: Stage,
        order: QueueOrder,
        owner: StageOwner,
        *,
        slots: int,
        idle_fetches: int,
    ) -> None:
        self.stage = stage
        self.queues = order.names
        self.window = Window(slots=min(slots, stage.cap), idle_fetches=idle_fetches)
        self.lanes: list[FetchLane] = []
        self.up: list[FetchLane] = []
        self.backlog = 0
        self.pace = 1.0
        self.answered_at = 0.0
        self._fetch_lines = order.fetch_lines()
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._job_arrived_at = 0.0
        self._drains: dict[FetchLane, LaneDrain] | None = None
        self._drained = asyncio.Event()
        self._log = get_logger("source")

    def open_lanes(self, dialer: Dialer, count: int, *, is_broker: bool) -> list[FetchLane]:
        """Make the lanes; the caller runs them."""
        if is_broker:
            self.window.depth_per_lane = BROKER_DEPTH_PER_LANE
            self.window.lines_per_lane = BROKER_LINES_PER_LANE
        self.window.planned_lanes = count
        self.lanes = [FetchLane(dialer, self) for _ in range(count)]
        return self.lanes

    def set_queues(self, names: Sequence[str]) -> None:
        """From now on, fetch from these queues; with none, fetch nothing."""
        self.queues = list(names)
        self._fetch_lines = QueueOrder.in_turns(names).fetch_lines() if names else iter(())
        self._owner.fetches_changed()

    def view(self, now: float, unanswered_results: int) -> StageView:
        """As the scheduler sees it."""
        window = self.window
        return StageView(
            weight=self.stage.weight,
            cap=window.slots,
            running=window.running,
            outstanding=window.outstanding,
            wanted=window.outstanding + self._credits(now, unanswered_results),
            is_idle=window.is_idle and not self.backlog,
            pace=self.pace,
            rank=self.stage.rank,
        )

    def _credits(self, now: float, unanswered_results: int) -> int:
        return self.window.credits(now, unanswered_results) if self.queues else 0

    def fetch(self, count: int, now: float) -> None:
        up = self.up
        shares = spread(count, [lane.outstanding for lane in up])
        for lane, share in zip(up, shares, strict=True):
            for _ in range(share):
                lane.fetch(next(self._fetch_lines), now)
        self.window.sent(count, now)

    def silence_s(self, now: float) -> float:
        """How long a FETCH has waited since the last answer of any lane."""
        waiting = [lane.connection for lane in self.up if lane.connection and lane.outstanding]
        if not waiting:
            return 0.0
        return now - max(self.answered_at, *(connection.progress_at for connection in waiting))

    def look(self, now: float) -> None:
        for lane in tuple(self.up):
            lane.look(now)

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()

    async def drain(self, quiet: Callable[[FetchLane], Awaitable[None]]) -> None:
        """Send no more FETCHes; return when no job can arrive any more. `quiet` quiets one lane's
        id at the server, and returns when it has confirmed."""
        self.window.is_open = False
        self._drains = {lane: LaneDrain() for lane in self.lanes}
        started_at = self._loop.time()
        round_trip_s = self.window.round_trip_s
        while should_linger(  # noqa: ASYNC110 - the rule depends on time as well
            self._loop.time(), started_at, self._job_arrived_at, self._deepest(), round_trip_s
        ):
            await asyncio.sleep(LINGER_LOOK_S)
        owing = [lane for lane in self.up if lane.outstanding]
        self._check_drained()
        await asyncio.gather(*(self._quiet_lane(lane, quiet) for lane in owing))
        await self._drained.wait()

    def measure_round_trip(self, beats_took_s: Iterable[float]) -> None:
        # The fastest of several is the one least delayed by our own processor.
        handshake_s = min((lane.round_trip_s for lane in self.up), default=0.0)
        self.window.round_trip_s = max(handshake_s, min(beats_took_s, default=0.0))

    # FetchEvents

    def lane_up(self, lane: FetchLane) -> None:
        self.up.append(lane)
        self._lanes_changed()

    def lane_down(self, lane: FetchLane, wid: str, unanswered: int) -> None:
        self.up.remove(lane)
        self.window.lane_lost(unanswered)
        if self._drains is not None:
            self._drain_of(lane).is_over = True
            self._check_drained()
        self._owner.lane_broke(wid)
        self._lanes_changed()

    def fetch_answered(self, lane: FetchLane, reply: Reply, reserved_after: float) -> None:
        now = self.answered_at = self._loop.time()
        if isinstance(reply, bytes):
            self.window.job_arrived(now)
            self._job_arrived_at = now
            self._owner.job_answered(self, reply, reserved_after)
        elif isinstance(reply, ErrorReply):
            if not self.window.is_held(now):
                self._log.warning("the server refused a FETCH", reason=reply.text)
            self.window.error_answer(now)
        else:
            self.window.empty_answer()
            self.backlog = 0
        if self._drains is not None:
            self._drain_of(lane).answered(
                now,
                lane.outstanding,
                was_empty=not isinstance(reply, bytes),
                round_trip_s=lane.round_trip_s,
            )
            self._check_drained()
        self._owner.fetches_changed()

    # Inside

    def _lanes_changed(self) -> None:
        self.window.lanes = len(self.up)
        self._owner.lanes_changed(self)

    def _deepest(self) -> int:
        return max((lane.outstanding for lane in self.up), default=0)

    async def _quiet_lane(
        self, lane: FetchLane, quiet: Callable[[FetchLane], Awaitable[None]]
    ) -> None:
        try:
            await quiet(lane)
        except FaktoryError as error:
            # Then only the answers themselves can show it: each FETCH ends within its 2 s.
            self._log.warning("a lane could not be quieted", reason=str(error))
        else:
            self._drain_of(lane).quieted_at = self._loop.time()

    def _drain_of(self, lane: FetchLane) -> LaneDrain:
        assert self._drains is not None
        return self._drains.setdefault(lane, LaneDrain())

    def _check_drained(self) -> None:
        if all(self._drain_of(lane).is_over or not lane.outstanding for lane in self.up):
            self._drained.set()

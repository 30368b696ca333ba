"""A Faktory server, its network and a worker's jobs, in simulated time; the window is the real one.

Each lane is served serially, as the server does it: a FETCH takes `service_s`, and blocks for up
to two seconds when the queue is empty. Results take `result_s` each, one after the other. Lines
travel for half a round trip each way. After every event the promises of `worker.window` are
checked.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from manyhands.shared.sizing import GATHER_S
from manyhands.worker.source.window import LINES_PER_LANE, Window, spread

FETCH_BLOCKS_S = 2.0
# The worker's own rhythm, as worker/source/faktory.py has it.
TICK_S = 0.5


@dataclass(eq=False)
class SimulatedLane:
    """One socket. State: FETCHes that the worker awaits, and those that the server has."""

    outstanding: int = 0
    buffered: int = 0
    is_serving: bool = False
    is_up: bool = True


@dataclass
class Simulation:
    """Run with `run_until`; state is the queue, the lanes, the jobs, and what was observed."""

    slots: int = 100
    lane_count: int = 8
    idle_fetches: int = 4
    round_trip_s: float = 0.0
    service_s: float = 0.0005
    result_s: float = 0.0
    job_s: float = 1.0
    now: float = 1000.0
    backlog: int = 0
    started: int = 0
    finished: int = 0
    fetches: int = 0
    longest_wait_s: float = 0.0
    # How long the server had no result to work on.
    without_results_s: float = 0.0
    window: Window = field(init=False)
    lanes: list[SimulatedLane] = field(init=False)

    def __post_init__(self) -> None:
        self.window = Window(slots=self.slots, idle_fetches=self.idle_fetches)
        self.window.lanes = self.window.planned_lanes = self.lane_count
        self.window.round_trip_s = self.round_trip_s
        self.lanes = [SimulatedLane() for _ in range(self.lane_count)]
        self.unanswered = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._pump_is_scheduled = False
        self._blocked: deque[tuple[SimulatedLane, int]] = deque()
        self._blocks = count()
        self._blocked_ids: set[int] = set()
        self._pushed_at: deque[float] = deque()
        self._results_done_at = self.now
        self._after(TICK_S, self._tick)
        self._schedule_pump()

    def push(self, jobs: int) -> None:
        """Jobs enter the queue now; blocked FETCHes take them in the order of their waiting."""
        for _ in range(jobs):
            self.backlog += 1
            self._pushed_at.append(self.now)
            while self._blocked and self.backlog:
                lane, block = self._blocked.popleft()
                if block in self._blocked_ids:
                    self._blocked_ids.discard(block)
                    self._give_job(lane)

    def push_later(self, after_s: float, jobs: int) -> None:
        self._after(after_s, lambda: self.push(jobs))

    def lose_lane(self, number: int) -> None:
        """The socket breaks; the server is told at once to forget its FETCHes."""
        lane = self.lanes[number]
        self.lanes[number] = SimulatedLane(is_up=False)
        lane.is_up = False
        lane.buffered = 0
        self.window.lane_lost(lane.outstanding)
        self._count_lanes()

    def restore_lane(self, number: int) -> None:
        self.lanes[number].is_up = True
        self._count_lanes()

    def run_for(self, duration_s: float) -> None:
        until = self.now + duration_s
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
            self._check()
        self.now = until

    def _check(self) -> None:
        window = self.window
        assert window.outstanding >= 0
        assert window.running >= 0
        assert window.outstanding == sum(lane.outstanding for lane in self.lanes)
        assert window.outstanding + window.running <= self.slots
        lines = window.outstanding + window.running + self.unanswered
        assert lines <= 3 * self.slots + LINES_PER_LANE * self.lane_count

    def _after(self, delay_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._numbers), happen))

    # The worker's side

    def _tick(self) -> None:
        self._schedule_pump()
        self._after(TICK_S, self._tick)

    def _schedule_pump(self) -> None:
        if not self._pump_is_scheduled:
            self._pump_is_scheduled = True
            self._after(GATHER_S if self.window.is_busy else 0.0, self._pump)

    def _pump(self) -> None:
        self._pump_is_scheduled = False
        credits = self.window.credits(self.now, self.unanswered)
        if not credits:
            return
        up = [lane for lane in self.lanes if lane.is_up]
        shares = spread(credits, [lane.outstanding for lane in up])
        for lane, share in zip(up, shares, strict=True):
            if share:
                lane.outstanding += share
                self._after(self.round_trip_s / 2, partial(self._arrive, lane, share))
        self.window.sent(credits, self.now)
        self.fetches += credits

    def _take_answer(self, lane: SimulatedLane, pushed_at: float | None) -> None:
        if not lane.is_up or lane not in self.lanes:
            return  # the socket is gone, and with it the answer
        lane.outstanding -= 1
        if pushed_at is None:
            self.window.empty_answer()
        else:
            self.window.job_arrived(self.now)
            self.started += 1
            self.longest_wait_s = max(self.longest_wait_s, self.now - pushed_at)
            self._after(self.job_s, self._end_job)
        self._schedule_pump()

    def _end_job(self) -> None:
        self.window.job_ended()
        self.finished += 1
        self.unanswered += 1
        self._after(self.round_trip_s / 2, self._arrive_result)
        self._schedule_pump()

    def _take_ok(self) -> None:
        self.unanswered -= 1
        self._schedule_pump()

    def _count_lanes(self) -> None:
        self.window.lanes = sum(lane.is_up for lane in self.lanes)
        self._schedule_pump()

    # The server's side

    def _arrive_result(self) -> None:
        self.without_results_s += max(0.0, self.now - self._results_done_at)
        self._results_done_at = max(self.now, self._results_done_at) + self.result_s
        self._after(self._results_done_at - self.now + self.round_trip_s / 2, self._take_ok)

    def _arrive(self, lane: SimulatedLane, fetches: int) -> None:
        if lane.is_up:
            lane.buffered += fetches
            self._serve_next(lane)

    def _serve_next(self, lane: SimulatedLane) -> None:
        if lane.buffered and not lane.is_serving:
            lane.buffered -= 1
            lane.is_serving = True
            self._after(self.service_s, lambda: self._look(lane))

    def _look(self, lane: SimulatedLane) -> None:
        if not lane.is_up:
            return
        if self.backlog:
            self._give_job(lane)
            return
        block = next(self._blocks)
        self._blocked.append((lane, block))
        self._blocked_ids.add(block)
        self._after(FETCH_BLOCKS_S, lambda: self._give_up(lane, block))

    def _give_job(self, lane: SimulatedLane) -> None:
        if lane.is_up:
            self.backlog -= 1
            self._answer(lane, self._pushed_at.popleft())

    def _give_up(self, lane: SimulatedLane, block: int) -> None:
        if block in self._blocked_ids:
            self._blocked_ids.discard(block)
            self._answer(lane, None)

    def _answer(self, lane: SimulatedLane, pushed_at: float | None) -> None:
        self._after(self.round_trip_s / 2, lambda: self._take_answer(lane, pushed_at))
        lane.is_serving = False
        self._serve_next(lane)

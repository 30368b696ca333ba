"""Stages that share the slots of one process, in simulated time; the scheduler is the real one.

Tick by tick, as worker/source/faktory.py calls it: jobs end, FETCHes are answered (with a job after
a round trip, or empty after the server's two seconds), and the scheduler gives out the slots that
are free. After every tick its promises are checked.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from manyhands.worker.source.scheduler import StageView, credits
from manyhands.worker.source.window import Window

TICK_S = 0.01
# How often the supervisor looks at the queues.
LOOK_S = 1.0
FETCH_BLOCKS_S = 2.0
IDLE_FETCHES = 4
ENDLESS = 10**9


@dataclass(eq=False)
class SimulatedStage:
    """State: its queue, its FETCHes by when they were sent, its jobs by when they end, and what
    was observed."""

    weight: int = 1
    cap: int = ENDLESS
    pace: float = 1.0
    backlog: int = 0
    job_s: Callable[[], float] = lambda: 0.1
    round_trip_s: float = 0.0
    seems_empty: bool = False
    done: int = 0
    slot_s: float = 0.0
    fetches: deque[float] = field(default_factory=deque)
    ends: list[float] = field(default_factory=list)

    @property
    def running(self) -> int:
        return len(self.ends)

    @property
    def outstanding(self) -> int:
        return len(self.fetches)

    @property
    def held(self) -> int:
        return self.running + self.outstanding

    def wanted(self, slots: int) -> int:
        """The greediest that can be: all slots, as long as there seem to be jobs."""
        return IDLE_FETCHES if self.seems_empty else slots

    def ceiling(self, slots: int) -> int:
        return int(min(self.cap, slots) * self.pace)

    def send(self, now: float, count: int) -> None:
        self.fetches.extend([now] * count)

    def advance(self, now: float) -> None:
        while self.ends and self.ends[0] <= now:
            heappop(self.ends)
            self.done += 1
            self.job_ended()
        while self.fetches and now - self.fetches[0] >= self.round_trip_s and self.backlog:
            self.fetches.popleft()
            self.backlog -= 1
            heappush(self.ends, now + self.job_s())
            self.job_arrived(now)
        while self.fetches and now - self.fetches[0] >= self.round_trip_s + FETCH_BLOCKS_S:
            self.fetches.popleft()
            self.seems_empty = True
            self.empty_answer()

    def job_arrived(self, now: float) -> None:
        """For one with a window."""

    def job_ended(self) -> None:
        """For one with a window."""

    def empty_answer(self) -> None:
        """For one with a window."""


@dataclass(eq=False)
class WindowedStage(SimulatedStage):
    """As in a worker: the real window says how many FETCHes it wants."""

    slots: int = 100
    lanes: int = 4
    now: float = 0.0
    window: Window = field(init=False)

    def __post_init__(self) -> None:
        self.window = Window(slots=min(self.cap, self.slots), idle_fetches=IDLE_FETCHES)
        self.window.lanes = self.window.planned_lanes = self.lanes
        self.window.round_trip_s = self.round_trip_s

    def wanted(self, slots: int) -> int:
        assert (self.window.running, self.window.outstanding) == (self.running, self.outstanding)
        return self.outstanding + self.window.credits(self.now, 0)

    def send(self, now: float, count: int) -> None:
        super().send(now, count)
        self.window.sent(count, self.now)

    def advance(self, now: float) -> None:
        self.now = now
        super().advance(now)

    def job_arrived(self, now: float) -> None:
        self.window.job_arrived(now)

    def job_ended(self) -> None:
        self.window.job_ended()

    def empty_answer(self) -> None:
        self.window.empty_answer()


class StageSimulation:
    """State: the clock and the stages; `each_tick` is the world around them."""

    def __init__(
        self,
        slots: int,
        stages: list[SimulatedStage],
        each_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.slots = slots
        self.stages = stages
        self.ticks = 0
        self.each_tick = each_tick

    @property
    def now(self) -> float:
        return self.ticks * TICK_S

    @property
    def free(self) -> int:
        return self.slots - sum(stage.held for stage in self.stages)

    def run_for(self, duration_s: float) -> None:
        for _ in range(round(duration_s / TICK_S)):
            self._tick()

    def run_until(self, is_over: Callable[[], bool], most_s: float) -> None:
        until = self.now + most_s
        while not is_over():
            assert self.now < until, f"it was not over after {most_s:g} s"
            self.run_for(LOOK_S)

    def forget(self) -> None:
        """Count anew from here."""
        for stage in self.stages:
            stage.done = 0
            stage.slot_s = 0.0

    def _tick(self) -> None:
        self.each_tick()
        for stage in self.stages:
            if self.ticks % round(LOOK_S / TICK_S) == 0:
                stage.seems_empty = not stage.backlog
            stage.advance(self.now)
        self._schedule()
        for stage in self.stages:
            stage.slot_s += stage.held * TICK_S
        self.ticks += 1

    def _schedule(self) -> None:
        views = [self._view(stage) for stage in self.stages]
        given = credits(self.slots, views)
        assert len(given) == len(views)
        for stage, count in zip(self.stages, given, strict=True):
            assert count >= 0
            stage.send(self.now, count)
            assert not count or stage.held <= stage.ceiling(self.slots), "above its cap"
        assert self.free >= 0, "more slots than there are"
        self._check_nothing_is_idle(views)

    def _check_nothing_is_idle(self, views: list[StageView]) -> None:
        """A slot is free only when no stage with work could use it."""
        for stage, view in zip(self.stages, views, strict=True):
            if self.free and not view.is_idle:
                useful = min(stage.ceiling(self.slots), view.running + view.wanted)
                assert stage.held >= useful, "a slot is free, and a stage waits for one"

    def _view(self, stage: SimulatedStage) -> StageView:
        return StageView(
            weight=stage.weight,
            cap=stage.cap,
            running=stage.running,
            outstanding=stage.outstanding,
            wanted=stage.wanted(self.slots),
            is_idle=stage.seems_empty,
            pace=stage.pace,
        )

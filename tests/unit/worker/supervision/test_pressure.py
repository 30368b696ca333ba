"""Back-pressure: the curve, what is said of it, and where a queue settles in a closed loop."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from manyhands.shared.errors import ConfigError
from manyhands.worker.supervision.pressure import Limits, Pressure, PressureEvent, State, pace_for
from tests.support.simulated_stages import (
    ENDLESS,
    LOOK_S,
    TICK_S,
    SimulatedStage,
    StageSimulation,
)

MIB = 1024 * 1024
LIMITS = Limits(soft_jobs=20_000, hard_jobs=80_000, soft_bytes=512 * MIB, hard_bytes=2048 * MIB)
SIZES = st.integers(0, 200_000)
BYTES = st.none() | st.integers(0, 4096 * MIB)


@pytest.mark.parametrize(
    ("jobs", "size_bytes", "pace"),
    [
        (0, None, 1.0),
        (20_000, None, 1.0),
        (50_000, None, 0.25),
        (74_000, None, 0.01),
        (80_000, None, 0.0),
        (10**9, None, 0.0),
        (0, 0, 1.0),
        (0, 512 * MIB, 1.0),
        (0, 1280 * MIB, 0.25),
        (0, 2048 * MIB, 0.0),
        # The worse of the two counts.
        (50_000, 100 * MIB, 0.25),
        (100, 1280 * MIB, 0.25),
        (80_000, 0, 0.0),
    ],
)
def test_the_pace_falls_from_the_soft_to_the_hard_limit(jobs, size_bytes, pace):
    assert pace_for(jobs, size_bytes, LIMITS) == pytest.approx(pace)


@given(SIZES, BYTES, st.integers(0, 10_000), st.integers(0, 100 * MIB))
def test_a_fuller_queue_never_means_a_higher_pace(jobs, size_bytes, more_jobs, more_bytes):
    fuller = None if size_bytes is None else size_bytes + more_bytes
    assert pace_for(jobs + more_jobs, fuller, LIMITS) <= pace_for(jobs, size_bytes, LIMITS)


@given(st.integers(0, 100_000), BYTES)
def test_the_pace_never_jumps(jobs, size_bytes):
    """One job more changes it by no more than what one job is of the way between the limits."""
    step = pace_for(jobs, size_bytes, LIMITS) - pace_for(jobs + 1, size_bytes, LIMITS)
    assert 0 <= step <= 2 / (LIMITS.hard_jobs - LIMITS.soft_jobs)


@given(SIZES, BYTES)
def test_there_is_a_trickle_until_the_hard_limit_is_reached(jobs, size_bytes):
    is_below = jobs < LIMITS.hard_jobs and (size_bytes or 0) < LIMITS.hard_bytes
    assert (pace_for(jobs, size_bytes, LIMITS) > 0) == is_below


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"soft_jobs": 80_000}, "PRESSURE_SOFT_JOBS=80000 .* PRESSURE_HARD_JOBS=80000"),
        ({"soft_jobs": 0}, "PRESSURE_SOFT_JOBS=0"),
        ({"hard_bytes": 1}, "PRESSURE_HARD_BYTES=1"),
    ],
)
def test_limits_in_the_wrong_order_are_refused(changed, says):
    fields = {"soft_jobs": 1, "hard_jobs": 80_000, "soft_bytes": 2, "hard_bytes": 3}
    with pytest.raises(ConfigError, match=says):
        Limits(**(fields | changed))


# What is said


FEEDS = {"fetch": "parse", "parse": ""}


def states(pressure: Pressure, *jobs: int) -> list[State]:
    """What is said while the queue `parse` has these sizes, one a second."""
    said = []
    for count in jobs:
        _, events = pressure.paces(FEEDS, {"parse": count}, {})
        said += [event.state for event in events]
    return said


def test_a_stage_is_slowed_by_the_queue_that_it_fills_and_no_other_is():
    paces, events = Pressure(LIMITS).paces(
        FEEDS, {"parse": 50_000, "fetch.00": 10**6, "default": 10**6}, {}
    )
    assert paces == {"fetch": pytest.approx(0.25), "parse": 1.0}
    (event,) = events
    assert event == PressureEvent("fetch", State.SLOWED, "parse", 50_000, None, paces["fetch"])


def test_a_queue_counts_in_bytes_too_when_its_jobs_are_known():
    pressure = Pressure(LIMITS)
    paces, events = pressure.paces(FEEDS, {"parse": 1280}, {"parse": MIB})
    assert paces["fetch"] == pytest.approx(0.25)
    assert [(event.jobs, event.size_bytes) for event in events] == [(1280, 1280 * MIB)]
    paces, _ = pressure.paces(FEEDS, {"parse": 1280}, {"other": MIB})
    assert paces["fetch"] == 1.0


def test_a_queue_that_the_server_does_not_name_is_empty():
    paces, events = Pressure(LIMITS).paces(FEEDS, {}, {"parse": 1000.0})
    assert (paces["fetch"], events) == (1.0, [])


def test_each_change_is_said_once():
    pressure = Pressure(LIMITS)
    said = states(pressure, 0, 19_000, 21_000, 30_000, 60_000, 80_000, 90_000, 80_000, 79_000)
    assert said == [State.SLOWED, State.STOPPED]
    assert pressure.states == {"fetch": State.STOPPED}
    assert states(pressure, 70_000, 30_000, 15_000, 10_000, 9_999, 5_000) == [
        State.SLOWED,
        State.FREE,
    ]


def test_a_queue_that_leaps_over_both_limits_is_said_to_stop_at_once():
    pressure = Pressure(LIMITS)
    assert states(pressure, 0, 100_000, 0) == [State.STOPPED, State.FREE]


@pytest.mark.parametrize(
    ("limit", "sway", "said"),
    [(20_000, 9_000, [State.SLOWED]), (80_000, 5_000, [State.SLOWED, State.STOPPED])],
)
def test_a_queue_that_sways_about_a_limit_says_so_once(limit, sway, said):
    swaying = [limit - sway, limit + sway] * 50
    assert states(Pressure(LIMITS), *swaying) == said


@given(st.lists(st.integers(0, 100_000), max_size=60))
def test_what_was_said_last_is_never_far_from_the_truth(sizes):
    pressure = Pressure(LIMITS)
    for jobs in sizes:
        before = pressure.states.get("fetch", State.FREE)
        paces, events = pressure.paces(FEEDS, {"parse": jobs}, {})
        state = pressure.states["fetch"]
        assert [event.state for event in events] == ([state] if state is not before else [])
        if paces["fetch"] == 0.0:
            assert state is State.STOPPED
        elif paces["fetch"] < 1.0:
            assert state is not State.FREE
        if jobs < LIMITS.soft_jobs // 2:
            assert state is State.FREE
        if state is State.STOPPED:
            assert paces["fetch"] <= 0.011


# In a closed loop: fetch fills the queue from which parse takes


@dataclass
class Loop:
    """State: a process that fetches, one that parses, and the queue between them. The supervisor
    looks at the queue once a second."""

    limits: Limits
    fetch: SimulatedStage
    parse: SimulatedStage
    fetch_slots: int
    parse_slots: int
    mean_bytes: float | None = None

    def __post_init__(self) -> None:
        self.pressure = Pressure(self.limits)
        self.events: list[PressureEvent] = []
        self.sizes: list[int] = []
        self._fetched = 0
        self._processes = [
            StageSimulation(self.fetch_slots, [self.fetch]),
            StageSimulation(self.parse_slots, [self.parse]),
        ]

    def run_for(self, duration_s: float) -> None:
        for _ in range(round(duration_s / TICK_S)):
            if self._processes[0].ticks % round(LOOK_S / TICK_S) == 0:
                self._look()
            for process in self._processes:
                process.run_for(TICK_S)
            self.parse.backlog += self.fetch.done - self._fetched
            self._fetched = self.fetch.done
            self.sizes.append(self.parse.backlog)

    def _look(self) -> None:
        means = {} if self.mean_bytes is None else {"parse": self.mean_bytes}
        paces, events = self.pressure.paces(
            {"fetch": "parse"}, {"parse": self.parse.backlog}, means
        )
        self.fetch.pace = paces["fetch"]
        self.events += events


def a_loop(
    limits: Limits, *, slots: int, fetch_s: float, parse_s: float, mean_bytes: float | None = None
) -> Loop:
    chance = random.Random(6)
    return Loop(
        limits,
        SimulatedStage(
            backlog=ENDLESS, job_s=lambda: chance.uniform(0.5, 1.5) * fetch_s, round_trip_s=0.02
        ),
        SimulatedStage(job_s=lambda: parse_s),
        fetch_slots=slots,
        parse_slots=4,
        mean_bytes=mean_bytes,
    )


SMALL = Limits(soft_jobs=1_000, hard_jobs=4_000, soft_bytes=1, hard_bytes=2)
SMALL_IN_BYTES = Limits(
    soft_jobs=10**6, hard_jobs=10**7, soft_bytes=1_000 * 1024, hard_bytes=4_000 * 1024
)


@pytest.mark.parametrize(
    ("slots", "fetch_s", "parse_s"),
    [
        pytest.param(100, 0.2, 0.01, id="a fifth faster"),
        pytest.param(200, 0.2, 0.02, id="five times"),
        pytest.param(200, 1.0, 0.4, id="twenty times"),
        pytest.param(200, 0.2, 0.4, id="a hundred times"),
    ],
)
@pytest.mark.parametrize(
    ("limits", "mean_bytes"),
    [pytest.param(SMALL, None, id="jobs"), pytest.param(SMALL_IN_BYTES, 1024.0, id="bytes")],
)
def test_a_fetch_that_is_faster_than_the_parse_settles_between_the_limits(
    slots, fetch_s, parse_s, limits, mean_bytes
):
    loop = a_loop(limits, slots=slots, fetch_s=fetch_s, parse_s=parse_s, mean_bytes=mean_bytes)
    loop.run_for(60)

    settled = loop.sizes[len(loop.sizes) // 2 :]
    assert SMALL.soft_jobs < min(settled)
    assert max(settled) < SMALL.hard_jobs
    assert max(loop.sizes) <= SMALL.hard_jobs + slots
    assert [event.state for event in loop.events] == [State.SLOWED]
    # Parse was never without work.
    assert loop.parse.slot_s > 0.9 * 4 * 60


def test_a_parse_that_stands_still_stops_the_fetch_and_both_go_on_again():
    loop = a_loop(SMALL, slots=200, fetch_s=0.2, parse_s=0.01)
    loop.parse.pace = 0.0
    loop.run_for(120)
    assert SMALL.soft_jobs < loop.sizes[-1] <= SMALL.hard_jobs + 200
    assert loop.fetch.running <= 2

    loop.parse.pace = 1.0
    loop.fetch.backlog = 0
    loop.run_for(60)
    assert loop.sizes[-1] == 0
    assert [event.state for event in loop.events][-1] is State.FREE
    assert len(loop.events) <= 4


@given(
    st.integers(1, 300),
    st.sampled_from([0.05, 0.2, 1.0]),
    st.sampled_from([0.01, 0.05, 0.5, ENDLESS]),
    st.integers(100, 2_000),
    st.integers(500, 6_000),
)
def test_the_hard_limit_is_exceeded_by_no_more_than_what_is_in_flight(
    slots, fetch_s, parse_s, soft, way
):
    # What is fetched between two looks must fit between the limits, or none could hold it.
    assume(slots / fetch_s * LOOK_S <= way)
    limits = Limits(soft, soft + way, 1, 2)
    loop = a_loop(limits, slots=slots, fetch_s=fetch_s, parse_s=parse_s)
    loop.run_for(10)
    assert max(loop.sizes) <= limits.hard_jobs + slots

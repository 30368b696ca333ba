"""The stage scheduler: its promises for any views, and its shares in simulated time."""

import random
from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.worker.source.scheduler import StageView, credits
from tests.support.simulated_stages import (
    ENDLESS,
    LOOK_S,
    TICK_S,
    SimulatedStage,
    StageSimulation,
    WindowedStage,
)


@pytest.fixture(autouse=True)
def same_lots_each_time() -> None:
    random.seed(6)


def view(
    weight: int = 1,
    *,
    cap: int = ENDLESS,
    running: int = 0,
    outstanding: int = 0,
    wanted: int = ENDLESS,
    is_idle: bool = False,
    pace: float = 1.0,
    rank: int = 0,
) -> StageView:
    return StageView(weight, cap, running, outstanding, wanted, is_idle, pace, rank)


VIEWS = st.builds(
    view,
    st.integers(1, 1000),
    cap=st.integers(1, 60),
    running=st.integers(0, 30),
    outstanding=st.integers(0, 30),
    wanted=st.integers(0, 60),
    is_idle=st.booleans(),
    pace=st.floats(0, 1),
    rank=st.integers(0, 2),
)


def ceiling(slots: int, stage: StageView) -> int:
    return int(min(stage.cap, slots) * stage.pace)


def useful(slots: int, stage: StageView) -> int:
    """The slots that it could have at most."""
    return min(ceiling(slots, stage), stage.running + stage.wanted)


def held(stage: StageView) -> int:
    return stage.running + stage.outstanding


@given(st.integers(1, 200), st.lists(VIEWS, min_size=1, max_size=5))
def test_no_promise_is_broken_whatever_the_stages_are(slots, stages):
    given_out = credits(slots, stages)

    assert len(given_out) == len(stages)
    free = slots - sum(map(held, stages))
    assert sum(given_out) <= max(0, free)
    for stage, count in zip(stages, given_out, strict=True):
        assert count >= 0
        if count:
            assert held(stage) + count <= useful(slots, stage)


@given(st.integers(1, 200), st.lists(VIEWS, min_size=1, max_size=5))
def test_no_slot_is_left_free_that_a_stage_could_use(slots, stages):
    given_out = credits(slots, stages)

    left = slots - sum(map(held, stages)) - sum(given_out)
    for stage, count in zip(stages, given_out, strict=True):
        if left > 0:
            assert held(stage) + count >= useful(slots, stage)


@given(st.integers(1, 200), st.lists(VIEWS, min_size=2, max_size=5))
def test_an_empty_stage_costs_those_with_work_nothing(slots, stages):
    given_out = credits(slots, stages)

    for stage, count in zip(stages, given_out, strict=True):
        if not stage.is_idle and held(stage) + count < useful(slots, stage):
            listeners = [
                n for other, n in zip(stages, given_out, strict=True) if other.is_idle and n
            ]
            assert not listeners


@given(st.integers(1, 200), st.lists(VIEWS, min_size=2, max_size=5))
def test_nobody_rises_above_one_that_still_waits(slots, stages):
    """By more than the one slot that cannot be divided."""
    has = [held(stage) + n for stage, n in zip(stages, credits(slots, stages), strict=True)]
    for one, other in combinations(range(len(stages)), 2):
        for low, high in ((one, other), (other, one)):
            is_same_kind = stages[low].is_idle == stages[high].is_idle
            is_same_kind &= stages[low].rank == stages[high].rank
            waits = has[low] < useful(slots, stages[low])
            rose = has[high] > held(stages[high])
            if is_same_kind and waits and rose:
                weights = stages[low].weight, stages[high].weight
                assert (has[high] - 1) * weights[0] < (has[low] + 1) * weights[1]


@given(st.integers(1, 200), st.lists(VIEWS, min_size=2, max_size=5))
def test_in_a_strict_order_nobody_gets_what_one_before_it_could_use(slots, stages):
    given_out = credits(slots, stages)
    for before, of_before in zip(stages, given_out, strict=True):
        could_use_more = held(before) + of_before < useful(slots, before)
        for after, of_after in zip(stages, given_out, strict=True):
            if could_use_more and before.rank < after.rank and before.is_idle == after.is_idle:
                assert not of_after


@pytest.mark.parametrize(
    ("slots", "stages", "expected"),
    [
        pytest.param(10, [view(), view(9, rank=1)], [10, 0], id="a strict order"),
        pytest.param(10, [view(pace=0.25), view(rank=1)], [2, 8], id="what a slowed one leaves"),
        pytest.param(
            10,
            [view(wanted=4), view(rank=1, wanted=2), view(rank=2)],
            [4, 2, 4],
            id="each what those before it leave",
        ),
        pytest.param(10, [view()], [10], id="one stage gets everything"),
        pytest.param(10, [view(wanted=3)], [3], id="and no more than it wants"),
        pytest.param(10, [view(running=6, outstanding=4)], [0], id="all taken"),
        pytest.param(10, [view(running=12)], [0], id="more than all taken"),
        pytest.param(10, [view(cap=4, running=1, outstanding=1)], [2], id="cap"),
        pytest.param(10, [view(pace=0.35)], [3], id="pace, rounded down"),
        pytest.param(10, [view(pace=0.0)], [0], id="stopped"),
        pytest.param(10, [view(cap=6, pace=0.5, running=4)], [0], id="slowed below what runs"),
        pytest.param(10, [view(is_idle=True, wanted=4)], [4], id="one empty stage listens"),
        pytest.param(100, [view(3), view(1)], [75, 25], id="by weight"),
        pytest.param(100, [view(3, cap=30), view(1)], [30, 70], id="what a cap leaves"),
        pytest.param(100, [view(3, wanted=9), view(1)], [9, 91], id="what one does not want"),
        pytest.param(100, [view(3, pace=0.1), view(1)], [10, 90], id="what a slow one leaves"),
        pytest.param(100, [view(3, running=90), view(1)], [0, 10], id="to the one below its share"),
        pytest.param(
            100, [view(3, running=40), view(1, running=40)], [20, 0], id="until both are level"
        ),
        pytest.param(
            100,
            [view(1, running=70), view(1, cap=5), view(1), view(1)],
            [0, 5, 12, 13],
            id="one above the level, one below it",
        ),
        pytest.param(
            100, [view(1, is_idle=True, wanted=4), view(1)], [0, 100], id="empty: nothing to spare"
        ),
        pytest.param(
            100, [view(1, is_idle=True, wanted=4), view(1, cap=97)], [3, 97], id="what is left over"
        ),
        pytest.param(100, [], [], id="no stage"),
    ],
)
def test_free_slots_are_given(slots, stages, expected):
    given_out = credits(slots, stages)
    # The last slot may go to either of two that are level.
    assert sum(given_out) == sum(expected)
    assert max((abs(a - b) for a, b in zip(given_out, expected, strict=True)), default=0) <= 1


def test_shares_without_a_remainder_are_not_left_to_chance():
    for _ in range(100):
        assert credits(100, [view(3), view(1), view(1)]) == [60, 20, 20]


def test_of_the_slots_that_are_drawn_for_nobody_gets_two():
    for _ in range(100):
        assert sorted(credits(11, [view(), view(), view()])) == [3, 4, 4]


@pytest.mark.parametrize(("slots", "weights"), [(1, (3, 1)), (2, (1, 1, 1)), (1, (5, 3, 2))])
def test_with_fewer_slots_than_stages_each_has_its_turn_by_weight(slots, weights):
    rounds = 20_000
    totals = [0] * len(weights)
    for _ in range(rounds):
        for at, count in enumerate(credits(slots, [view(weight) for weight in weights])):
            totals[at] += count
    for total, weight in zip(totals, weights, strict=True):
        assert total / rounds / slots == pytest.approx(weight / sum(weights), rel=0.05)


# In simulated time


def fixed(seconds: float) -> Callable[[], float]:
    return lambda: seconds


def varied(shortest_s: float, longest_s: float, seed: int = 1) -> Callable[[], float]:
    source = random.Random(seed)
    return lambda: source.uniform(shortest_s, longest_s)


def backlogged(weight: int, job_s: Callable[[], float], **fields) -> SimulatedStage:
    return SimulatedStage(weight=weight, backlog=ENDLESS, job_s=job_s, **fields)


@pytest.mark.parametrize("slots", [10, 50, 99, 100, 500])
@pytest.mark.parametrize("round_trip_s", [0.0, 0.05])
def test_two_backlogged_stages_share_by_weight(slots, round_trip_s):
    stages = [
        backlogged(weight, varied(0.3, 1.7, weight), round_trip_s=round_trip_s) for weight in (3, 1)
    ]
    simulation = StageSimulation(slots, stages)
    simulation.run_for(5)
    simulation.forget()
    simulation.run_for(150 if slots < 50 else 60)

    heavy, light = stages
    assert heavy.slot_s / light.slot_s == pytest.approx(3, rel=0.05)
    assert heavy.done / light.done == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("slots", [2, 5])
def test_a_handful_of_slots_is_shared_by_weight_in_the_long_run(slots):
    stages = [backlogged(weight, varied(0.02, 0.1, weight)) for weight in (3, 1)]
    simulation = StageSimulation(slots, stages)
    simulation.run_for(300)

    assert stages[0].done / stages[1].done == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("slots", [10, 100])
def test_jobs_that_all_end_at_once_are_shared_by_weight_too(slots):
    stages = [backlogged(weight, fixed(0.1)) for weight in (3, 1)]
    simulation = StageSimulation(slots, stages)
    simulation.run_for(200 if slots < 50 else 20)

    assert stages[0].done / stages[1].done == pytest.approx(3, rel=0.05)


def test_slots_are_what_is_shared_even_if_jobs_are_not_alike():
    """Ten times as long a job is no reason to have ten times the slots."""
    stages = [backlogged(3, varied(0.05, 0.15, 1)), backlogged(1, varied(0.5, 1.5, 2))]
    simulation = StageSimulation(100, stages)
    simulation.run_for(5)
    simulation.forget()
    simulation.run_for(60)

    assert stages[0].slot_s / stages[1].slot_s == pytest.approx(3, rel=0.05)


def test_with_one_idle_the_other_gets_all():
    busy, idle = backlogged(1, varied(0.05, 0.15)), SimulatedStage(weight=1000)
    simulation = StageSimulation(50, [busy, idle])
    simulation.run_for(3)
    simulation.forget()
    simulation.run_for(20)

    assert idle.held == 0
    assert busy.slot_s == pytest.approx(50 * 20)


def test_an_idle_stage_listens_while_there_are_slots_to_spare():
    capped, idle = backlogged(1, fixed(0.1), cap=40), SimulatedStage()
    simulation = StageSimulation(50, [capped, idle])
    simulation.run_for(5)

    assert idle.outstanding == 4
    idle.backlog = 1
    simulation.run_for(TICK_S)
    assert idle.running == 1


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (1, 9)])
def test_a_starved_stage_has_its_share_again_within_two_job_durations(weights):
    job_s = 1.0
    first, second = (
        backlogged(weights[0], varied(0.5 * job_s, job_s, 1)),
        SimulatedStage(weight=weights[1], job_s=varied(0.5 * job_s, job_s, 2)),
    )
    simulation = StageSimulation(100, [first, second])
    simulation.run_for(5)
    assert first.held == 100

    second.backlog = ENDLESS
    simulation.run_for(LOOK_S + 2 * job_s)
    share = 100 * weights[1] // sum(weights)
    assert second.held == pytest.approx(share, abs=1)


def test_a_stage_gives_way_as_its_jobs_end_and_none_is_taken_from_it():
    first, second = backlogged(1, fixed(2.0)), SimulatedStage(job_s=fixed(2.0))
    simulation = StageSimulation(10, [first, second])
    simulation.run_for(1)
    second.backlog = ENDLESS
    simulation.run_for(0.9)
    assert (first.running, second.held) == (10, 0)
    simulation.run_for(2)
    assert (first.held, second.held) == (5, 5)
    assert first.done == 10


def test_a_stage_that_is_slowed_leaves_its_slots_to_the_other():
    slowed, other = backlogged(3, fixed(0.1)), backlogged(1, fixed(0.1))
    simulation = StageSimulation(100, [slowed, other])
    simulation.run_for(1)
    slowed.pace = 0.1
    simulation.run_for(1)
    assert (slowed.held, other.held) == (10, 90)
    slowed.pace = 0.0
    simulation.run_for(1)
    assert (slowed.held, other.held) == (0, 100)
    slowed.pace = 1.0
    simulation.run_for(1)
    assert (slowed.held, other.held) == (75, 25)


LONGEST_S = 0.3
ROUND_TRIP_S = 0.05


@st.composite
def worlds(draw: st.DrawFn) -> StageSimulation:
    """Any slots, stages and arrivals, of which some change while it runs."""
    seed = draw(st.integers(0, 1000))
    chance = random.Random(seed)
    stages = [
        SimulatedStage(
            weight=draw(st.integers(1, 20)),
            cap=draw(st.sampled_from([1, 3, 10, ENDLESS])),
            pace=draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
            job_s=varied(0.0, draw(st.sampled_from([0.02, LONGEST_S])), seed),
            round_trip_s=draw(st.sampled_from([0.0, ROUND_TRIP_S])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    bursts = draw(st.integers(1, 40))

    def each_tick() -> None:
        for stage in stages:
            if chance.random() < 0.05:
                stage.backlog += chance.randrange(bursts)
            if chance.random() < 0.005:
                stage.pace = chance.choice([0.0, 0.3, 1.0])

    return StageSimulation(draw(st.integers(1, 60)), stages, each_tick)


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_in_any_world_the_promises_hold_and_everything_gets_done(simulation):
    """The simulation checks caps, paces and work-conservation after every tick."""
    simulation.run_for(3)
    stages = simulation.stages
    for stage in stages:
        stage.pace = 1.0
    simulation.each_tick = lambda: None

    waiting = sum(stage.backlog + stage.running for stage in stages)
    # At the slowest one slot does everything; and a few seconds to see each change.
    simulation.run_until(
        lambda: not any(stage.backlog + stage.running for stage in stages),
        10 + (LONGEST_S + TICK_S + ROUND_TRIP_S) * waiting,
    )


# With the windows that a worker has


def windowed(
    slots: int, *stages: tuple[int, float], round_trip_s: float = 0.05
) -> list[SimulatedStage]:
    return [
        WindowedStage(
            weight=weight,
            slots=slots,
            backlog=ENDLESS,
            job_s=varied(0.5 * job_s, 1.5 * job_s, at),
            round_trip_s=round_trip_s,
        )
        for at, (weight, job_s) in enumerate(stages)
    ]


@pytest.mark.parametrize("job_s", [0.2, 1.0])
def test_stages_with_real_windows_share_by_weight(job_s):
    stages = windowed(100, (3, job_s), (1, job_s))
    simulation = StageSimulation(100, stages)
    simulation.run_for(5)
    simulation.forget()
    simulation.run_for(60)

    assert stages[0].done / stages[1].done == pytest.approx(3, rel=0.05)


def test_a_real_window_grows_into_what_the_other_leaves():
    first, second = windowed(100, (3, 0.5), (1, 0.5))
    simulation = StageSimulation(100, [first, second])
    simulation.run_for(5)
    first.backlog = 0
    simulation.run_for(5)
    assert first.running == 0
    assert second.held >= 90

    first.backlog = ENDLESS
    simulation.run_for(5)
    assert first.held == pytest.approx(75, abs=5)

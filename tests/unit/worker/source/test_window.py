"""The window: its promises under any sequence of events, and its use of slots in simulated time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from manyhands.worker.source.window import (
    BURST,
    ERROR_PAUSE_S,
    GROUP,
    INTERVAL_S,
    LINES_PER_LANE,
    MORE_PER_S,
    REMEMBERED_INTERVALS,
    RateMeter,
    Window,
    spread,
)
from tests.support.simulated_server import FETCH_BLOCKS_S, Simulation


class AnythingThatHappens(RuleBasedStateMachine):
    """Events in any order; `lanes` is what is outstanding on each, as the source counts it."""

    @initialize(
        slots=st.integers(1, 40),
        idle=st.integers(1, 60),
        lanes=st.integers(1, 5),
        round_trip_s=st.sampled_from([0.0, 0.05, 0.2]),
    )
    def start(self, slots, idle, lanes, round_trip_s):
        self.now = 50.0
        self.unanswered = 0
        self.lanes = [0] * lanes
        self.down = 0
        self.window = Window(slots=slots, idle_fetches=idle)
        self.window.planned_lanes = lanes
        self.window.lanes = lanes
        self.window.round_trip_s = round_trip_s

    @rule()
    def send_what_is_allowed(self):
        credits = self.window.credits(self.now, self.unanswered)
        assert credits >= 0
        if credits:
            shares = spread(credits, self.lanes)
            self.lanes = [had + got for had, got in zip(self.lanes, shares, strict=True)]
            self.window.sent(credits, self.now)

    @precondition(lambda self: any(self.lanes))
    @rule(answer=st.sampled_from(["job", "job", "job", "empty", "error"]))
    def one_fetch_is_answered(self, answer):
        self.lanes[self.lanes.index(max(self.lanes))] -= 1
        if answer == "job":
            self.window.job_arrived(self.now)
        elif answer == "empty":
            self.window.empty_answer()
        else:
            self.window.error_answer(self.now)

    @precondition(lambda self: self.window.running)
    @rule()
    def a_job_ends(self):
        self.window.job_ended()
        self.unanswered += 1

    @precondition(lambda self: self.unanswered)
    @rule()
    def a_result_is_answered(self):
        self.unanswered -= 1

    @precondition(lambda self: self.lanes)
    @rule()
    def a_lane_is_lost(self):
        self.window.lane_lost(self.lanes.pop())
        self.window.lanes = len(self.lanes)
        self.down += 1

    @precondition(lambda self: self.down)
    @rule()
    def a_lane_comes_back(self):
        self.lanes.append(0)
        self.window.lanes = len(self.lanes)
        self.down -= 1

    @rule(passed_s=st.floats(0.001, 5))
    def time_passes(self, passed_s):
        self.now += passed_s

    @rule(is_open=st.booleans())
    def it_is_opened_or_closed(self, is_open):
        self.window.is_open = is_open

    @invariant()
    def promises_are_kept(self):
        window = self.window
        assert window.outstanding == sum(self.lanes) >= 0
        assert window.running >= 0
        assert window.outstanding + window.running <= window.slots
        assert 1 <= window.size <= window.slots


TestAnythingThatHappens = AnythingThatHappens.TestCase


def a_window(**fields) -> Window:
    window = Window(slots=100, idle_fetches=4)
    window.lanes = window.planned_lanes = 10
    for name, value in fields.items():
        setattr(window, name, value)
    return window


def test_an_idle_worker_asks_a_handful_of_times():
    assert a_window().credits(1.0, 0) == 4


def test_no_worker_asks_for_more_than_its_slots_even_when_idle():
    window = Window(slots=2, idle_fetches=50)
    window.lanes = 1
    assert window.credits(1.0, 0) == 2


def test_without_a_lane_nothing_is_sent():
    assert a_window(lanes=0).credits(1.0, 0) == 0


def test_a_closed_window_sends_nothing():
    assert a_window(is_open=False).credits(1.0, 0) == 0


def test_results_that_are_not_answered_hold_back_the_fetches():
    window = a_window(size=100, running=40)
    assert window.credits(1.0, 0) > 0
    assert window.credits(1.0, LINES_PER_LANE * window.lanes) == 0


def test_a_job_that_waits_for_the_answer_to_its_result_takes_no_slot():
    window = a_window(slots=20, size=20)
    assert window.credits(1.0, window.slots) == window.credits(1.0, 0) == 20


def test_each_job_lets_one_more_fetch_out_up_to_the_slots():
    window = a_window()
    for _ in range(200):
        window.sent(1, 1.0)
        window.job_arrived(1.0)
        window.job_ended()
    assert window.size == window.slots


def test_an_empty_answer_ends_the_rush():
    window = a_window(size=80, outstanding=80)
    window.empty_answer()
    assert window.size == 4
    assert window.credits(1.0, 0) == 0
    for _ in range(79):
        window.empty_answer()
    assert window.credits(1.0, 0) == 4


def test_an_error_pauses_the_fetches_and_then_goes_on():
    window = a_window(outstanding=1)
    window.error_answer(10.0)
    assert window.credits(10.0 + ERROR_PAUSE_S - 0.01, 0) == 0
    assert window.credits(10.0 + ERROR_PAUSE_S, 0) > 0


def test_a_lost_lane_gives_its_credits_back():
    window = a_window(size=4)
    window.sent(window.credits(1.0, 0), 1.0)
    assert window.credits(1.0, 0) == 0
    window.lane_lost(3)
    assert window.credits(1.0, 0) == 3


def test_the_meter_remembers_the_best_interval_for_a_while():
    meter = RateMeter()
    now = 100.0
    meter.per_second(now)
    for _ in range(50):
        meter.count(now)
    step_s = 1.01 * INTERVAL_S
    now += step_s
    assert meter.per_second(now) == pytest.approx(50 / step_s)
    for _ in range(REMEMBERED_INTERVALS - 2):
        now += step_s
        assert meter.per_second(now) == pytest.approx(50 / step_s)
    for _ in range(3):
        now += step_s
        forgotten = meter.per_second(now)
    assert forgotten == 0


def test_the_meter_forgets_all_after_a_long_silence():
    meter = RateMeter()
    meter.per_second(100.0)
    for _ in range(50):
        meter.count(100.0)
    meter.per_second(100.2)
    assert meter.per_second(100.2 + INTERVAL_S * REMEMBERED_INTERVALS + 1) == 0


@given(st.integers(0, 300), st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_spread_gives_out_exactly_what_there_is(count, outstanding):
    given_out = spread(count, outstanding)
    assert sum(given_out) == count
    assert len(given_out) == len(outstanding)
    assert min(given_out) >= 0
    assert max(given_out) - min(given_out) <= GROUP


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_a_single_fetch_goes_to_a_least_loaded_lane(outstanding):
    (lane,) = [at for at, got in enumerate(spread(1, outstanding)) if got]
    assert outstanding[lane] == min(outstanding)


def test_an_idle_worker_spreads_its_fetches_singly():
    assert sorted(spread(4, [0] * 8)) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_lanes_without_a_fetch_get_one_each_before_any_gets_two():
    assert spread(12, [0] * 8).count(0) == 0


def test_under_load_fetches_go_out_in_groups_to_the_least_loaded_lanes():
    given_out = spread(3 * GROUP + 2, [20, 5, 20, 7, 20, 6, 20, 8, 20, 20])
    assert given_out == [0, GROUP, 0, GROUP, 0, GROUP, 0, 2, 0, 0]


@given(st.integers(0, 300), st.integers(1, 20))
def test_groups_are_no_larger_than_what_a_lane_has(count, lanes):
    given_out = spread(count, [0] * lanes)
    assert max(given_out) <= max(1, 2 * count // lanes)


# In simulated time, with a server, a network and jobs


@pytest.mark.parametrize("round_trip_s", [0.0, 0.001, 0.05, 0.2])
@pytest.mark.parametrize(("slots", "lanes"), [(500, 48), (500, 8), (50, 16), (2000, 48)])
def test_a_backlog_keeps_the_slots_full_at_any_distance(round_trip_s, slots, lanes):
    world = Simulation(slots=slots, lane_count=lanes, round_trip_s=round_trip_s)
    world.push(slots * 25)
    world.run_for(10)
    before = world.finished
    world.run_for(8)
    assert world.backlog > 0
    assert (world.finished - before) / 8 >= 0.9 * slots / (world.job_s + round_trip_s)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.05, 0.2])
def test_short_jobs_are_fetched_as_fast_as_the_slots_turn_over(round_trip_s):
    world = Simulation(
        slots=200, lane_count=48, round_trip_s=round_trip_s, job_s=0.1, service_s=0.0002
    )
    world.push(40_000)
    world.run_for(8)
    before = world.finished
    world.run_for(5)
    assert world.backlog > 0
    # Two milliseconds are spent on gathering lines.
    turn_s = world.job_s + round_trip_s + world.service_s + 0.002
    assert (world.finished - before) / 5 >= 0.85 * world.slots / turn_s


@pytest.mark.parametrize("round_trip_s", [0.0, 0.05, 0.2])
def test_a_server_that_is_slow_with_results_is_never_without_one(round_trip_s):
    """Results and FETCHes level off: neither runs out while the other piles up."""
    world = Simulation(
        slots=1000, lane_count=38, round_trip_s=round_trip_s, job_s=0.0, result_s=0.0005
    )
    world.push(20_000)
    world.run_for(3)
    before_s = world.without_results_s
    world.run_for(5)
    assert world.backlog > 0
    assert world.without_results_s - before_s < 0.05


@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_every_pushed_job_is_run_and_nothing_is_left_over(round_trip_s):
    world = Simulation(slots=30, lane_count=5, round_trip_s=round_trip_s, job_s=0.3)
    for number in range(40):
        world.push_later(number * 0.37, (number * 7) % 23)
    world.run_for(60)
    pushed = sum((number * 7) % 23 for number in range(40))
    assert world.finished == world.started == pushed
    assert world.backlog == 0
    assert world.window.running == 0
    assert world.unanswered == 0


@pytest.mark.parametrize("idle_fetches", [1, 4, 20])
@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_an_empty_queue_brings_the_fetches_down_to_the_idle_ones(idle_fetches, round_trip_s):
    world = Simulation(
        slots=200,
        lane_count=20,
        idle_fetches=idle_fetches,
        round_trip_s=round_trip_s,
        job_s=0.1,
    )
    world.push(5000)
    while world.backlog:
        world.run_for(0.1)
    world.run_for(1.0)  # the last jobs run, the last FETCHes that were due go out
    deepest = max(lane.outstanding for lane in world.lanes)
    world.run_for(FETCH_BLOCKS_S)
    assert world.window.size == idle_fetches
    world.run_for(deepest * FETCH_BLOCKS_S)
    assert world.finished == 5000
    assert world.window.outstanding == idle_fetches
    before = world.fetches
    world.run_for(60)
    assert world.window.outstanding <= idle_fetches
    assert world.fetches - before <= idle_fetches * 60 / FETCH_BLOCKS_S + idle_fetches


@pytest.mark.parametrize("round_trip_s", [0.0, 0.05, 0.2])
def test_a_trickle_keeps_flowing_without_delay(round_trip_s):
    world = Simulation(slots=100, lane_count=10, round_trip_s=round_trip_s, job_s=0.5)
    world.run_for(30)
    for number in range(200):
        world.push_later(number * 0.33, 1)
    world.run_for(120)
    assert world.finished == 200
    assert world.longest_wait_s <= 2 * round_trip_s + 0.1


def test_a_burst_after_silence_is_taken_up_quickly():
    world = Simulation(slots=500, lane_count=48, round_trip_s=0.05, job_s=5.0)
    world.run_for(30)
    world.push(5000)
    world.run_for(3)
    assert world.window.running + world.window.outstanding >= 450


def test_a_lost_lane_costs_no_slots():
    world = Simulation(slots=100, lane_count=4, round_trip_s=0.05, job_s=0.5)
    world.push(3000)
    world.run_for(3)
    for lane in range(3):
        world.lose_lane(lane)
        world.run_for(0.5)
    assert world.window.lanes == 1
    world.run_for(2)
    for lane in range(3):
        world.restore_lane(lane)
    world.run_for(3)
    before = world.finished
    world.run_for(4)
    assert world.backlog > 0
    assert (world.finished - before) / 4 >= 0.9 * 100 / 0.55


def test_all_lanes_lost_and_back_again_leave_nothing_outstanding_behind():
    world = Simulation(slots=50, lane_count=3, round_trip_s=0.2)
    world.run_for(5)
    for lane in range(3):
        world.lose_lane(lane)
    assert world.window.outstanding == 0
    world.run_for(5)
    assert world.window.outstanding == 0
    for lane in range(3):
        world.restore_lane(lane)
    world.push(20)
    world.run_for(30)
    assert world.finished == 20


# Jobs that start together would end together


def test_a_burst_is_bounded_and_grows_with_time():
    window = a_window(slots=10_000, size=10_000, depth_per_lane=1024, lines_per_lane=2048)
    assert window.credits(1.0, 0) == BURST
    window.sent(BURST, 1.0)
    assert window.credits(1.0, 0) == 0
    assert window.credits(1.0 + 10.5 / MORE_PER_S, 0) == 10
    assert window.credits(2.0, 0) == BURST


def test_jobs_that_ended_are_replaced_at_once_and_a_quarter_more():
    window = a_window(slots=10_000, size=10_000, depth_per_lane=1024, lines_per_lane=2048)
    window.running = 2000
    window.sent(BURST, 1.0)
    for _ in range(1000):
        window.job_ended()
    assert window.credits(1.0, 0) == 1250
    window.sent(1250, 1.0)
    assert window.credits(1.0, 0) == 0


def test_jobs_that_trickle_in_are_never_kept_waiting():
    """2,500 a second that last for ever: each FETCH that was answered is followed by another."""
    window = a_window(slots=10_000, depth_per_lane=1024, lines_per_lane=2048)
    now = 1.0
    window.sent(window.credits(now, 0), now)
    for _ in range(4000):
        now += 1 / 2500
        window.job_arrived(now)
        assert window.credits(now, 0) >= 1
        assert not window.is_cut_short
        window.sent(window.credits(now, 0), now)

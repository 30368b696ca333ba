"""When a child that ended is started again."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.supervision.restarts import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    LOOP_ENDS,
    LOOP_WITHIN_S,
    WELL_AFTER_S,
    Restarts,
)

START = 100.0


def lives(restarts: Restarts, started_at: float, for_s: float) -> float:
    restarts.started(started_at)
    return restarts.ended(started_at + for_s)


def test_the_first_end_is_followed_by_a_start_almost_at_once():
    assert lives(Restarts(), START, 1.0) == FIRST_DELAY_S


def test_each_end_doubles_the_delay():
    restarts = Restarts()
    delays = [lives(restarts, START + 20 * n, 1.0) for n in range(4)]
    assert delays == [FIRST_DELAY_S * factor for factor in (1, 2, 4, 8)]
    assert not restarts.is_looping


def test_a_child_that_was_well_for_a_while_begins_anew():
    restarts = Restarts()
    lives(restarts, START, 1.0)
    lives(restarts, START + 20, 1.0)
    assert lives(restarts, START + 40, WELL_AFTER_S) == FIRST_DELAY_S


def test_many_ends_within_a_minute_are_a_crash_loop():
    restarts = Restarts()
    for n in range(LOOP_ENDS - 1):
        lives(restarts, START + n, 0.5)
        assert not restarts.is_looping
    assert lives(restarts, START + LOOP_ENDS, 0.5) == LONGEST_DELAY_S
    assert restarts.is_looping


def test_as_many_ends_over_a_longer_time_are_none():
    restarts = Restarts()
    step_s = LOOP_WITHIN_S / (LOOP_ENDS - 1) + 1
    for n in range(LOOP_ENDS):
        lives(restarts, START + n * step_s, 1.0)
    assert not restarts.is_looping


def test_a_crash_loop_lasts_until_the_child_was_well():
    restarts = Restarts()
    for n in range(LOOP_ENDS):
        lives(restarts, START + n, 0.5)
    assert lives(restarts, START + 500, WELL_AFTER_S - 1) == LONGEST_DELAY_S
    assert restarts.is_looping
    assert lives(restarts, START + 1000, WELL_AFTER_S) == FIRST_DELAY_S
    assert not restarts.is_looping


def test_who_is_forgiven_begins_anew():
    restarts = Restarts()
    for n in range(LOOP_ENDS):
        lives(restarts, START + n, 0.5)
    restarts.forgive()
    assert not restarts.is_looping
    assert lives(restarts, START + LOOP_ENDS, 0.5) == FIRST_DELAY_S
    assert restarts.count == LOOP_ENDS + 1


@given(st.lists(st.floats(0, 200), max_size=60))
def test_the_delay_is_never_longer_than_the_longest_nor_shorter_than_the_first(lifetimes):
    restarts, now = Restarts(), START
    for lifetime_s in lifetimes:
        delay_s = lives(restarts, now, lifetime_s)
        assert FIRST_DELAY_S <= delay_s <= LONGEST_DELAY_S
        now += lifetime_s + delay_s
    assert restarts.count == len(lifetimes)

"""When a lane that still owes answers may be closed."""

import pytest

from manyhands.worker.source.drain import (
    LINGER_S,
    LINGER_SILENCE_S,
    SURE_AFTER_S,
    LaneDrain,
    should_linger,
)

START = 100.0


@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_a_stop_lingers_while_jobs_still_come(round_trip_s):
    now = START + 1.0
    assert should_linger(now, START, now - 0.1, deepest=5, round_trip_s=round_trip_s)


def test_a_stop_does_not_linger_for_lanes_that_are_one_deep():
    assert not should_linger(START, START, START, deepest=1, round_trip_s=0.0)
    assert not should_linger(START, START, START, deepest=0, round_trip_s=0.0)
    assert should_linger(START, START, START, deepest=2, round_trip_s=0.0)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_a_stop_lingers_no_longer_than_its_limit_though_jobs_still_come(round_trip_s):
    before = START + LINGER_S + round_trip_s - 0.01
    after = START + LINGER_S + round_trip_s + 0.01
    assert should_linger(before, START, before, deepest=9, round_trip_s=round_trip_s)
    assert not should_linger(after, START, after, deepest=9, round_trip_s=round_trip_s)


@pytest.mark.parametrize("round_trip_s", [0.0, 0.2])
def test_a_stop_does_not_linger_in_silence(round_trip_s):
    silence_s = LINGER_SILENCE_S + round_trip_s
    assert should_linger(START + silence_s - 0.01, START, 0.0, 9, round_trip_s)
    assert not should_linger(START + silence_s + 0.01, START, 0.0, 9, round_trip_s)
    arrived_at = START + 0.2
    assert should_linger(arrived_at + silence_s - 0.01, START, arrived_at, 9, round_trip_s)


def answered(drain: LaneDrain, now: float, outstanding: int = 3, **how) -> bool:
    drain.answered(now, outstanding, **({"was_empty": True, "round_trip_s": 0.0} | how))
    return drain.is_over


def test_a_lane_that_owes_nothing_is_over():
    assert answered(LaneDrain(), START, outstanding=0, was_empty=False)


def test_an_empty_answer_from_before_the_quiet_does_not_count():
    assert not answered(LaneDrain(), START)


def test_an_empty_answer_right_after_the_quiet_does_not_count():
    drain = LaneDrain(quieted_at=START)
    assert not answered(drain, START + SURE_AFTER_S - 0.01)
    assert answered(drain, START + SURE_AFTER_S)


def test_a_long_path_makes_an_empty_answer_sure_later():
    drain = LaneDrain(quieted_at=START)
    assert not answered(drain, START + 0.9, round_trip_s=0.5)
    assert answered(drain, START + 1.0, round_trip_s=0.5)


def test_a_job_is_no_sign_that_the_gate_is_shut():
    assert not answered(LaneDrain(quieted_at=START), START + 100, was_empty=False)


def test_what_is_over_stays_over_when_a_job_comes_after_all():
    drain = LaneDrain(quieted_at=START)
    assert answered(drain, START + 5)
    assert answered(drain, START + 6, was_empty=False)

"""A child that is well, one that computes, and one that hangs."""

import pytest

from manyhands.worker.supervision.liveness import (
    BUSY_TIMEOUTS,
    COMPUTING_SHARE,
    MOST_COUNTED_S,
    SILENT_AFTER_S,
    START_TIMEOUT_S,
    Liveness,
    Watch,
    judge,
)

START = 100.0
TIMEOUT_S = 120.0


def test_a_moment_of_silence_is_nothing():
    assert judge(SILENT_AFTER_S - 0.1, 0.0, TIMEOUT_S) is Liveness.WELL


def test_who_is_silent_without_computing_hangs_after_the_time_out():
    assert judge(TIMEOUT_S - 0.1, 0.0, TIMEOUT_S) is Liveness.BUSY
    assert judge(TIMEOUT_S, 0.0, TIMEOUT_S) is Liveness.HUNG


def test_who_computes_is_busy_for_longer():
    assert judge(TIMEOUT_S, TIMEOUT_S, TIMEOUT_S) is Liveness.BUSY
    assert judge(TIMEOUT_S, TIMEOUT_S * COMPUTING_SHARE, TIMEOUT_S) is Liveness.BUSY
    assert judge(TIMEOUT_S, TIMEOUT_S * COMPUTING_SHARE * 0.9, TIMEOUT_S) is Liveness.HUNG


def test_who_computes_for_ever_hangs():
    most_s = BUSY_TIMEOUTS * TIMEOUT_S
    assert judge(most_s - 0.1, most_s, TIMEOUT_S) is Liveness.BUSY
    assert judge(most_s, most_s, TIMEOUT_S) is Liveness.HUNG


def test_without_processor_times_only_the_long_time_out_counts():
    assert judge(TIMEOUT_S, None, TIMEOUT_S) is Liveness.BUSY
    assert judge(BUSY_TIMEOUTS * TIMEOUT_S, None, TIMEOUT_S) is Liveness.HUNG


def test_a_short_time_out_is_kept_too():
    assert judge(1.0, 0.0, 1.0) is Liveness.HUNG


def looks(watch: Watch, for_s: int, cpu_share: float = 0.0, cpu_s: float = 0.0) -> Liveness:
    """One look a second, while the child uses so much of a processor."""
    for _ in range(for_s):
        cpu_s += cpu_share
        liveness = watch.look(watch.looked_at + 1, cpu_s)
    return liveness


def test_each_word_ends_the_silence():
    watch = Watch(10.0, START)
    for _ in range(5):
        watch.heard()
        assert looks(watch, 9) is Liveness.BUSY
    assert looks(watch, 1) is Liveness.HUNG


def test_what_it_computed_before_the_silence_does_not_count():
    watch = Watch(10.0, START)
    watch.heard()
    watch.look(START + 1, 500.0)
    assert looks(watch, 9, cpu_s=500.0) is Liveness.HUNG
    assert watch.used_s == 0.0


def test_what_it_computes_in_silence_counts():
    watch = Watch(10.0, START)
    watch.heard()
    assert looks(watch, 20, cpu_share=0.5) is Liveness.BUSY
    assert watch.silence_s == 20


@pytest.mark.parametrize("hang_timeout_s", [1.0, 3600.0])
def test_a_child_that_starts_has_a_time_out_of_its_own(hang_timeout_s):
    watch = Watch(hang_timeout_s, START)
    assert looks(watch, int(START_TIMEOUT_S) - 1) is Liveness.BUSY
    assert looks(watch, 1) is Liveness.HUNG


def test_time_in_which_the_supervisor_stood_still_is_no_silence():
    watch = Watch(10.0, START)
    watch.heard()
    assert watch.look(START + 3600, 0.0) is Liveness.WELL
    assert watch.silence_s == MOST_COUNTED_S

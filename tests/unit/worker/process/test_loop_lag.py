"""How late the loop is: the arithmetic, and the look itself at a loop that stands still."""

import asyncio
import time

import pytest

from manyhands.worker.process.loop_lag import (
    LOOK_EVERY_S,
    Lag,
    LoopLag,
    lags_of,
    percentile,
    summarize,
)


def test_without_a_look_there_is_no_lag():
    assert summarize([]) == Lag(0.0, 0.0, 0.0)


def test_the_summary_is_of_all_looks_in_any_order():
    assert summarize([0.3, 0.1, 0.2]) == Lag(0.2, 0.3, 0.3)


@pytest.mark.parametrize(
    ("count", "percent", "found"),
    [
        (1, 50, 1),
        (1, 99, 1),
        (2, 50, 1),
        (100, 50, 50),
        (100, 99, 99),
        (250, 99, 248),
        (10, 99, 10),
    ],
)
def test_a_percentile_is_one_of_the_values(count, percent, found):
    assert percentile(range(1, count + 1), percent) == found


def test_a_look_in_time_is_one_look():
    assert lags_of(0.0, 0.02) == [0.0]
    assert lags_of(0.019, 0.02) == [0.019]


def test_a_late_look_counts_for_those_that_it_kept_away():
    assert lags_of(0.0625, 0.02) == pytest.approx([0.0625, 0.0425, 0.0225, 0.0025])


def test_a_loop_that_stands_still_for_half_of_the_time_is_late_at_the_99th_percentile():
    """Fifty looks come in time, then one comes a second late in the place of fifty."""
    lag = summarize([0.0] * 50 + lags_of(1.0, 0.02))
    assert lag.p99_s == pytest.approx(0.98)
    assert lag.p50_s < 0.05
    assert lag.max_s == 1.0


async def test_a_loop_that_is_held_up_is_seen():
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(LOOK_EVERY_S * 2)
    time.sleep(LOOK_EVERY_S * 10)  # noqa: ASYNC251
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    lag.stop()
    held_up_s = LOOK_EVERY_S * 9
    assert lag.take_worst_s() >= held_up_s
    assert lag.take().max_s >= held_up_s


async def test_what_was_taken_does_not_count_again():
    lag = LoopLag()
    lag.start()
    await asyncio.sleep(LOOK_EVERY_S * 3)
    lag.stop()
    lag.take()
    lag.take_worst_s()
    assert lag.take() == Lag(0.0, 0.0, 0.0)
    assert lag.take_worst_s() == 0.0


async def test_a_stopped_one_looks_no_more():
    lag = LoopLag()
    lag.stop()
    lag.start()
    lag.stop()
    await asyncio.sleep(LOOK_EVERY_S * 2)
    assert lag.take() == Lag(0.0, 0.0, 0.0)

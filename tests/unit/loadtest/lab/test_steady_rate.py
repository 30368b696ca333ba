"""The steady window: where it begins and ends, and when it is too short to count."""

import pytest

from loadtest.lab.measure import Sample, steady_rate
from loadtest.lib.errors import RunError


def samples_of(*points: tuple[float, int, int]) -> list[Sample]:
    return [Sample(at_s, processed, queued, 0, 0) for at_s, processed, queued in points]


def steadily(jobs_per_s: int, jobs: int, step_s: float = 0.25) -> list[Sample]:
    points = []
    for index in range(int(jobs / jobs_per_s / step_s) + 1):
        done = round(index * step_s * jobs_per_s)
        points.append((index * step_s, done, jobs - done))
    return samples_of(*points)


def test_a_steady_run_has_its_rate_between_10_and_90_percent():
    rate, window_s = steady_rate(steadily(1000, 10_000), 10_000)
    assert rate == pytest.approx(1000)
    assert window_s == pytest.approx(8.0)


def test_a_slow_beginning_does_not_count():
    samples = samples_of((0, 0, 1000), (9, 50, 950), (10, 100, 900), (14, 900, 100), (30, 1000, 0))
    assert steady_rate(samples, 1000) == (200.0, 4.0)


def test_it_begins_no_sooner_than_all_fetches_are_awake():
    samples = samples_of((0, 0, 1000), (1, 200, 800), (2, 300, 700), (4, 900, 100))
    assert steady_rate(samples, 1000)[0] == pytest.approx(700 / 3)
    assert steady_rate(samples, 1000, not_before_s=1.5) == (300.0, 2.0)


def test_it_ends_when_the_queue_is_empty_unless_jobs_still_come():
    samples = samples_of((0, 100, 500), (2, 500, 0), (3, 900, 0))
    assert steady_rate(samples, 1000) == (200.0, 2.0)
    assert steady_rate(samples, 1000, ends_when_empty=False) == (800 / 3, 3.0)


def test_a_run_that_is_over_too_soon_is_refused():
    with pytest.raises(RunError, match="too few jobs"):
        steady_rate(samples_of((0, 0, 1000), (0.1, 500, 500), (0.2, 1000, 0)), 1000)
    with pytest.raises(RunError, match="too few jobs"):
        steady_rate(samples_of((0, 0, 1000), (1.9, 1000, 0)), 1000, not_before_s=2.0)

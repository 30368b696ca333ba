"""A value counts in the first bucket whose bound it does not exceed."""

import pytest

from manyhands.shared.histogram import Histogram


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.5, 1), (2.0, 1), (2.1, 2)])
def test_a_value_is_in_one_bucket(value: float, bucket: int):
    histogram = Histogram((1.0, 2.0))
    histogram.add(value)
    assert [place for place, count in enumerate(histogram.buckets) if count] == [bucket]
    assert (len(histogram.buckets), histogram.sum) == (3, value)


def test_the_mean_is_that_of_all_values_and_0_without_any():
    histogram = Histogram((1.0,))
    assert histogram.mean == 0.0
    for value in (0.5, 2.5):
        histogram.add(value)
    assert histogram.mean == 1.5

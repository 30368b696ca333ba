"""Percentiles and ranges."""

import pytest

from loadtest.lib.stats import Spread, percentile
from loadtest.lib.tables import spread_text, table_head


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent, expected):
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_a_percentile_of_few_values_is_one_of_them():
    assert percentile([3.0], 50) == percentile([3.0], 99) == 3.0
    assert percentile([2.0, 1.0], 99) == 2.0


def test_a_percentile_of_nothing_is_0():
    assert percentile([], 99) == 0.0


def test_a_spread_is_median_smallest_and_largest():
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([]) is None


def test_a_spread_is_written_with_its_range_and_nothing_as_a_dash():
    assert spread_text(Spread(1234.5, 1000.0, 2000.0)) == "1,234 (1,000 to 2,000)"
    assert spread_text(Spread(1.0, 0.5, 2.0), 2) == "1.00 (0.50 to 2.00)"
    assert spread_text(None) == "-"


def test_a_table_has_its_texts_left_and_its_numbers_right():
    assert table_head(("a", "b", "c"), texts=2) == ["| a | b | c |", "| --- | --- | ---: |"]

"""Keys of jobs: a queue is a range of them."""

import pytest

from manyhands.broker.schema import SEQUENCE_BITS, key_ranges


@pytest.mark.parametrize(
    ("chosen", "others", "ranges"),
    [
        (set(), {1}, []),
        ({3}, set(), [(3, 4)]),
        ({1, 2, 9}, set(), [(1, 10)]),
        ({1, 2, 9}, {5}, [(1, 3), (9, 10)]),
        ({1, 3, 5}, {2, 4}, [(1, 2), (3, 4), (5, 6)]),
        ({2}, {1, 3}, [(2, 3)]),
    ],
)
def test_queues_that_follow_each_other_are_one_range(chosen, others, ranges):
    found = [(a >> SEQUENCE_BITS, b >> SEQUENCE_BITS) for a, b in key_ranges(chosen, others)]
    assert found == ranges

"""The shape of a burst."""

import pytest

from loadtest.load.bursts import users_at


@pytest.mark.parametrize(
    ("second", "users"),
    [(0, 20), (6.9, 20), (7.1, 200), (9.9, 200), (10.1, 20), (28, 200), (30, None), (31, None)],
)
def test_a_burst_ends_every_period(second, users):
    assert users_at(second, 30, 200) == users


def test_a_short_run_has_its_burst_too():
    assert [users_at(second, 2, 50) for second in (0, 1.3, 1.5, 2)] == [5, 5, 50, None]


def test_somebody_is_always_there():
    assert users_at(0, 10, 3) == 1

"""What all keys together, and one of them, may hold at a time."""

import pytest

from manyhands.api.budget import Shares
from manyhands.api.keys import Key
from manyhands.api.problems import Problem

ONE, OTHER = Key("one", frozenset(), b""), Key("other", frozenset(), b"")


def test_more_than_all_may_hold_is_told_to_come_again():
    shares = Shares(10, keys=1)
    with shares.hold(ONE, 6), shares.hold(ONE, 4):
        with pytest.raises(Problem) as caught, shares.hold(ONE, 1):
            pass
        assert (caught.value.status, caught.value.retry_after_s) == (429, 1)
    with shares.hold(ONE, 10):
        pass


def test_one_key_of_several_leaves_room_for_the_others():
    shares = Shares(10, keys=2)
    with shares.hold(ONE, 5):
        with (
            pytest.raises(Problem, match="'one' uses its whole share") as caught,
            shares.hold(ONE, 1),
        ):
            pass
        assert (caught.value.status, caught.value.retry_after_s) == (429, 1)
        with shares.hold(OTHER, 5), pytest.raises(Problem), shares.hold(OTHER, 1):
            pass


def test_a_refusal_takes_nothing_and_a_failure_gives_back():
    shares = Shares(10, keys=2)
    with pytest.raises(ZeroDivisionError), shares.hold(ONE, 5):
        raise ZeroDivisionError
    with shares.hold(ONE, 3):
        with pytest.raises(Problem), shares.hold(ONE, 3):
            pass
        with shares.hold(ONE, 2):
            pass


def test_one_that_is_larger_than_its_share_has_its_turn_alone():
    shares = Shares(10, keys=2)
    with shares.hold(ONE, 100), pytest.raises(Problem), shares.hold(OTHER, 1):
        pass
    with shares.hold(OTHER, 1), pytest.raises(Problem), shares.hold(ONE, 100):
        pass

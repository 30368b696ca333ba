"""How many bytes may be held at a time."""

import pytest

from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import OverBudget


def test_what_is_given_back_can_be_taken_again():
    budget = ByteBudget(10)
    for _ in range(3):
        budget.take(10)
        budget.give_back(10)
    assert budget.held == 0


def test_more_than_the_budget_is_refused_and_nothing_is_taken():
    budget = ByteBudget(10)
    budget.take(6)
    budget.take(4)
    with pytest.raises(OverBudget, match="1 bytes more are too many: 10 of 10 are held already"):
        budget.take(1)
    assert budget.held == 10


def test_a_failure_gives_back_what_was_held():
    budget = ByteBudget(10)
    with pytest.raises(ZeroDivisionError), budget.hold(10):
        raise ZeroDivisionError
    assert budget.held == 0


def test_a_refusal_gives_nothing_back():
    budget = ByteBudget(10)
    with budget.hold(8):
        with pytest.raises(OverBudget), budget.hold(3):
            pass
        assert budget.held == 8


def test_one_that_is_larger_than_the_budget_has_its_turn_alone():
    budget = ByteBudget(10)
    with budget.hold(100), pytest.raises(OverBudget), budget.hold(1):
        pass
    with budget.hold(1), pytest.raises(OverBudget), budget.hold(100):
        pass


def test_more_than_was_taken_cannot_be_given_back():
    budget = ByteBudget(10)
    budget.take(3)
    with pytest.raises(AssertionError):
        budget.give_back(4)

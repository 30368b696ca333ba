"""Whether the wall clock was set, told by the two clocks."""

import pytest

from manyhands.shared.clock import STEP_S, Steps


@pytest.mark.parametrize("step_s", [-3600.0, 7200.0, -600.0])
def test_a_step_of_the_wall_clock_is_told_once(step_s):
    steps = Steps(100.0, 1_000_000.0)
    assert steps.look(101.0, 1_000_001.0) == 0
    assert steps.look(102.0, 1_000_002.0 + step_s) == step_s
    assert steps.look(500.0, 1_000_400.0 + step_s) == 0


def test_a_clock_that_is_slewed_was_not_set_until_that_makes_a_second():
    steps = Steps(0.0, 1_000_000.0)
    assert steps.look(1000.0, 1_001_000.0 + STEP_S / 2) == 0
    assert steps.look(2000.0, 1_002_000.0 + STEP_S) == pytest.approx(STEP_S)
    assert steps.look(2001.0, 1_002_001.0 + STEP_S) == 0

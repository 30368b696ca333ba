from manyhands.cli.stall import AFTER_S, Stall


def test_nothing_for_long_is_told_once():
    stall = Stall(now=100.0)
    assert not stall.look((1,), 100.0)
    assert not stall.look((1,), 100.0 + AFTER_S - 0.1)
    assert stall.look((1,), 100.0 + AFTER_S)
    assert not stall.look((1,), 100.0 + 2 * AFTER_S)


def test_a_movement_begins_the_time_anew():
    stall = Stall(now=0.0, after_s=10.0)
    assert not stall.look((1,), 0.0)
    assert not stall.look((2,), 9.0)
    assert not stall.look((2,), 18.9)
    assert stall.look((2,), 19.0)


def test_after_a_movement_the_next_stall_is_told_again():
    stall = Stall(now=0.0, after_s=10.0)
    assert not stall.look((1,), 1.0)
    assert stall.look((1,), 11.0)
    assert not stall.look((2,), 12.0)
    assert stall.look((2,), 22.0)

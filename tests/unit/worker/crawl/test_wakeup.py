"""One call for all who want it, and a timer that is made only when it must be."""

import asyncio

from manyhands.worker.crawl.wakeup import Wakeup

HOUR_S = 3600.0


class Scripted:
    """State: how often it was called."""

    def __init__(self) -> None:
        self.calls = 0
        self.wakeup = Wakeup()
        self.wakeup.calls(self._called)

    def _called(self) -> None:
        self.calls += 1


async def turn() -> None:
    """Of the loop, with all that is due."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_many_who_wake_in_one_turn_make_one_call() -> None:
    one = Scripted()
    one.wakeup.wake()
    one.wakeup.wake()
    assert one.calls == 0
    await turn()

    assert one.calls == 1


async def test_an_earlier_time_comes_first_whatever_was_set_before() -> None:
    one, now = Scripted(), asyncio.get_running_loop().time()
    one.wakeup.wake_at(now + HOUR_S)
    one.wakeup.wake_at(now)
    while not one.calls:
        await turn()


async def test_a_later_time_leaves_the_earlier_one_alone() -> None:
    one, now = Scripted(), asyncio.get_running_loop().time()
    one.wakeup.wake_at(now)
    one.wakeup.wake_at(now + HOUR_S)
    while not one.calls:
        await turn()


async def test_a_call_between_does_not_take_the_timer_away() -> None:
    one, now = Scripted(), asyncio.get_running_loop().time()
    one.wakeup.wake_at(now)
    one.wakeup.wake()
    while one.calls < 2:
        await turn()
    # The next time can be set again.
    one.wakeup.wake_at(now + 0.001)
    while one.calls < 3:
        await turn()

"""One task for all who want the same result."""

import asyncio
from functools import partial

import pytest

from manyhands.shared.single_flight import SingleFlight


class Work:
    """State: the keys it was started for, and the gate it waits at."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.gate = asyncio.Event()

    async def run(self, key: str) -> str:
        self.started.append(key)
        await self.gate.wait()
        return key.upper()


async def test_who_asks_meanwhile_waits_for_the_same_task():
    flights: SingleFlight[str] = SingleFlight("work for")
    work = Work()
    asked = [asyncio.create_task(flights.run(key, partial(work.run, key))) for key in "aab"]
    await asyncio.sleep(0)
    work.gate.set()
    assert await asyncio.gather(*asked) == ["A", "A", "B"]
    assert work.started == ["a", "b"]
    assert await flights.run("a", lambda: work.run("a")) == "A"
    assert work.started == ["a", "b", "a"]


async def test_one_who_is_cancelled_leaves_the_task_to_the_others():
    flights: SingleFlight[str] = SingleFlight("work for")
    work = Work()
    first, second = (asyncio.create_task(flights.run("a", lambda: work.run("a"))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    work.gate.set()
    assert await second == "A"
    assert first.cancelled()


async def test_close_cancels_tasks_and_those_who_wait():
    flights: SingleFlight[str] = SingleFlight("work for")
    work = Work()
    waiting = asyncio.create_task(flights.run("a", lambda: work.run("a")))
    await asyncio.sleep(0)
    await flights.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting

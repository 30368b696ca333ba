import asyncio

import pytest

from manyhands.cli.stop import Stop


async def test_the_first_ends_the_wait_and_the_second_the_task():
    said: list[str] = []
    ready = asyncio.Event()
    stops: list[Stop] = []

    async def work() -> None:
        stop = Stop(lambda: said.append("stopping"))
        stops.append(stop)
        ready.set()
        assert await stop.wait(60)
        await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await ready.wait()
    (stop,) = stops
    assert not stop.is_asked
    stop.ask()
    assert stop.is_asked
    assert said == ["stopping"]
    stop.ask()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["stopping"]


async def test_a_wait_that_nobody_ends_is_over_after_its_time():
    assert not await Stop(lambda: None).wait(0)

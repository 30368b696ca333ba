"""Wait for something that another process does, without guessing how long that takes."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

POLL_S = 0.05
# Far longer than anything takes that does happen: a test only waits for it when it fails.
WITHIN_S = 30.0


async def eventually(
    probe: Callable[[], Value], within_s: float = WITHIN_S, what: str = "it did not happen"
) -> Value:
    """Poll until the probe gives something true and return that; else fail with what it gave."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        value = probe()
        if value:
            return value
        if loop.time() > deadline:
            raise AssertionError(f"{what} within {within_s:g} s; at last: {value!r}")
        await asyncio.sleep(POLL_S)


async def stays(probe: Callable[[], bool], for_s: float, what: str = "it did not stay so") -> None:
    """Poll and fail as soon as the probe gives something false."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + for_s
    while loop.time() < deadline:
        assert probe(), what
        await asyncio.sleep(POLL_S)

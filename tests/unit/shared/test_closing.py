"""What was opened is closed when the next step fails, and only then."""

import asyncio

import pytest

from manyhands.shared.closing import closed_on_error


class Opened:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_it_stays_open_when_all_goes_well():
    opened = Opened()
    with closed_on_error(opened):
        pass
    assert not opened.is_closed


def test_it_is_closed_and_the_error_goes_on():
    opened = Opened()
    with pytest.raises(OSError, match="no space"), closed_on_error(opened):
        raise OSError("no space")
    assert opened.is_closed


async def test_it_is_closed_when_the_task_is_cancelled():
    opened, begun = Opened(), asyncio.Event()

    async def prepare() -> None:
        with closed_on_error(opened):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(prepare())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert opened.is_closed

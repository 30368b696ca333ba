"""Tasks that nobody awaits: they run to their end, and nothing they raise is lost."""

import asyncio

import pytest

from manyhands.shared.tasks import Tasks


async def test_a_task_is_held_while_it_runs():
    tasks, gate = Tasks("test"), asyncio.Event()
    tasks.spawn(gate.wait(), name="waiting")
    (task,) = tasks.running
    assert task.get_name() == "waiting"
    gate.set()
    await task
    await asyncio.sleep(0)
    assert not tasks.running


async def test_what_a_task_raises_is_logged(capfd: pytest.CaptureFixture[str]):
    async def fail() -> None:
        raise RuntimeError("no such page")

    tasks = Tasks("test")
    tasks.spawn(fail())
    await asyncio.wait(tasks.running)
    await asyncio.sleep(0)
    out, err = capfd.readouterr()
    assert "unhandled exception in a task" in out + err
    assert "no such page" in out + err

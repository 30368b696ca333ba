"""What a dump of the tasks says of them."""

import asyncio

from manyhands.worker.process.task_dump import MOST_PLACES, describe_tasks


async def waits_inside(gate: asyncio.Event) -> None:
    await gate.wait()


async def outer(gate: asyncio.Event) -> None:
    await waits_inside(gate)


async def test_tasks_that_wait_at_the_same_place_are_one_line():
    gate = asyncio.Event()
    tasks = [asyncio.create_task(outer(gate), name="job") for _ in range(3)]
    await asyncio.sleep(0)
    (line,) = describe_tasks(tasks)
    assert line.startswith("3 × job at ")
    assert line.endswith(" in waits_inside")
    gate.set()
    await asyncio.gather(*tasks)
    assert describe_tasks(tasks) == ["3 × job at its start"]


async def test_only_the_most_frequent_places_are_listed():
    gate = asyncio.Event()
    tasks = [asyncio.create_task(outer(gate), name=f"job-{n}") for n in range(MOST_PLACES + 2)]
    await asyncio.sleep(0)
    lines = describe_tasks(tasks)
    assert len(lines) == MOST_PLACES + 1
    assert lines[-1] == "and 2 more places"
    gate.set()
    await asyncio.gather(*tasks)

"""QUEUE PAUSE, RESUME, REMOVE and LATENCY."""

import asyncio

import pytest

from manyhands.shared.errors import InvalidJob
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.contract.helpers import queue_size


async def test_a_paused_queue_gives_no_job_until_it_is_resumed(client: Client, queue: str) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))
    await client.queue_pause([queue])

    assert await client.fetch([queue]) is None
    await client.queue_resume([queue])

    assert await client.fetch([queue]) is not None


async def test_all_queues_can_be_paused_and_resumed_at_once(client: Client, queue: str) -> None:
    names = [f"{queue}-a", f"{queue}-b"]
    for name in names:
        await client.push(Job(jobtype="any", args=[], queue=name))
    await client.queue_pause(["*"])

    assert await client.fetch(names) is None
    await client.queue_resume(["*"])

    assert await client.fetch(names) is not None
    assert await client.fetch(names) is not None


async def test_a_removed_queue_loses_its_jobs_and_the_others_keep_theirs(
    client: Client, queue: str
) -> None:
    names = [f"{queue}-a", f"{queue}-b", f"{queue}-c"]
    for name in names:
        await client.push(Job(jobtype="any", args=[], queue=name))

    await client.queue_remove(names[:2])

    assert [await queue_size(client, name) for name in names] == [0, 0, 1]


async def test_the_latency_of_a_queue_is_the_age_of_its_oldest_job(
    client: Client, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))
    await asyncio.sleep(0.2)
    await client.push(Job(jobtype="any", args=[], queue=queue))

    latency = await client.queue_latency([queue, f"{queue}-empty"])

    assert latency.keys() == {queue, f"{queue}-empty"}
    assert latency[queue] >= 0.2
    assert latency[f"{queue}-empty"] == 0


@pytest.mark.parametrize("names", [[], ["two words"], ["a", "*"], ["line\r\nFLUSH"]])
async def test_a_queue_name_that_would_break_the_line_is_never_sent(
    client: Client, names: list[str]
) -> None:
    with pytest.raises(InvalidJob):
        await client.queue_remove(names)
    with pytest.raises(InvalidJob):
        await client.fetch(names)


async def test_latency_of_all_queues_is_not_a_question_that_can_be_asked(
    client: Client,
) -> None:
    with pytest.raises(InvalidJob):
        await client.queue_latency(["*"])

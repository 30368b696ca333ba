"""FETCH by our client: every field as it was pushed, and in which order jobs come."""

import asyncio
from datetime import UTC, datetime

import pytest

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.contract.helpers import EVERY_JSON_TYPE


async def test_a_job_comes_back_with_every_field_as_it_was_pushed(
    client: Client, queue: str
) -> None:
    job = Job(
        jobtype="каждый тип",
        args=EVERY_JSON_TYPE,
        queue=queue,
        retry=3,
        reserve_for=600,
        at=datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        created_at=datetime(2021, 6, 7, 8, 9, 10, 111213, tzinfo=UTC),
        custom={"trace": "ä", "nested": {"list": EVERY_JSON_TYPE}},
    )

    assert await client.push(job) == job.jid
    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched.pop("enqueued_at")
    assert fetched == {
        "jid": job.jid,
        "jobtype": "каждый тип",
        "args": EVERY_JSON_TYPE,
        "queue": queue,
        "retry": 3,
        "reserve_for": 600,
        "at": "2020-01-02T03:04:05.678901Z",
        "created_at": "2021-06-07T08:09:10.111213Z",
        "custom": job.to_wire()["custom"],
    }
    assert fetched["custom"]["mh"] == {"id": job.jid, "deliveries": 0}


async def test_a_job_that_says_nothing_special_carries_every_field_explicitly(
    client: Client, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))

    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched["retry"] == 25
    assert fetched["reserve_for"] == 1800
    assert fetched["args"] == []


@pytest.mark.parametrize("retry", [-1, 0, 1, 25])
async def test_every_value_of_retry_arrives(client: Client, queue: str, retry: int) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue, retry=retry))

    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched["retry"] == retry


async def test_jobs_of_a_queue_come_in_the_order_in_which_they_were_pushed(
    client: Client, queue: str
) -> None:
    assert (
        await client.push_bulk([Job(jobtype="any", args=[n], queue=queue) for n in range(5)]) == {}
    )

    fetched = [await client.fetch([queue]) for _ in range(5)]

    assert [job["args"] for job in fetched if job] == [[0], [1], [2], [3], [4]]


async def test_a_fetch_serves_its_queues_in_the_order_in_which_it_names_them(
    client: Client, queue: str
) -> None:
    for name in ("low", "high"):
        await client.push(Job(jobtype=name, args=[], queue=f"{queue}-{name}"))

    first = await client.fetch([f"{queue}-high", f"{queue}-low"])
    second = await client.fetch([f"{queue}-high", f"{queue}-low"])

    assert first is not None and first["jobtype"] == "high"
    assert second is not None and second["jobtype"] == "low"


async def test_a_fetch_on_an_empty_queue_gives_nothing(client: Client, queue: str) -> None:
    assert await client.fetch([queue]) is None


async def test_commands_are_answered_while_a_fetch_waits(client: Client, queue: str) -> None:
    waiting = asyncio.create_task(client.fetch([queue]))
    await client.info()
    assert not waiting.done()
    await client.push(Job(jobtype="late", args=[], queue=queue))

    # A slow machine may not push it before the FETCH has waited for its two seconds.
    fetched = await waiting or await client.fetch([queue])

    assert fetched is not None and fetched["jobtype"] == "late"

"""PUSHB by our client: what is taken, what is refused, and what is never sent."""

from datetime import timedelta

import orjson
import pytest

from manyhands.shared.errors import InvalidJob
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job, encode_job, utc_now
from tests.contract.helpers import queue_size, sizes


async def commands(client: Client) -> int:
    return int((await client.info())["server"]["command_count"])


async def commands_when_alone(client: Client) -> int:
    """The server may still be at the last ones of an earlier test."""
    before = await commands(client)
    while (after := await commands(client)) != before + 1:
        before = after
    return after


async def test_a_whole_batch_of_a_thousand_is_taken(client: Client, queue: str) -> None:
    jobs = [Job(jobtype="any", args=[n], queue=queue) for n in range(1000)]

    assert await client.push_bulk(jobs) == {}

    assert await queue_size(client, queue) == 1000


async def test_an_empty_batch_is_no_command(client: Client) -> None:
    assert await client.push_bulk([]) == {}


async def test_a_refused_job_of_a_batch_is_named_by_its_jid_and_the_others_are_queued(
    client: Client, queue: str
) -> None:
    good = [Job(jobtype="any", args=[n], queue=queue) for n in range(2)]
    too_long = Job(jobtype="any", args=[], queue=queue).to_wire() | {"reserve_for": 86_401}
    no_type = Job(jobtype="any", args=[], queue=queue).to_wire() | {"jobtype": ""}
    batch = [
        encode_job(good[0]),
        orjson.dumps(too_long),
        orjson.dumps(no_type),
        encode_job(good[1]),
    ]

    refused = await client.push_encoded(batch)

    assert refused.keys() == {too_long["jid"], no_type["jid"]}
    assert "reserved" in refused[too_long["jid"]]
    assert "jobtype" in refused[no_type["jid"]]
    fetched = [await client.fetch([queue]) for _ in range(2)]
    assert [job["jid"] for job in fetched if job] == [job.jid for job in good]
    assert await queue_size(client, queue) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reserve_for", 86_401),
        ("reserve_for", 0),
        ("retry", -2),
        ("jid", "short"),
        ("jobtype", ""),
        ("queue", "two words"),
        ("queue", ""),
    ],
)
async def test_what_the_server_would_refuse_or_spoil_is_never_sent(
    client: Client, queue: str, field: str, value: object
) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    setattr(job, field, value)
    before = await commands_when_alone(client)

    with pytest.raises(InvalidJob):
        await client.push(job)

    # One more than before: the INFO that asks.
    assert await commands(client) == before + 1


async def test_two_jobs_of_one_batch_may_not_share_a_jid(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)

    with pytest.raises(InvalidJob, match=job.jid):
        await client.push_bulk([job, job])

    assert await queue_size(client, queue) == 0


async def test_a_job_for_the_future_is_scheduled_and_not_queued(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue, at=utc_now() + timedelta(hours=1))

    await client.push(job)

    assert await sizes(client) == {"scheduled": 1, "retries": 0, "dead": 0, "working": 0}
    assert await queue_size(client, queue) == 0


async def test_a_scheduled_job_is_queued_when_its_time_has_come(client: Client, queue: str) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue, at=utc_now() + timedelta(seconds=1)))

    fetched = None
    while fetched is None:
        fetched = await client.fetch([queue])

    assert fetched["jobtype"] == "any"
    assert (await sizes(client))["scheduled"] == 0

"""How a job ends: ACK, FAIL, and what a failure makes of it."""

import json

import pytest

from manyhands.shared.errors import ServerError
from manyhands.shared.faktory.client import Client, MutateTarget
from manyhands.shared.jobs import Job, new_jid
from tests.contract.conftest import Server
from tests.contract.helpers import SETS, sizes, take_out
from tests.support.raw_client import RawClient


async def test_an_acknowledged_job_is_gone_and_counted(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    await client.push(job)
    assert await client.fetch([queue])
    assert (await sizes(client))["working"] == 1

    await client.ack(job.jid)

    assert await sizes(client) == dict.fromkeys(SETS, 0)
    info = await client.info()
    assert info["faktory"]["total_processed"] == 1
    assert info["faktory"]["total_failures"] == 0


async def test_an_ack_can_be_repeated_and_may_name_a_job_that_nobody_knows(
    client: Client,
) -> None:
    await client.ack(new_jid())


async def test_a_fail_of_a_job_that_nobody_knows_is_refused(client: Client) -> None:
    with pytest.raises(ServerError, match=r"(?i)job not found"):
        await client.fail(new_jid(), "Broken", "on purpose")


async def test_a_failed_job_waits_for_its_retry_and_says_why(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=["ä"], queue=queue, retry=4, custom={"mine": 1})
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "ValueError", "Grüße: das war nichts", ["one", 'two "quoted"'])

    assert await sizes(client) == {"scheduled": 0, "retries": 1, "dead": 0, "working": 0}
    again = await take_out(client, MutateTarget.RETRIES, job)
    assert (again["jid"], again["args"], again["custom"]["mine"]) == (job.jid, ["ä"], 1)
    failure = again["failure"]
    assert failure["errtype"] == "ValueError"
    assert failure["message"] == "Grüße: das war nichts"
    assert failure["backtrace"] == ["one", 'two "quoted"']
    assert failure["remaining"] == 4
    assert failure.get("retry_count", 0) == 0
    assert failure["failed_at"] and failure["next_at"]


async def test_a_long_error_is_cut_between_characters(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "é" * 200, "世" * 2000, [f"line {n}" for n in range(200)])

    failure = (await take_out(client, MutateTarget.RETRIES, job))["failure"]
    assert set(failure["errtype"]) == {"é"}
    assert set(failure["message"]) == {"世"}
    assert len(failure["message"]) == 333
    assert len(failure["backtrace"]) == 50


async def test_each_failure_counts(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=2)
    await client.push(job)
    assert await client.fetch([queue])
    await client.fail(job.jid, "Broken", "first")
    second = await take_out(client, MutateTarget.RETRIES, job)
    await client.fail(job.jid, "Broken", "second")
    third = await take_out(client, MutateTarget.RETRIES, job)
    await client.fail(job.jid, "Broken", "third")

    assert second["failure"].get("retry_count", 0) == 0
    assert third["failure"]["retry_count"] == 1
    assert third["failure"]["remaining"] == 1
    assert (await sizes(client))["dead"] == 1
    assert (await client.info())["faktory"]["total_failures"] == 3


async def test_a_failed_job_without_retries_is_discarded(client: Client, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=0)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "Broken", "on purpose")

    assert await sizes(client) == dict.fromkeys(SETS, 0)


async def test_a_failed_job_with_retry_minus_one_is_dead_at_once(
    client: Client, queue: str
) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=-1)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "Broken", "on purpose")

    assert await sizes(client) == {"scheduled": 0, "retries": 0, "dead": 1, "working": 0}


async def test_our_pushes_never_change_the_default_of_jobs_that_name_no_retry(
    client: Client, server: Server, queue: str
) -> None:
    """A PUSH with `retry` overwrites the server's default for all clients, a PUSHB does not."""
    await client.push(Job(jobtype="ours", args=[], queue=f"{queue}-ours", retry=0))
    await client.push_bulk([Job(jobtype="ours", args=[], queue=f"{queue}-ours", retry=0)])
    jid = new_jid()
    with RawClient(server.url) as stranger:
        raw = {"jid": jid, "jobtype": "theirs", "args": [], "queue": queue}
        assert stranger.call("PUSH " + json.dumps(raw)) == "OK"
    assert await client.fetch([queue])

    await client.fail(jid, "Broken", "on purpose")

    assert (await sizes(client))["retries"] == 1

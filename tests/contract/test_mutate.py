"""MUTATE: clear, kill, discard and requeue, by jid, type and pattern."""

import pytest

from manyhands.shared.errors import InvalidJob
from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget
from manyhands.shared.jobs import Job
from tests.contract.helpers import TARGETS, put_into, sizes, take_out


@pytest.mark.parametrize("target", TARGETS)
async def test_clear_empties_one_set_and_no_other(
    client: Client, queue: str, target: MutateTarget
) -> None:
    for each in TARGETS:
        await put_into(client, each, Job(jobtype="any", args=[], queue=queue))

    await client.clear(target)

    expected = dict.fromkeys(("scheduled", "retries", "dead"), 1) | {target.value: 0, "working": 0}
    assert await sizes(client) == expected


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", TARGETS)
async def test_discard_takes_the_named_job_out_of_its_set(
    client: Client, queue: str, target: MutateTarget, jid: str
) -> None:
    other = Job(jobtype="any", args=["other"], queue=queue)
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue, jid=jid))
    await put_into(client, target, other)

    await client.discard(target, JobFilter(jids=[jid]))

    assert (await sizes(client))[target.value] == 1
    assert (await take_out(client, target, other))["args"] == ["other"]


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", TARGETS)
async def test_requeue_puts_the_named_job_into_its_queue_now(
    client: Client, queue: str, target: MutateTarget, jid: str
) -> None:
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue, jid=jid))
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue))

    await client.requeue(target, JobFilter(jids=[jid]))

    assert (await sizes(client))[target.value] == 1
    fetched = await client.fetch([queue])
    assert fetched is not None and fetched["jid"] == jid


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", [MutateTarget.RETRIES, MutateTarget.SCHEDULED])
async def test_kill_moves_the_named_job_to_the_dead(
    client: Client, queue: str, target: MutateTarget, jid: str
) -> None:
    job = Job(jobtype="any", args=["killed"], queue=queue, jid=jid)
    await put_into(client, target, job)
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue))

    await client.kill(target, JobFilter(jids=[jid]))

    after = await sizes(client)
    assert (after[target.value], after["dead"]) == (1, 1)
    assert (await take_out(client, MutateTarget.DEAD, job))["args"] == ["killed"]


async def test_a_filter_can_name_a_job_type(client: Client, queue: str) -> None:
    for jobtype in ("wanted", "wanted", "other"):
        job = Job(jobtype=jobtype, args=[], queue=queue)
        await put_into(client, MutateTarget.RETRIES, job)

    await client.discard(MutateTarget.RETRIES, JobFilter(jobtype="wanted"))

    assert (await sizes(client))["retries"] == 1


async def test_a_filter_can_be_a_pattern_over_the_job(client: Client, queue: str) -> None:
    for tenant in ("red and blue", "green"):
        job = Job(jobtype="any", args=[], queue=queue, custom={"tenant": tenant})
        await put_into(client, MutateTarget.SCHEDULED, job)

    await client.discard(MutateTarget.SCHEDULED, JobFilter(pattern='*"tenant":"red and*'))

    assert (await sizes(client))["scheduled"] == 1


async def test_a_filter_that_names_nothing_is_never_sent(client: Client) -> None:
    with pytest.raises(InvalidJob, match="empty filter"):
        await client.discard(MutateTarget.DEAD, JobFilter())

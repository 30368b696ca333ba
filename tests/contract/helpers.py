"""What a test can see of a server over the protocol: by INFO, or by MUTATE requeue and FETCH."""

from datetime import timedelta
from typing import Any

from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget
from manyhands.shared.jobs import Job, utc_now

EVERY_JSON_TYPE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**53,
    -(2**53),
    0.1,
    1e300,
    "",
    "plain",
    "Grüße, 世界 🐈 \u2028 \x00 \x7f",
    'quotes " and \\ and \r\n and \t',
    "<script>&amp;</script>",
    [],
    {},
    [[["deep"]]],
    {"key with space": {"ключ": [1, None]}},
]
SETS = ("scheduled", "retries", "dead", "working")
TARGETS = [MutateTarget.RETRIES, MutateTarget.SCHEDULED, MutateTarget.DEAD]


async def sizes(client: Client) -> dict[str, int]:
    info = await client.info()
    return {name: info["faktory"]["sets"][name] for name in SETS}


async def queue_size(client: Client, queue: str) -> int:
    info = await client.info()
    return int(info["faktory"]["queues"].get(queue, 0))


async def put_into(client: Client, target: MutateTarget, job: Job) -> None:
    """Bring a job into one of the sets by the ways that lead there."""
    if target is MutateTarget.SCHEDULED:
        job.at = utc_now() + timedelta(hours=1)
        await client.push(job)
        return
    job.retry = 5 if target is MutateTarget.RETRIES else -1
    await client.push(job)
    fetched = await client.fetch([job.queue])
    assert fetched is not None and fetched["jid"] == job.jid
    await client.fail(job.jid, "Broken", "on purpose")


async def take_out(client: Client, target: MutateTarget, job: Job) -> dict[str, Any]:
    """Requeue a job of a set and fetch it: the only way to see it over the protocol."""
    await client.requeue(target, JobFilter(jids=[job.jid]))
    fetched = await client.fetch([job.queue])
    assert fetched is not None
    return fetched

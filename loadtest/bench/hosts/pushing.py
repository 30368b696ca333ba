"""Fetch jobs brought to a broker, all before or while workers are there."""

import asyncio
import random
from collections.abc import Iterable

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.urls import shard_queue

AT_ONCE = 1000


def push_fetch_jobs(broker_url: str, urls: Iterable[str], shards: int) -> None:
    """One for each URL, those of a site far apart, always in the same order."""
    ordered = sorted(urls)
    random.Random(1).shuffle(ordered)
    jobs = [Job(jobtype=FETCH, args=[url], queue=shard_queue(url, shards)) for url in ordered]
    asyncio.run(_push(broker_url, jobs))


async def _push(broker_url: str, jobs: list[Job]) -> None:
    async with Client.from_url(broker_url) as client:
        for at in range(0, len(jobs), AT_ONCE):
            refused = await client.push_bulk(jobs[at : at + AT_ONCE])
            assert not refused, refused

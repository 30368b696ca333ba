"""Workers that fetch and parse are killed: no page is lost, no line is torn, none comes twice."""

import asyncio
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from manyhands.shared.urls import shard_queue
from tests.conftest import AnyServer, StartWorker
from tests.support.local_site import LocalSite, answer
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

# A real Faktory gives the jobs of a dead worker back when their reservations end, minutes later.
pytestmark = pytest.mark.parametrize("server", ["broker_process"], indirect=True)

PAGES = 300
KILLS = 3
SHARDS = 8


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async def slowly(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(answer(body=b"<title>a page</title>" + b"<a href=x>x</a>" * 1000))
        await writer.drain()

    async with LocalSite() as site:
        site.answers["*"] = slowly
        yield site


def whole_lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [orjson.loads(line) for line in lines if line.endswith(b"\n")]


def has_lines(path: Path, number: int) -> bool:
    return len(whole_lines(path)) >= number


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_workers_that_are_killed_lose_no_page_and_tear_no_line(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    site: LocalSite,
    tmp_path: Path,
) -> None:
    path = tmp_path / "pages.ndjson"
    settings = {
        "WORKER_HANDLERS": "manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse",
        "WORKER_QUEUES": "fetch.*:1,parse:1",
        "WORKER_CONCURRENCY": "10",
        "CRAWL_SHARDS": str(SHARDS),
        "FETCH_POLITE": "false",
        "ALLOW_NETS": "127.0.0.0/8",
        "SINKS": f"jsonl:{path}",
    }
    urls = [f"{site.url}/{number}" for number in range(PAGES)]
    jobs = [Job(jobtype="fetch", args=[url], queue=shard_queue(url, SHARDS)) for url in urls]
    await client.push_bulk(jobs)

    for kill in range(1, KILLS + 1):
        worker = start_worker(server.url, **settings)
        await eventually(partial(has_lines, path, kill * PAGES // (2 * KILLS)), 30)
        worker.signal(signal.SIGKILL)
        await worker.ended()
        # As if the kernel had taken half of the last write.
        with path.open("ab") as file:
            file.write(b'{"id":"torn')
    start_worker(server.url, **settings)

    await eventually(lambda: state.is_empty, 60)
    text = path.read_bytes()
    assert text.endswith(b"\n")
    assert b"torn" not in text
    found = [orjson.loads(line) for line in text.splitlines()]
    assert sorted(record["id"] for record in found) == sorted(job.jid for job in jobs)

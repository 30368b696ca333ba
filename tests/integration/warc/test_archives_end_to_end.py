"""Archives all the way: a job is pushed, `manyhands worker` decodes and parses, and the records are
in the file; also when it is killed in the middle."""

import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.integration.warc.conftest import Put
from tests.support.archives import Archive, record_id
from tests.support.file_server import ServedFile
from tests.support.local_site import LocalSite
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

ON_THE_BROKER = pytest.mark.parametrize("server", ["broker_process"], indirect=True)

HANDLERS = (
    "tests.support.small_chunks,manyhands.worker.handlers.parse,manyhands.worker.handlers.export"
)
PAGES = 2000
KILLS = 3


def settings(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "WORKER_HANDLERS": HANDLERS,
        "WORKER_STAGES": "warc+parse+export:1x10",
        "SINKS": f"jsonl:{tmp_path / 'pages.ndjson'}",
        "WARC_FILES": str(tmp_path),
        "ALLOW_NETS": "127.0.0.0/8",
    } | more


def warc_job(source: str) -> Job:
    return Job(jobtype="warc", args=[source], queue="warc")


def records(tmp_path: Path) -> list[dict[str, Any]]:
    """Of all files, only whole lines: a worker may be writing."""
    return [
        orjson.loads(line)
        for path in sorted(tmp_path.glob("pages*.ndjson"))
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def has_records(tmp_path: Path, count: int) -> bool:
    return len(records(tmp_path)) >= count


def ids(tmp_path: Path) -> Counter[str]:
    return Counter(record["id"] for record in records(tmp_path))


def of_all_pages(count: int) -> Counter[str]:
    return Counter(record_id(number) for number in range(count))


@ON_BOTH_SERVERS
async def test_the_pages_of_an_archive_become_records(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    archive = Archive.of_pages(300)
    (tmp_path / "a.warc.gz").write_bytes(archive.data)
    worker = start_worker(server.url, **settings(tmp_path))

    await client.push(warc_job("a.warc.gz"))

    await eventually(lambda: len(records(tmp_path)) >= 300 and state.is_empty)
    assert ids(tmp_path) == of_all_pages(300)
    (first,) = (record for record in records(tmp_path) if record["id"] == record_id(0))
    assert (first["url"], first["title"], first["links"]) == (
        "http://example.com/0",
        "Page 0",
        ["http://example.com/next/0"],
    )
    told = [line for line in worker.logged if line["event"] == "decoded a part of an archive"]
    assert len(told) > 5
    assert sum(line["records"]["page"] for line in told) == 300
    worker.terminate()
    assert await worker.ended() == 0


@ON_THE_BROKER
async def test_archives_come_over_http_and_from_s3(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
    s3_variables: dict[str, str],
    bucket: str,
    put: Put,
) -> None:
    archive = Archive.of_pages(200)
    put("one.warc.gz", archive.data[: archive.offsets[100]])
    start_worker(server.url, **settings(tmp_path, WARC_S3_SOURCES=f"s3://{bucket}"), **s3_variables)
    async with LocalSite() as site:
        site.answers["*"] = ServedFile(site, archive.data[archive.offsets[100] :])

        await client.push(warc_job(f"s3://{bucket}/one.warc.gz"))
        await client.push(warc_job(f"{site.url}/two.warc.gz"))

        await eventually(lambda: len(records(tmp_path)) >= 200 and state.is_empty)
    assert ids(tmp_path) == of_all_pages(200)


@ON_THE_BROKER
async def test_an_archive_is_exported(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    (tmp_path / "a.warc.gz").write_bytes(Archive.of_pages(300).data)
    start_worker(server.url, **settings(tmp_path))

    await client.push(Job(jobtype="export", args=["a.warc.gz", "tables"], queue="export"))

    await eventually(lambda: list((tmp_path / "tables").glob("*.parquet")) and state.is_empty)
    (table,) = (tmp_path / "tables").iterdir()
    assert pq.read_table(table, columns=["url"]).num_rows == 300


@ON_THE_BROKER
async def test_what_cannot_be_read_is_dead_with_the_reason(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    start_worker(server.url, **settings(tmp_path, ALLOW_NETS=""))
    sources = {
        "http://127.0.0.1:1/a.warc.gz": "not a public address",
        "/etc/hostname": "not below WARC_FILES",
        "missing.warc.gz": "No such file",
    }

    await client.push_bulk([warc_job(source) for source in sources])

    dead = await eventually(lambda: state.dead if len(state.dead) == len(sources) else [])
    for job in dead:
        assert sources[job["args"][0]] in job["failure"]["message"]


@ON_THE_BROKER
@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_worker_that_is_killed_again_and_again_loses_and_doubles_nothing(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    (tmp_path / "a.warc.gz").write_bytes(Archive.of_pages(PAGES, size=1000).data)
    await client.push(warc_job("a.warc.gz"))

    for kill in range(KILLS):
        worker = start_worker(server.url, **settings(tmp_path))
        goal = PAGES * (kill + 1) // (KILLS + 2)
        await eventually(partial(has_records, tmp_path, goal))
        assert not state.is_empty
        worker.signal(signal.SIGKILL)
        await worker.ended()
    start_worker(server.url, **settings(tmp_path))

    await eventually(lambda: len(records(tmp_path)) >= PAGES and state.is_empty, 60)
    assert ids(tmp_path) == of_all_pages(PAGES)


@ON_THE_BROKER
@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_an_export_that_is_killed_is_done_again(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    """Its file is not there before it is whole."""
    tables = tmp_path / "tables"
    async with LocalSite() as site:
        served = ServedFile(site, Archive.of_pages(1000, size=20_000).data, pause_s=0.05)
        site.answers["*"] = served
        worker = start_worker(server.url, **settings(tmp_path))
        source = f"{site.url}/a.warc.gz"
        await client.push(Job(jobtype="export", args=[source, "tables"], queue="export"))
        await eventually(lambda: served.sent > 2_000_000)
        assert list(tables.glob(".*.part"))
        worker.signal(signal.SIGKILL)
        await worker.ended()
        assert list(tables.glob("*.parquet")) == []
        served.pause_s = 0

        start_worker(server.url, **settings(tmp_path))

        (table,) = await eventually(lambda: list(tables.glob("*.parquet")))
        await eventually(lambda: state.is_empty)
    assert pq.read_table(table, columns=["url"]).num_rows == 1000
    assert list(tables.iterdir()) == [table]


@ON_THE_BROKER
async def test_a_worker_that_stops_puts_back_what_it_decodes(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    async with LocalSite() as site:
        served = ServedFile(site, Archive.of_pages(500, size=20_000).data, pause_s=0.2)
        site.answers["*"] = served
        worker = start_worker(server.url, **settings(tmp_path, WORKER_SHUTDOWN_TIMEOUT="6"))
        await client.push(Job(jobtype="export", args=[f"{site.url}/a", "t"], queue="export"))
        await eventually(lambda: served.sent > 0)

        worker.terminate()

        assert await worker.ended() == 0
        assert worker.said == []
    assert len(state.queue("export")) == 1
    assert list((tmp_path / "t").glob("*")) == []

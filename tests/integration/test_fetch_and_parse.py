"""A URL all the way: a fetch job is pushed, `manyhands worker` fetches it at once and parses the
page of a local site, and the record is in the file. For polite ones see
tests/acceptance/test_fetch_politely.py."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from manyhands.shared.crawl.page_fields import VERSION
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job, utc_now
from manyhands.shared.urls import shard_queue
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.local_site import LocalSite, answer, redirect
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState, WorkerUnderTest

ON_THE_BROKER = pytest.mark.parametrize("server", ["broker_process"], indirect=True)

SHARDS = 8
HANDLERS = "manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse"
PAGE = """<!doctype html><title>Grüße</title><a href="/b">b</a><a href="c#x">c</a>
<a href="mailto:x@y.example">mail</a>""".encode()


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        site.answers["*"] = answer(body=PAGE)
        yield site


@pytest.fixture
def records_path(tmp_path: Path) -> Path:
    return tmp_path / "pages.ndjson"


@pytest.fixture
async def start_crawler(
    server: AnyServer, state: AnyState, start_worker: StartWorker, records_path: Path
) -> AsyncIterator[Any]:
    started: list[WorkerUnderTest] = []

    async def start(**env: str) -> WorkerUnderTest:
        settings = {
            "WORKER_HANDLERS": HANDLERS,
            "WORKER_QUEUES": "fetch.*:3,parse:1",
            "CRAWL_SHARDS": str(SHARDS),
            "FETCH_POLITE": "false",
            "ALLOW_NETS": "127.0.0.0/8",
            "SINKS": f"jsonl:{records_path}",
        }
        worker = start_worker(server.url, **settings | env)
        started.append(worker)
        await worker.ready(state)
        return worker

    yield start
    # In order: a FETCH that is left behind would take a job of the next test to nobody.
    for worker in started:
        if worker.exit_code is None:
            worker.terminate()
    for worker in started:
        assert await worker.ended() == 0


def fetch_job(url: str, **fields: Any) -> Job:
    return Job(jobtype="fetch", args=[url], queue=shard_queue(url, SHARDS), **fields)


def records(path: Path) -> list[dict[str, Any]]:
    """Only whole lines: the worker may be writing."""
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines(keepends=True)
    return [orjson.loads(line) for line in lines if line.endswith(b"\n")]


def one_address_for_each_shard() -> list[str]:
    hosts = {
        shard_queue(f"http://{host}/", SHARDS): host
        for host in (f"127.0.1.{number}" for number in range(1, 255))
    }
    return list(hosts.values())


async def settled(state: AnyState, processed: int) -> None:
    await eventually(lambda: state.processed == processed and state.is_empty)


@ON_BOTH_SERVERS
async def test_a_url_becomes_a_record(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    await start_crawler()
    site.answers["/start"] = redirect("/dir/a", 301)
    before = utc_now()

    jid = await client.push(fetch_job(site.url + "/start"))

    await settled(state, processed=2)
    (record,) = records(records_path)
    fetched_at = datetime.fromisoformat(record.pop("fetched_at").replace("Z", "+00:00"))
    assert before <= fetched_at <= utc_now()
    timings = [record.pop(name) for name in ("dns_ms", "connect_ms", "first_byte_ms", "body_ms")]
    assert all(ms >= 0 for ms in timings)
    assert record == {
        "id": jid,
        "url": site.url + "/start",
        "final_url": site.url + "/dir/a",
        "status": 200,
        "content_type": "text/html",
        "title": "Grüße",
        "language": None,
        "links": [site.url + "/b", site.url + "/dir/c"],
        "is_truncated": False,
        "crawl": None,
        "visit": None,
        "depth": None,
        "is_indexable": True,
        "schema": VERSION,
        "kind": "page",
        "reason": None,
        "cuts": [],
        "link_texts": ["b", "c"],
        "link_rels": ["", ""],
        "redirects": [site.url + "/start"],
        "size": len(PAGE),
        "content_hash": sha256(PAGE).hexdigest(),
        "text": "bc mail",
        **dict.fromkeys(
            (
                *("content_language", "last_modified", "etag", "description", "canonical"),
                *("full_text", "markdown", "headings", "open_graph", "json_ld", "all_headers"),
                *("simhash", "html"),
            )
        ),
    }


@ON_THE_BROKER
async def test_a_missing_page_is_a_record_without_links(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    await start_crawler()
    site.answers["/gone"] = answer(404, PAGE)

    await client.push(fetch_job(site.url + "/gone"))

    await settled(state, processed=2)
    (record,) = records(records_path)
    assert (record["status"], record["title"], record["links"]) == (404, None, [])
    assert (record["kind"], record["reason"]) == ("failed", "http 404")


@ON_THE_BROKER
async def test_jobs_of_all_shards_are_consumed(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    await start_crawler()
    async with AsyncExitStack() as sites:
        # Every address of 127.0.0.0/8 is this machine, and a domain of its own.
        others = [LocalSite(host, site.port) for host in one_address_for_each_shard()]
        for other in others:
            other.answers = site.answers
            await sites.enter_async_context(other)
        jobs = [fetch_job(f"{other.url}/{number}") for number in range(10) for other in others]
        assert len({job.queue for job in jobs}) == SHARDS

        await client.push_bulk(jobs)

        await settled(state, processed=2 * len(jobs))
    assert {record["id"]: record["url"] for record in records(records_path)} == {
        job.jid: job.args[0] for job in jobs
    }


@ON_THE_BROKER
async def test_a_repeat_of_a_fetch_job_leaves_one_record(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    await start_crawler()
    first = fetch_job(site.url + "/")
    await client.push(first)
    await eventually(lambda: len(records(records_path)) == 1)
    await eventually(lambda: state.is_empty)

    again = fetch_job(site.url + "/", custom={"mh": {"id": first.jid, "deliveries": 1}})
    await client.push(again)

    await eventually(lambda: len(site.requests) == 2 and state.is_empty)
    assert [record["id"] for record in records(records_path)] == [first.jid]


@ON_THE_BROKER
async def test_a_server_that_says_when_is_asked_again_then(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any
) -> None:
    await start_crawler()
    site.answers["/busy"] = answer(429, Retry_After="600")
    before = utc_now()

    jid = await client.push(fetch_job(site.url + "/busy"))

    await eventually(lambda: state.scheduled)
    (job,) = state.scheduled
    assert job["custom"]["mh"]["id"] == jid
    assert "429" in job["failure"]["message"]
    at = datetime.fromisoformat(job["at"].replace("Z", "+00:00"))
    assert before + timedelta(seconds=600) <= at <= utc_now() + timedelta(seconds=600)


@ON_THE_BROKER
async def test_a_broken_server_is_left_to_the_retries(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    await start_crawler()
    site.answers["/broken"] = answer(500)

    await client.push(fetch_job(site.url + "/broken"))

    await eventually(lambda: state.retries)
    (job,) = state.retries
    assert job["failure"]["errtype"] == "TemporaryFetchError"
    assert records(records_path) == []


@ON_THE_BROKER
@pytest.mark.parametrize(
    ("url", "says"),
    [("SITE/", "not a public address"), ("http://user:pw@x.example/", "credentials")],
)
async def test_what_may_not_be_fetched_is_dead_with_the_reason(
    client: Client,
    state: AnyState,
    site: LocalSite,
    start_crawler: Any,
    url: str,
    says: str,
) -> None:
    await start_crawler(ALLOW_NETS="")

    await client.push(Job(jobtype="fetch", args=[url.replace("SITE", site.url)], queue="fetch.00"))

    await eventually(lambda: state.dead)
    (job,) = state.dead
    assert says in job["failure"]["message"]
    assert site.connections == 0


@ON_THE_BROKER
async def test_a_worker_says_where_its_records_go(
    site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    worker = await start_crawler()
    await worker.logs("taking jobs")
    assert worker.line("taking jobs")["sinks"] == [f"jsonl:{records_path}"]


@ON_THE_BROKER
async def test_a_worker_that_stops_leaves_nothing_open(
    client: Client, state: AnyState, site: LocalSite, start_crawler: Any, records_path: Path
) -> None:
    worker = await start_crawler()
    await client.push_bulk([fetch_job(f"{site.url}/{number}") for number in range(20)])
    await eventually(lambda: records(records_path))

    worker.terminate()

    assert await worker.ended() == 0
    assert worker.said == []
    assert state.in_hand == 0


@ON_THE_BROKER
async def test_a_bad_setting_is_said_at_the_start(
    server: AnyServer, start_worker: StartWorker
) -> None:
    for env in (
        {"FETCH_TIMEOUT_S": "soon"},
        {"ALLOW_NETS": "home"},
        {"SINKS": "jsonl:/dev/null/pages.ndjson"},
        {"SINKS": "nowhere:pages"},
        {"CRAWL_SHARDS": "0"},
    ):
        worker = start_worker(server.url, WORKER_HANDLERS=HANDLERS, **env)
        assert await worker.ended() == 1
        (line,) = worker.said
        assert next(iter(env)) in line

"""`fetch` jobs are as polite as crawls, whatever worker has them: with both kinds of stores and of
servers, and over two workers that share the work."""

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from devservers import PostgresServer
from devservers.api import ApiServer
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget
from manyhands.shared.jobs import Job
from manyhands.shared.urls import shard_queue
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.crawling import CONTACT, Crawling, new_schema
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState, WorkerUnderTest

pytestmark = pytest.mark.timeout(150)

HANDLERS = "manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse"
DELAY_S = 0.1
WEB = WebSpec(hosts=8, pages=160, profile="web")
ON_THE_BROKER = pytest.mark.parametrize("server", ["broker_process"], indirect=True)


def fetch_jobs(urls: Iterable[str], shards: int, **fields: Any) -> list[Job]:
    return [
        Job(jobtype="fetch", args=[url], queue=shard_queue(url, shards), **fields) for url in urls
    ]


def start(
    start_worker: StartWorker, server: AnyServer, store: Crawling, records: Path, **env: str
) -> WorkerUnderTest:
    settings = store.settings(
        "fetch:1x200 parse:1x20",
        WORKER_HANDLERS=HANDLERS,
        FETCH_DELAY_S=str(DELAY_S),
        FETCH_CONTACT=CONTACT,
        SINKS=f"jsonl:{records}",
    )
    return start_worker(server.url, **(settings | env))


async def end(*workers: WorkerUnderTest) -> None:
    """A FETCH that is left behind would take a job of the next test to nobody."""
    for worker in workers:
        worker.terminate()
        assert await worker.ended(40) == 0, worker.stderr


def records_in(*files: Path) -> list[dict[str, Any]]:
    return [
        orjson.loads(line)
        for file in files
        if file.exists()
        for line in file.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def first_of(web: SyntheticWeb, kind: str) -> str:
    """The front of what is odd: the shortest of its URLs."""
    return min((one.url for one in web.perfect_crawl().values() if one.kind == kind), key=len)


def pages_of(web: SyntheticWeb) -> list[str]:
    return [one.url for one in web.perfect_crawl().values() if one.kind == "page"]


def urls_of(web: SyntheticWeb, ends: str) -> list[str]:
    """Of one site, the largest number that ends so."""
    found = [
        one.url for one in web.perfect_crawl().values() if one.ends == ends and one.kind != "robots"
    ]
    assert found
    return found


def assert_polite(store: Crawling) -> None:
    verdict = store.verdict(DELAY_S, may_repeat=True)
    assert verdict.is_polite, str(verdict)


async def all_ended(store: Crawling, number: int, within_s: float = 30.0) -> dict[str, int]:
    def is_so() -> bool:
        counters = store.counters(NO_CRAWL)
        ended = sum(counters[name] for name in ("done", "failed", "disallowed", "skipped"))
        return ended >= number

    try:
        await eventually(is_so, within_s)
    except AssertionError:
        raise AssertionError(dict(store.counters(NO_CRAWL))) from None
    return dict(store.counters(NO_CRAWL))


@ON_BOTH_SERVERS
async def test_jobs_of_one_host_over_two_workers_are_fetched_one_at_a_time(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    crawling: Crawling,
    tmp_path: Path,
) -> None:
    web = crawling.web
    disallowed = urls_of(web, "disallowed")
    host = urlsplit(disallowed[0]).netloc
    folder = [url for url in disallowed if urlsplit(url).netloc == host]
    pages = [url for url in urls_of(web, "done") if urlsplit(url).netloc == host]
    files = tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    workers = [start(start_worker, server, crawling, file) for file in files]
    jobs = fetch_jobs([*pages, *folder, *pages], crawling.shards)
    await client.push_bulk(jobs)

    counters = await all_ended(crawling, len(jobs))

    # Two jobs of one URL are two requests.
    assert counters["done"] == 2 * len(pages)
    assert counters["disallowed"] == len(folder)
    assert not set(folder) & {visit.url for visit in web.ledger()}
    assert_polite(crawling)
    await eventually(lambda: len(records_in(*files)) == 2 * len(pages), 20)
    by_id = {job.jid: job for job in jobs}
    for record in records_in(*files):
        assert record["url"] == by_id[record["id"]].args[0]
    assert len({record["id"] for record in records_in(*files)}) == 2 * len(pages)
    await end(*workers)


@ON_BOTH_SERVERS
async def test_a_job_without_a_page_is_a_dead_job_and_requeued_it_is_fetched_again(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    crawling: Crawling,
    tmp_path: Path,
) -> None:
    web = crawling.web
    # A host that is not there is tried for long; one that may not be connected to never is.
    refused = urls_of(web, "disallowed")[0]
    forbidden = "http://10.1.2.3/"
    worker = start(start_worker, server, crawling, tmp_path / "records.ndjson")
    jobs = fetch_jobs([refused, forbidden, forbidden], crawling.shards, custom={"of": "mine"})
    jobs[2].retry = 0
    await client.push_bulk(jobs)

    await eventually(lambda: len(state.dead) == 2, 40)

    dead = {job["custom"]["mh"]["id"]: job for job in state.dead}
    assert dead.keys() == {jobs[0].jid, jobs[1].jid}
    for job in jobs[:2]:
        assert dead[job.jid]["args"] == job.args
        assert dead[job.jid]["custom"]["of"] == "mine"
        assert dead[job.jid]["retry"] == job.retry
    assert dead[jobs[0].jid]["failure"]["message"] == "not allowed by robots.txt"
    assert dead[jobs[1].jid]["failure"]["message"] == "forbidden address"
    assert crawling.counters(NO_CRAWL)["failed"] == 2

    await client.requeue(MutateTarget.DEAD, JobFilter(jobtype="fetch"))

    # Both are tried again, and are dead again.
    await eventually(lambda: crawling.counters(NO_CRAWL)["disallowed"] == 2, 20)
    await eventually(lambda: crawling.counters(NO_CRAWL)["failed"] == 3, 20)
    await eventually(lambda: len(state.dead) == 2, 20)
    assert {job["custom"]["mh"]["id"] for job in state.dead} == dead.keys()
    await end(worker)


@ON_BOTH_SERVERS
async def test_the_api_tells_where_a_job_is(
    server: AnyServer, start_worker: StartWorker, crawling: Crawling, tmp_path: Path
) -> None:
    web = crawling.web
    page, refused = web.seeds[0], urls_of(web, "disallowed")[0]
    host = urlsplit(refused).netloc
    more = [url for url in pages_of(web) if urlsplit(url).netloc == host][:2]
    settings = {"FAKTORY_URL": server.url, "CRAWL_STATE": crawling.place, "API_KEYS": "none"}
    with ApiServer(None, settings=settings) as api, httpx.Client(base_url=api.url) as client:

        def post(url: str, **options: int) -> str:
            answer = client.post("/jobs/fetch", json={"url": url}, params=options)
            assert answer.status_code == 202, answer.text
            return str(answer.json()["jid"])

        def text(path: str) -> str:
            return client.get(path).text

        def state(jid: str) -> dict[str, Any]:
            return dict(orjson.loads(text(f"/jobs/{jid}")))

        worker = start(
            start_worker, server, crawling, tmp_path / "records.ndjson", FETCH_DELAY_S="5"
        )
        jids = [post(page, unique_for_s=3600), *(post(url) for url in (refused, *more))]
        # Of the two that follow the first of their domain, one is not asked before its time.
        await eventually(lambda: any(state(jid).get("until") for jid in jids[1:]), 30)
        await eventually(lambda: state(jids[0])["state"] == "done", 30)
        assert state(jids[0])["status"] == 200
        second = post(page, unique_for_s=600)
        await eventually(lambda: state(second).get("state") == "same", 30)
        assert (state(second)["same_as"]["jid"], state(second)["same_as"]["state"]) == (
            jids[0],
            "done",
        )
        await eventually(lambda: state(jids[1])["state"] == "dead", 30)
        assert state(jids[1])["reason"] == "not allowed by robots.txt"
        for jid in jids[2:]:
            await eventually(lambda jid=jid: state(jid)["state"] == "done", 40)  # type: ignore[misc]
        figures = text("/metrics")
        assert 'fetch_jobs{state="done"} 3.0' in figures
        assert 'fetch_jobs{state="disallowed"} 1.0' in figures
        assert 'fetch_jobs{state="same"} 1.0' in figures
        assert len([visit for visit in web.ledger() if visit.url == page]) == 1
        await end(worker)


@ON_THE_BROKER
async def test_with_nothing_set_jobs_are_kept_beside_the_worker_and_another_store_is_refused(
    server: AnyServer,
    client: Client,
    start_worker: StartWorker,
    web: SyntheticWeb,
    tmp_path: Path,
) -> None:
    records = tmp_path / "records.ndjson"
    settings = {
        **web.worker_settings,
        "WORKER_HANDLERS": HANDLERS,
        "WORKER_QUEUES": "fetch.*:3,parse:1",
        "SINKS": f"jsonl:{records}",
    }
    worker = start_worker(server.url, **settings)
    jobs = fetch_jobs(web.seeds[::3], 64)
    await client.push_bulk(jobs)
    await eventually(lambda: len(records_in(records)) == len(jobs), 60)
    assert (tmp_path / "crawls" / "control.db").exists()
    (said,) = [one for one in worker.events() if "kept beside this worker" in one]
    assert "CRAWL_STATE" in said
    await worker.logs("FETCH_CONTACT")
    assert len([one for one in worker.events() if "FETCH_CONTACT" in one]) == 1

    other = {**settings, "CRAWL_STATE": str(tmp_path / "other")}
    beside = start_worker(server.url, **other)
    await beside.logs("runs everything but fetch")
    alone = start_worker(server.url, **{**other, "WORKER_QUEUES": "fetch.*"})
    assert await alone.ended(60) == 1
    assert beside.exit_code is None
    (line,) = alone.said
    assert "set CRAWL_STATE to the store of the others, a PostgreSQL database" in line


@ON_THE_BROKER
async def test_a_redirect_goes_on_politely_as_the_same_job(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    crawling: Crawling,
    tmp_path: Path,
) -> None:
    web, records = crawling.web, tmp_path / "records.ndjson"
    away, chain, circle, gone = (
        first_of(web, kind) for kind in ("away", "chain", "circle", "gone")
    )
    start(start_worker, server, crawling, records)
    jobs = fetch_jobs([away, chain, circle, gone], crawling.shards)
    await client.push_bulk(jobs)
    await eventually(lambda: len(records_in(records)) == 3 and state.dead, 60)
    # A job that is delivered twice is fetched once: behind it comes another one of the same URL.
    requests = web.counts().requests
    (again,) = fetch_jobs([away], crawling.shards, jid=jobs[0].jid)
    (another,) = fetch_jobs([away], crawling.shards)
    await client.push_bulk([again])
    await client.push_bulk([another])
    await eventually(lambda: another.jid in {record["id"] for record in records_in(records)}, 40)

    by_id = {record["id"]: record for record in records_in(records)}
    assert by_id.keys() == {jobs[0].jid, jobs[1].jid, jobs[3].jid, another.jid}
    assert by_id[jobs[0].jid]["url"] == away
    assert "/landed/" in by_id[jobs[0].jid]["final_url"]
    assert by_id[jobs[1].jid]["final_url"] == f"{chain}/end"
    assert by_id[jobs[3].jid]["status"] == 410
    (dead,) = state.dead
    assert dead["args"] == [circle]
    assert dead["failure"]["message"] == "too many redirects"
    # The redirect, and where it leads.
    assert web.counts().requests == requests + 2
    assert_polite(crawling)


@ON_BOTH_SERVERS
async def test_jobs_in_queues_of_other_numbers_of_shards_are_all_done(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    web: SyntheticWeb,
    tmp_path: Path,
) -> None:
    """As from an API without a store: 64 at the API, 8 at the worker, and then the worker has 64
    and the API 8."""
    store = Crawling(tmp_path / "state", web, shards=8)
    pages = pages_of(web)
    sent: list[Job] = []

    async def push(urls: Iterable[str], shards: int) -> None:
        jobs = fetch_jobs(urls, shards)
        sent.extend(jobs)
        await client.push_bulk(jobs)

    records = tmp_path / "records.ndjson"
    try:
        await push(pages[:60], 64)
        first = start(start_worker, server, store, records)
        await all_ended(store, 10)
        await push(pages[60:80], 64)
        await end(first)
        assert len(records_in(records)) < len(sent)

        await push(pages[80:], 8)
        second = start(start_worker, server, store, records, CRAWL_SHARDS="64")
        wanted = {job.jid: job.args[0] for job in sent}

        def missing() -> set[str]:
            return wanted.keys() - {one["id"] for one in records_in(records)}

        try:
            await eventually(lambda: not missing(), 60)
        except AssertionError:
            lost = {jid: wanted[jid] for jid in missing()}
            raise AssertionError((lost, store.counters(NO_CRAWL), state.scheduled)) from None
        assert len(records_in(records)) == len(sent)
        assert_polite(store)
        await end(second)
    finally:
        store.close()


@ON_THE_BROKER
async def test_with_postgres_two_hosts_share_the_jobs_and_the_rest_of_one_that_died_is_fetched(
    server: AnyServer,
    client: Client,
    postgres: PostgresServer,
    web: SyntheticWeb,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    store = Crawling(new_schema(postgres), web)
    records = [tmp_path / f"{number}.ndjson" for number in range(3)]
    pages = pages_of(web)
    jobs = fetch_jobs(pages, store.shards)
    try:
        workers = [start(start_worker, server, store, file) for file in records[:2]]
        await client.push_bulk(jobs)
        await eventually(lambda: store.counters(NO_CRAWL)["done"] >= len(jobs) // 4, 60)
        workers[0].signal(signal.SIGKILL)
        start(start_worker, server, store, records[2])
        await all_ended(store, len(jobs), 60)
        await eventually(
            lambda: {one["id"] for one in records_in(*records)} == {job.jid for job in jobs}, 30
        )
        assert_polite(store)
        assert store.pages_twice() <= 2 * 200
    finally:
        store.close()

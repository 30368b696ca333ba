"""Several stores of crawls on one broker: none gets in another's way, and fetch.NN are of one."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.claim import mark_job, mark_queue, marked_by
from manyhands.shared.crawl.messages import FetchedPage, PagesMessage, pages_job
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job, new_jid
from manyhands.shared.jobtypes import PARSE_QUEUE
from manyhands.shared.urls import shard_queue
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.crawling import HANDLERS, Crawling, beating
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(150)

SMALL = WebSpec(hosts=10, pages=150, latency_ms=5)
WITH_FETCH = f"{HANDLERS},manyhands.worker.handlers.fetch"
ALL_STAGES = "crawl:1x40 fetch+parse:1x20"

StartStore = Callable[[], Crawling]


@pytest.fixture
def start_store(tmp_path: Path) -> Iterator[StartStore]:
    """A store, and a web of its own to crawl."""
    stores: list[Crawling] = []

    def start() -> Crawling:
        web = SyntheticWeb(SMALL)
        web.__enter__()
        stores.append(Crawling(tmp_path / f"state-{len(stores)}", web))
        return stores[-1]

    yield start
    for store in stores:
        store.close()
        store.web.__exit__(None, None, None)


async def marked(client: Client) -> frozenset[str]:
    """The tags of the stores that have marked the server."""
    return marked_by((await client.info())["faktory"].get("queues") or {})


async def has_mark(client: Client, tag: str) -> None:
    async with asyncio.timeout(20):
        while await marked(client) != {tag}:  # noqa: ASYNC110 - the server says nothing by itself
            await asyncio.sleep(0.05)


def fetch_job(store: Crawling) -> Job:
    """For the stage fetch; a page of the store's web."""
    url = store.seeds[0]
    return Job(jobtype="fetch", args=[url], queue=shard_queue(url, store.shards), jid=new_jid())


async def answered_untagged(client: Client, tag: str) -> list[Job]:
    """The jobs of the parse stage, taken out of it, with their answers going where they went before
    queues had tags."""
    jobs = []
    while (found := await client.fetch([PARSE_QUEUE])) is not None:
        answer_to, pages = found["args"]
        assert f".{tag}." in answer_to
        message = PagesMessage(
            answer_to=answer_to.replace(f".{tag}.", "."),
            pages=[FetchedPage(*page) for page in pages],
        )
        jobs.append(pages_job(message, PARSE_QUEUE, new_jid()))
        await client.ack(found["jid"])
    return jobs


async def drained(client: Client, queue: str) -> None:
    async with asyncio.timeout(20):
        while (await client.info())["faktory"]["queues"].get(queue):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)


async def assert_crawled_whole(store: Crawling, crawl: int) -> None:
    ended = await store.ended(crawl, 60)
    assert ended.state is CrawlState.COMPLETED, ended
    assert store.coverage().is_exact, str(store.coverage())
    verdict = store.verdict(0.0)
    assert verdict.is_polite, str(verdict)


@ON_BOTH_SERVERS
async def test_the_crawls_of_two_stores_complete_on_one_broker(
    server: AnyServer, start_worker: StartWorker, start_store: StartStore
) -> None:
    stores = [start_store(), start_store()]
    # Both have the same number: a message that goes astray would be taken for one of ours.
    crawls = [store.start() for store in stores]
    assert crawls[0] == crawls[1]
    for store in stores:
        start_worker(server.url, **store.settings("crawl:2x40 parse:1x20"))
    for store, crawl in zip(stores, crawls, strict=True):
        await assert_crawled_whole(store, crawl)


@ON_BOTH_SERVERS
async def test_the_second_that_asks_for_fetch_ends_with_one_line_and_the_first_goes_on(
    server: AnyServer, client: Client, start_worker: StartWorker, start_store: StartStore
) -> None:
    first, second = start_store(), start_store()
    crawl = first.start()
    start_worker(server.url, **first.settings(ALL_STAGES, WORKER_HANDLERS=WITH_FETCH))
    await has_mark(client, first.control.tag())

    refused = start_worker(server.url, **second.settings(ALL_STAGES, WORKER_HANDLERS=WITH_FETCH))
    assert await refused.ended(30) == 1
    (line,) = refused.said
    assert first.control.tag() in line
    assert second.control.tag() in line
    assert "manyhands state adopt" in line
    await assert_crawled_whole(first, crawl)
    assert await marked(client) == {first.control.tag()}


@ON_BOTH_SERVERS
async def test_the_second_that_names_no_stage_runs_all_but_fetch_and_its_crawl_completes(
    server: AnyServer, client: Client, start_worker: StartWorker, start_store: StartStore
) -> None:
    first, second = start_store(), start_store()
    start_worker(server.url, **first.settings(ALL_STAGES, WORKER_HANDLERS=WITH_FETCH))
    await has_mark(client, first.control.tag())

    crawl = second.start()
    worker = start_worker(server.url, **second.settings("", WORKER_HANDLERS=WITH_FETCH))
    await assert_crawled_whole(second, crawl)
    await worker.logs("runs everything but fetch;")
    assert worker.exit_code is None


@ON_BOTH_SERVERS
async def test_the_mark_is_renewed_after_a_flush_and_kept_over_a_restart(
    server: AnyServer, client: Client, start_worker: StartWorker, start_store: StartStore
) -> None:
    store = start_store()
    settings = store.settings("fetch+parse:1x20", WORKER_HANDLERS=WITH_FETCH)
    worker = start_worker(server.url, **settings)
    await has_mark(client, store.control.tag())
    await client.flush()
    await has_mark(client, store.control.tag())
    worker.terminate()
    assert await worker.ended(30) == 0
    assert await marked(client) == {store.control.tag()}

    start_worker(server.url, **settings)
    await client.push(fetch_job(store))
    await eventually(lambda: len(store.web.ledger()) > 0, 20)
    sizes = (await client.info())["faktory"]["queues"]
    assert sizes[mark_queue(store.control.tag())] == 1


@ON_BOTH_SERVERS
async def test_a_worker_without_a_store_leaves_a_claimed_broker_its_fetch_queues(
    server: AnyServer, client: Client, start_worker: StartWorker, start_store: StartStore
) -> None:
    """Named, it ends with one line; unnamed, it runs the rest; once they are free, all of it."""
    store = start_store()
    tag = "0123456789"
    await client.push(mark_job(tag, "a host"))
    settings = {
        **store.site,
        "WORKER_HANDLERS": WITH_FETCH,
        "CRAWL_SHARDS": str(store.shards),
        "FETCH_POLITE": "false",
    }

    named = start_worker(server.url, **settings, WORKER_STAGES="fetch:1x4 parse:1x4")
    assert await named.ended(30) == 1
    (line,) = named.said
    assert tag in line
    assert "CRAWL_STATE" in line

    # By now no FETCH is left that an earlier test's worker has sent.
    await client.push(fetch_job(store))
    unnamed = start_worker(server.url, **settings)
    await unnamed.logs("runs everything but fetch and crawl;")
    assert not store.web.ledger()
    await client.queue_remove([mark_queue(tag)])
    await eventually(lambda: len(store.web.ledger()) > 0, 20)
    assert await marked(client) == set()


@ON_BOTH_SERVERS
async def test_answers_to_queues_without_a_tag_arrive_and_nothing_is_fetched_twice(
    server: AnyServer, client: Client, start_worker: StartWorker, start_store: StartStore
) -> None:
    """As after an upgrade: some answers wait in the old queues when the new owners start, others
    go there later, because their pages were in the parse stage."""
    store = start_store()
    crawl = store.start()
    fetching = start_worker(server.url, **store.settings("crawl:1x40"))
    await eventually(
        lambda: store.counters(crawl)["parsing"] and not store.counters(crawl)["claimed"], 30
    )
    fetching.terminate()
    assert await fetching.ended(30) == 0
    waiting = await answered_untagged(client, store.control.tag())
    assert len(waiting) > 1

    await client.push_bulk(waiting[::2])
    parsing = start_worker(server.url, **store.settings("parse:1x20"))
    await drained(client, PARSE_QUEUE)
    parsing.terminate()
    assert await parsing.ended(30) == 0
    await client.push_bulk(waiting[1::2])

    start_worker(server.url, **store.settings("crawl:2x40 parse:1x20"))
    await assert_crawled_whole(store, crawl)


async def test_a_directory_that_another_machine_uses_is_refused_with_one_line(
    server: AnyServer, start_worker: StartWorker, start_store: StartStore
) -> None:
    store = start_store()
    with beating(directory_of(store), "boot of another machine"):
        refused = start_worker(server.url, **store.settings())
        assert await refused.ended(30) == 1
    (line,) = [line for line in refused.said if "another machine" in line]
    assert str(directory_of(store)) in line
    assert store.control.members() == []
    # That machine is gone: like this one before a reboot.
    crawl = store.start()
    start_worker(server.url, **store.settings())
    await assert_crawled_whole(store, crawl)


@ON_BOTH_SERVERS
async def test_a_broker_whose_store_is_gone_is_taken_over_by_adopt(
    server: AnyServer, client: Client, start_store: StartStore
) -> None:
    store, gone = start_store(), "0123456789"
    await client.push(mark_job(gone, "a host that is no more"))
    asked = adopt(server, store)
    assert asked.returncode == 2
    assert gone in asked.stderr
    assert "--yes" in asked.stderr
    assert await marked(client) == {gone}

    done = adopt(server, store, "--yes")
    assert done.returncode == 0, done.stderr
    assert gone in done.stderr
    assert await marked(client) == {store.control.tag()}
    again = adopt(server, store)
    assert again.returncode == 0
    assert "already" in again.stderr


def directory_of(crawling: Crawling) -> Path:
    directory = crawling.store.directory
    assert directory is not None
    return directory


def adopt(server: AnyServer, store: Crawling, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "manyhands.cli", "state", "adopt", *options],
        env={**os.environ, "FAKTORY_URL": server.url, "CRAWL_STATE": str(directory_of(store))},
        cwd=directory_of(store),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

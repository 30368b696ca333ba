"""Each thing that can hold a crawl up, planted in services that run, is named by `limited_by`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
import pytest

from devservers import BrokerServer
from loadtest.web.synthetic_web import NETWORK, SyntheticWeb, WebSpec
from manyhands.shared.crawl.spec import LimitSpec
from manyhands.shared.crawl.states import CrawlState
from tests.conftest import StartWorker
from tests.support.crawl_look import Looker
from tests.support.crawling import Crawling, Crawls
from tests.support.local_site import LocalSite, answer
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

SHARDS = 4
LINKS = 30
ONE_SLOT = "crawl:1x1 parse:1x4"
# Far longer than a test lasts.
FOR_EVER_S = 600.0


async def never(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(FOR_EVER_S)


@pytest.fixture
async def sites() -> AsyncIterator[list[LocalSite]]:
    """Three hosts whose front pages have links to pages of their own."""
    links = "".join(f'<a href="/{number}">n</a>' for number in range(LINKS))
    async with AsyncExitStack() as opened:
        sites = [LocalSite(f"127.0.0.{number}") for number in (1, 2, 3)]
        for site in sites:
            await opened.enter_async_context(site)
            site.answers |= {"/": answer(body=links.encode()), "*": answer(body=b"a page")}
        yield sites


@pytest.fixture
def crawls(sites: list[LocalSite], tmp_path: Path) -> Iterator[Crawls]:
    seeds = [f"{site.url}/" for site in sites]
    crawls = Crawls(tmp_path / "state", seeds, {"ALLOW_NETS": NETWORK}, SHARDS)
    yield crawls
    crawls.close()


async def told(crawls: Crawls, crawl: int, beginning: str, within_s: float = 30.0) -> str:
    """All that is told, once it begins so."""
    looker = Looker(crawls)
    heard: list[str] = []
    async with asyncio.timeout(within_s + 30):
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            view, _ = await looker.look(crawl)
            if not heard or heard[-1] != view.limited_by:
                heard.append(view.limited_by)
            if view.limited_by.startswith(beginning):
                return view.limited_by
            assert asyncio.get_running_loop().time() < deadline, (heard, dict(view.urls))
            await asyncio.sleep(0.1)


async def test_the_delay_of_hosts(
    broker_process: BrokerServer, start_worker: StartWorker, crawls: Crawls
) -> None:
    crawl = crawls.start(delay_s=20)
    start_worker(broker_process.url, **crawls.settings())
    said = await told(crawls, crawl, "politeness: ")
    assert said.endswith("all waiting for their next time")


async def test_too_few_slots_for_hosts_that_take_long(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawls: Crawls,
    sites: list[LocalSite],
) -> None:
    for site in sites:
        site.answers["*"] = never
        site.answers["/robots.txt"] = answer(404)
    crawl = crawls.start()
    start_worker(broker_process.url, **crawls.settings(ONE_SLOT))
    await told(crawls, crawl, "slots: all 1 are in use")


async def test_a_parse_stage_that_is_behind(
    broker_process: BrokerServer, start_worker: StartWorker, crawls: Crawls
) -> None:
    crawl = crawls.start(seeds=[f"{seed}{number}" for seed in crawls.seeds for number in range(40)])
    settings = crawls.settings(
        "crawl:1x2", PRESSURE_SOFT_JOBS="1", PRESSURE_HARD_JOBS="3", CRAWL_RETRY_S="60"
    )
    start_worker(broker_process.url, **settings)
    await told(crawls, crawl, "waiting for parse: fetching is held back")


async def test_a_sink_that_takes_nothing(
    broker_process: BrokerServer, start_worker: StartWorker, crawls: Crawls
) -> None:
    """A server that listens and says nothing."""
    async with LocalSite() as server:
        server.answers["*"] = never
        crawl = crawls.start()
        settings = crawls.settings(
            "crawl:1x2 parse:1x4", SINKS=f"elasticsearch://127.0.0.1:{server.port}/pages"
        )
        start_worker(broker_process.url, **settings)
        await told(crawls, crawl, "sink elasticsearch://127.0.0.1")


async def test_a_broker_that_does_not_answer(
    start_worker: StartWorker, crawls: Crawls, sites: list[LocalSite]
) -> None:
    with BrokerServer() as broker:
        crawl = crawls.start(delay_s=0.3)
        start_worker(broker.url, **crawls.settings())
        await crawls.has_pages(crawl, 5)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            await told(crawls, crawl, "broker: it has not answered for ")
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert (await crawls.ended(crawl)).state is CrawlState.COMPLETED


async def test_a_robots_txt_that_cannot_be_had(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawls: Crawls,
    sites: list[LocalSite],
) -> None:
    for site in sites:
        site.answers["/robots.txt"] = answer(500)
    crawl = crawls.start()
    start_worker(broker_process.url, **crawls.settings())
    said = await told(crawls, crawl, "host put off: http://127.0.0.")
    assert "(robots.txt: status 500) and 2 hosts more" in said


async def test_the_limit_of_pages(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawls: Crawls,
    sites: list[LocalSite],
) -> None:
    """Also while what was under way is awaited, and when it has ended."""
    sites[0].answers["/7"] = never
    crawl = crawls.start(limits=LimitSpec(pages=20))
    start_worker(broker_process.url, **crawls.settings(FETCH_TIMEOUT_S="10"))
    await told(crawls, crawl, "limit: 20 pages")
    await crawls.ended(crawl)
    view, _ = await Looker(crawls).look(crawl)
    assert view.limited_by == "it has ended (limit: 20 pages)"


async def test_a_processor_that_is_used_up(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path
) -> None:
    """One for all processes of the worker."""
    with SyntheticWeb(WebSpec(hosts=100, pages=20_000)) as web:
        crawling = Crawling(tmp_path / "state", web)
        worker = start_worker(broker_process.url, **crawling.settings("crawl:1x100 parse:2x20"))
        await eventually(lambda: len(worker.children) == 3)
        core = min(os.sched_getaffinity(0))
        for pid in worker.children:
            for thread in psutil.Process(pid).threads():
                os.sched_setaffinity(thread.id, {core})
        crawl = crawling.start()
        try:
            await told(crawling, crawl, "processor: a crawling process has work")
        finally:
            crawling.close()

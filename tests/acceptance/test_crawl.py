"""Crawls of the synthetic web: every page once, politely, and an end that always comes."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from devservers import BrokerServer
from loadtest.web.politeness import NS
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.spec import LimitSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from tests.conftest import StartWorker
from tests.support.crawling import ASKED_FOR, Crawling
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(150)

StartCrawling = Callable[..., Crawling]


@pytest.fixture
def start_crawling(tmp_path: Path) -> Iterator[StartCrawling]:
    """A synthetic web, and a state directory for crawls of it."""
    opened: list[Crawling] = []
    webs: list[SyntheticWeb] = []

    def start(spec: WebSpec, shards: int = 16) -> Crawling:
        web = SyntheticWeb(spec)
        web.__enter__()
        webs.append(web)
        crawling = Crawling(tmp_path / "state", web, shards)
        opened.append(crawling)
        return crawling

    yield start
    for crawling in opened:
        crawling.close()
    for web in webs:
        web.__exit__(None, None, None)


@pytest.fixture
def broker(broker_process: BrokerServer) -> BrokerServer:
    return broker_process


async def test_a_plain_web_is_crawled_whole_and_no_page_twice(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=40, pages=1000))
    crawl = crawling.start()
    start_worker(broker.url, **crawling.settings())

    ended = await crawling.ended(crawl)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.0)
    assert verdict.is_polite, str(verdict)
    counters = crawling.counters(crawl)
    assert counters["pages"] == crawling.web.counts().pages
    assert counters["admitted"] == counters["done"] == counters["pages"]


async def test_the_mixed_web_is_crawled_as_a_perfect_crawler_would(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=40, pages=400, profile="web"))
    # Not deeper than what the web takes for a trap: its calendars have no end.
    crawl = crawling.start(delay_s=0.1, scope=ScopeSpec(max_depth=40))
    start_worker(broker.url, **crawling.settings("crawl:2x100 parse:1x40"))

    ended = await crawling.ended(crawl, 120)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.1)
    assert verdict.is_polite, str(verdict)


async def test_a_worker_that_is_stopped_gives_everything_up_and_another_goes_on(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=20, pages=400, latency_ms=20))
    crawl = crawling.start()
    first = start_worker(broker.url, **crawling.settings())
    await crawling.has_pages(crawl, 40)

    first.terminate()
    assert await first.ended(30) == 0, first.stderr
    assert crawling.counters(crawl)["claimed"] == 0
    assert crawling.control.members() == []
    start_worker(broker.url, **crawling.settings())
    ended = await crawling.ended(crawl)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.0)
    assert verdict.is_polite, str(verdict)


async def test_a_paused_crawl_stands_still_and_goes_on(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=20, pages=400, latency_ms=20))
    crawl = crawling.start()
    start_worker(broker.url, **crawling.settings())
    await crawling.has_pages(crawl, 40)

    crawling.control.change_state(crawl, {CrawlState.RUNNING}, CrawlState.PAUSED, 0.0)
    await eventually(
        lambda: not any(crawling.counters(crawl)[name] for name in ("claimed", "parsing")), 20
    )
    seen = crawling.web.counts().requests
    assert crawling.counters(crawl)["queued"]
    await asyncio.sleep(1)
    assert crawling.web.counts().requests == seen
    crawling.control.change_state(crawl, {CrawlState.PAUSED}, CrawlState.RUNNING, 0.0)
    ended = await crawling.ended(crawl)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())


async def test_a_cancelled_crawl_ends_with_what_was_in_flight(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=20, pages=400, latency_ms=20))
    crawl = crawling.start(delay_s=0.5)
    start_worker(broker.url, **crawling.settings())
    await crawling.has_pages(crawl, 20)

    crawling.cancel(crawl)
    ended = await crawling.ended(crawl)

    assert (ended.state, ended.reason) == (CrawlState.CANCELLED, ASKED_FOR)
    counters = crawling.counters(crawl)
    assert counters["cancelled"] > 0
    assert counters["queued"] == counters["claimed"] == counters["parsing"] == 0
    assert counters["pages"] == crawling.web.counts().pages


async def test_a_crawl_ends_at_its_limit_of_pages(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=20, pages=400))
    crawl = crawling.start(limits=LimitSpec(pages=57))
    start_worker(broker.url, **crawling.settings("crawl:2x20 parse:1x20"))

    ended = await crawling.ended(crawl)

    assert (ended.state, ended.reason) == (CrawlState.LIMIT_REACHED, "limit: 57 pages")
    assert crawling.web.counts().pages == 57
    # What it has left waits for nobody.
    await eventually(lambda: not crawling.counters(crawl)["queued"], 30)
    assert crawling.counters(crawl)["cancelled"] > 0


async def test_a_limit_of_pages_costs_a_fast_host_no_rate_and_the_crawl_ends_at_once(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=1, pages=400))
    worker = start_worker(broker.url, **crawling.settings())
    await worker.logs("parse-0 is ready", 60)
    crawl = crawling.start(limits=LimitSpec(pages=100))

    ended = await crawling.ended(crawl)

    assert crawling.web.counts().pages == 100
    assert ended.started_at is not None
    assert ended.ended_at is not None
    # It takes a second or two; waiting for each twentieth of the limit took ten.
    assert ended.ended_at - ended.started_at < 6


async def test_a_delay_is_kept_to_a_few_milliseconds_under_a_limit_too(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=1, pages=40))
    crawl = crawling.start(delay_s=1.0, limits=LimitSpec(pages=7))
    worker = start_worker(broker.url, **crawling.settings())
    await worker.logs("parse-0 is ready", 60)

    await crawling.ended(crawl)

    verdict = crawling.verdict(1.0)
    assert verdict.is_polite, str(verdict)
    visits = sorted(crawling.web.ledger(), key=lambda visit: visit.arrived_ns)
    gaps = sorted((after.arrived_ns - before.ended_ns) / NS for before, after in pairwise(visits))
    assert gaps[0] >= 1.0
    # A busy machine may be late at times, and the scheduler is not.
    assert gaps[len(gaps) // 2] < 1.05, gaps


async def test_pages_that_a_killed_worker_was_given_are_fetched_by_another_and_the_limit_holds(
    broker: BrokerServer, start_worker: StartWorker, start_crawling: StartCrawling
) -> None:
    crawling = start_crawling(WebSpec(hosts=20, pages=400, latency_ms=20))
    crawl = crawling.start(delay_s=0.1, limits=LimitSpec(pages=150))
    first = start_worker(broker.url, **crawling.settings("crawl:2x20 parse:1x20"))
    await crawling.has_pages(crawl, 40)

    first.signal(signal.SIGKILL)
    start_worker(broker.url, **crawling.settings("crawl:2x20 parse:1x20"))
    ended = await crawling.ended(crawl)

    assert ended.state is CrawlState.LIMIT_REACHED
    assert crawling.counters(crawl)["pages"] == 150

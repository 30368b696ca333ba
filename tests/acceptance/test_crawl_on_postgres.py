"""Crawls whose state is in PostgreSQL: as whole and as polite as with files, also by hosts that
disagree about the time, and with owners that die."""

import os
import signal
from pathlib import Path

import pytest

from devservers import BrokerServer, PostgresServer, SettableClock
from loadtest.web.synthetic_web import WebSpec
from manyhands.shared.crawl.states import CrawlState
from tests.conftest import StartWorker
from tests.support.crawling import Crawling, in_flight_at_most, new_schema, process_of

pytestmark = pytest.mark.timeout(300)

HOSTS, PAGES = 40, 1000
WEB = WebSpec(hosts=HOSTS, pages=PAGES, latency_ms=5)
SLOTS = 50


@pytest.fixture
def state_place(postgres: PostgresServer) -> str:
    return new_schema(postgres)


async def assert_completes(crawling: Crawling, crawl: int, repeats: int) -> None:
    ended = await crawling.ended(crawl)
    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.0, may_repeat=True)
    assert verdict.is_polite, str(verdict)
    assert crawling.pages_twice() <= repeats


async def test_a_web_is_crawled_whole_and_no_page_twice(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start()
    start_worker(broker_process.url, **crawling.settings("crawl:2x100 parse:1x40"))

    ended = await crawling.ended(crawl)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.0)
    assert verdict.is_polite, str(verdict)
    counters = crawling.counters(crawl)
    assert counters["admitted"] == counters["done"] == counters["pages"]
    assert counters["pages"] == crawling.web.counts().pages


async def test_an_owner_that_is_killed_is_followed_by_another(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start()
    start_worker(broker_process.url, **crawling.settings(f"crawl:2x{SLOTS} parse:1x40"))
    await crawling.has_pages(crawl, PAGES // 4)
    os.kill(process_of(crawling.control.members()[0].name), signal.SIGKILL)

    await assert_completes(crawling, crawl, in_flight_at_most(SLOTS))


async def test_a_server_that_is_killed_and_comes_back(
    postgres: PostgresServer,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawling: Crawling,
) -> None:
    crawl = crawling.start()
    start_worker(broker_process.url, **crawling.settings(f"crawl:2x{SLOTS} parse:1x40"))
    await crawling.has_pages(crawl, PAGES // 4)
    postgres.kill()
    postgres.start()

    await assert_completes(crawling, crawl, 2 * in_flight_at_most(SLOTS))


@pytest.mark.faketime
async def test_hosts_whose_clocks_are_wrong_are_as_polite_as_others(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling, tmp_path: Path
) -> None:
    """One is a minute ahead, one a minute behind; shards go from one to the other."""
    delay_s = 0.05
    crawl = crawling.start(delay_s=delay_s)
    clocks = [SettableClock(tmp_path / name) for name in ("ahead", "behind")]
    for clock, step_s in zip(clocks, (60, -60), strict=True):
        clock.step(step_s)
    settings = crawling.settings(
        "crawl:1x50 parse:1x20",
        # A lease that is lost, because the machine is busy, would fetch pages again.
        CRAWL_LEASE_S="20",
        # Longer than this test: nobody waits for fetches of one that gives its shards back.
        FETCH_TIMEOUT_S="300",
    )
    first, _ = (start_worker(broker_process.url, **settings, **clock.settings) for clock in clocks)
    await crawling.has_pages(crawl, PAGES // 3)
    first.terminate()

    ended = await crawling.ended(crawl, 120)

    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(delay_s)
    assert verdict.is_polite, str(verdict)


async def test_the_number_of_shards_is_that_of_the_store(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start()
    worker = start_worker(broker_process.url, **crawling.settings(CRAWL_SHARDS="7"))

    await assert_completes(crawling, crawl, repeats=0)

    (line,) = [one for one in worker.events() if "CRAWL_SHARDS" in one]
    assert "manyhands state copy" in line
    assert crawling.control.layout(99, may_change=False).wanted == crawling.shards

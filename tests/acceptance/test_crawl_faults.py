"""Crawls under faults: nothing is missed, what was in flight is at most fetched twice, and hosts
notice nothing."""

import asyncio
import os
import signal

import pytest

from devservers import BrokerServer
from loadtest.web.synthetic_web import WebSpec
from manyhands.shared.crawl.states import CrawlState
from tests.acceptance.scale import CRAWL_HOSTS, CRAWL_KILL_EVERY_S, CRAWL_KILLS, CRAWL_PAGES
from tests.conftest import StartWorker
from tests.support.crawl_processes import crawl_children
from tests.support.crawling import Crawling, in_flight_at_most
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

DELAY_S = 0.1
SLOTS = 50
WEB = WebSpec(hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=20)
# Of a process that dies.
IN_FLIGHT = in_flight_at_most(SLOTS)


async def assert_completes(crawling: Crawling, crawl: int, in_flight_at_faults: int) -> None:
    ended = await crawling.ended(crawl, 400)

    assert ended.state is CrawlState.COMPLETED, ended
    assert crawling.coverage().is_exact, str(crawling.coverage())
    assert crawling.pages_twice() <= in_flight_at_faults
    verdict = crawling.verdict(DELAY_S, may_repeat=True)
    assert verdict.is_polite, str(verdict)
    counters = crawling.counters(crawl)
    assert counters["admitted"] == counters["done"] == crawling.coverage().wanted


async def test_owners_that_are_killed_again_and_again(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    worker = start_worker(broker_process.url, **crawling.settings(f"crawl:2x{SLOTS} parse:1x20"))
    await crawling.has_pages(crawl, 5)

    for _ in range(CRAWL_KILLS):
        victim = (await eventually(lambda: crawl_children(worker), 30))[0]
        os.kill(victim, signal.SIGKILL)
        await asyncio.sleep(CRAWL_KILL_EVERY_S)

    # What a process had fetched, and what it had claimed but not begun, which is not fetched.
    await assert_completes(crawling, crawl, CRAWL_KILLS * IN_FLIGHT)


async def test_a_broker_that_is_killed(start_worker: StartWorker, crawling: Crawling) -> None:
    with BrokerServer() as broker:
        crawl = crawling.start(delay_s=DELAY_S)
        # A lease that is lost, because the machine is busy, would fetch pages again.
        start_worker(
            broker.url, **crawling.settings(f"crawl:1x{SLOTS} parse:1x20", CRAWL_LEASE_S="20")
        )
        await crawling.has_pages(crawl, 20)

        broker.kill()
        broker.start()

        await assert_completes(crawling, crawl, 0)


async def test_everything_is_killed_and_started_again(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    settings = crawling.settings(f"crawl:2x{SLOTS} parse:1x20")
    first = start_worker(broker_process.url, **settings)
    await crawling.has_pages(crawl, CRAWL_PAGES // 3)

    first.signal(signal.SIGKILL)
    start_worker(broker_process.url, **settings)

    await assert_completes(crawling, crawl, 2 * IN_FLIGHT)


async def test_the_number_of_shards_is_changed_between_two_runs(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    first = start_worker(broker_process.url, **crawling.settings(f"crawl:2x{SLOTS} parse:1x20"))
    await crawling.has_pages(crawl, CRAWL_PAGES // 3)
    first.signal(signal.SIGKILL)

    crawling.shards = 7
    start_worker(broker_process.url, **crawling.settings(f"crawl:1x{SLOTS} parse:1x20"))

    await assert_completes(crawling, crawl, 2 * IN_FLIGHT)


async def test_an_owner_that_stands_still_for_twice_its_lease_does_no_harm(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    worker = start_worker(
        broker_process.url,
        # Its supervisor would take it for hung, and replace it.
        **crawling.settings(f"crawl:2x{SLOTS} parse:1x20", WORKER_HANG_TIMEOUT="60"),
    )
    await crawling.has_pages(crawl, 20)
    (victim, *_) = await eventually(lambda: crawl_children(worker), 30)

    os.kill(victim, signal.SIGSTOP)
    await asyncio.sleep(4.0)
    os.kill(victim, signal.SIGCONT)

    await assert_completes(crawling, crawl, IN_FLIGHT)

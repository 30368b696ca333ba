"""Crawls while the PostgreSQL of their state is away: stopped for longer than any lease, replaced
by its standby, or there without a word. They say so, wait, and end with the exact set; nothing
counts twice. By the ledger of the web, no more pages are fetched again than were being fetched at
the fault."""

import asyncio
import secrets
import time
from collections.abc import Callable

import pytest

from devservers import BrokerServer, PostgresServer, PostgresStandby, Toxiproxy
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.states import CrawlState
from tests.acceptance.scale import AWAY_S, AWAY_TIMES, CRAWL_HOSTS, CRAWL_PAGES
from tests.conftest import StartWorker
from tests.support.crawling import Crawling, in_flight_at_most, new_schema
from tests.support.failover import AWAY, BACK, assert_said_once, fail_over, is_said
from tests.support.service_pages import children_of, metric_of
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = pytest.mark.timeout(1500)

SLOTS = 50
# Processes that own shards.
OWNERS = 2
WEB = WebSpec(hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=20)
STAGES = f"crawl:{OWNERS}x{SLOTS} parse:1x40"
# Far longer than any of these crawls takes.
ENDS_WITHIN_S = 900.0

Record = Callable[[str, object], None]


class Faults:
    """State: when they came, on the clock of the web's ledger."""

    def __init__(self, crawling: Crawling) -> None:
        self._crawling = crawling
        self._at_ns: list[int] = []

    def now(self) -> None:
        self._at_ns.append(self._crawling.web.counts().now_ns)

    def open_requests(self) -> int:
        """Those that the web had not answered, all faults together."""
        return sum(map(self._crawling.answering_at, self._at_ns))


async def assert_ends_whole(crawling: Crawling, crawl: int, faults: Faults, record: Record) -> None:
    ended = await crawling.ended(crawl, ENDS_WITHIN_S)
    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    verdict = crawling.verdict(0.0, may_repeat=True)
    assert verdict.is_polite, str(verdict)
    repeats, were_open = crawling.pages_twice(), faults.open_requests()
    for name, figure in (("pages", CRAWL_PAGES), ("repeats", repeats), ("open", were_open)):
        record(name, figure)
    assert repeats <= were_open
    counters = crawling.counters(crawl)
    assert counters["admitted"] == counters["done"] == counters["pages"]


def says_that_it_waits(worker: WorkerUnderTest) -> bool:
    crawlers = [child for child in children_of(worker) if child["process_type"] == "crawl"]
    return bool(crawlers) and all("away for" in child["waits_for"] for child in crawlers)


def away_s(worker: WorkerUnderTest) -> float:
    return metric_of(worker, "manyhands_worker_crawl_store_away_seconds")


def crawl_figure(worker: WorkerUnderTest, figure: str) -> float:
    return metric_of(worker, "manyhands_worker_crawl_state", f'figure="{figure}"')


async def test_a_server_that_is_away_for_longer_than_the_leases(
    postgres: PostgresServer,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    web: SyntheticWeb,
    record_property: Record,
) -> None:
    crawling = Crawling(new_schema(postgres), web)
    crawl, faults = crawling.start(), Faults(crawling)
    worker = start_worker(broker_process.url, **crawling.settings(STAGES))
    for time_away in range(1, AWAY_TIMES + 1):
        await crawling.has_pages(crawl, time_away * CRAWL_PAGES // (AWAY_TIMES + 2), ENDS_WITHIN_S)
        faults.now()
        postgres.kill()
        is_over_at = time.monotonic() + AWAY_S
        await eventually(lambda: says_that_it_waits(worker), AWAY_S)
        await eventually(lambda: away_s(worker) > 0, AWAY_S)
        fetched = web.counts().pages
        await asyncio.sleep(max(0.0, is_over_at - time.monotonic()))
        assert web.counts().pages == fetched
        assert crawl_figure(worker, "unsettled") <= 2 * in_flight_at_most(SLOTS)
        postgres.start()
        await eventually(lambda: away_s(worker) == 0, 30)

    await assert_ends_whole(crawling, crawl, faults, record_property)
    crawling.close()
    assert_said_once(worker, OWNERS, AWAY_TIMES)
    (line, *_) = (line for line in worker.logged if line["event"] == AWAY)
    assert "refused" in line["reason"]
    (line, *_) = (line for line in worker.logged if line["event"] == BACK)
    assert line["away_s"] >= AWAY_S - 2


async def test_a_primary_that_is_killed_and_followed_by_its_standby(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    web: SyntheticWeb,
    record_property: Record,
) -> None:
    with PostgresServer() as primary, PostgresStandby(primary) as standby:
        crawling = Crawling(standby.url_of_both, web)
        crawl, faults = crawling.start(), Faults(crawling)
        worker = start_worker(broker_process.url, **crawling.settings(STAGES))
        await crawling.has_pages(crawl, CRAWL_PAGES // 3, ENDS_WITHIN_S)
        faults.now()
        await fail_over(primary, standby, [worker], OWNERS)

        await assert_ends_whole(crawling, crawl, faults, record_property)
        crawling.close()
        assert_said_once(worker, OWNERS)


@pytest.mark.proof
async def test_a_server_that_takes_everything_and_answers_nothing(
    postgres: PostgresServer,
    toxiproxy: Toxiproxy,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    web: SyntheticWeb,
    record_property: Record,
) -> None:
    proxy = toxiproxy.proxy(postgres.port)
    schema = f"test_{secrets.token_hex(8)}"
    crawling = Crawling(f"{postgres.url}?schema={schema}", web)
    crawl, faults = crawling.start(), Faults(crawling)
    settings = crawling.settings(STAGES)
    settings["CRAWL_STATE"] = f"{postgres.url_at(proxy.port)}?schema={schema}"
    worker = start_worker(broker_process.url, **settings)
    await crawling.has_pages(crawl, CRAWL_PAGES // 3, ENDS_WITHIN_S)
    faults.now()
    for stream in ("upstream", "downstream"):
        proxy.add_toxic("timeout", stream=stream, timeout=0)
    await is_said(AWAY, [worker], OWNERS)
    await eventually(lambda: says_that_it_waits(worker), 30)
    # Longer than an answer is waited for.
    await asyncio.sleep(30)
    proxy.remove_toxics()

    await assert_ends_whole(crawling, crawl, faults, record_property)
    crawling.close()
    assert_said_once(worker, OWNERS)


@pytest.mark.proof
async def test_a_worker_that_is_stopped_meanwhile_ends_and_the_next_one_goes_on(
    postgres: PostgresServer,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    web: SyntheticWeb,
) -> None:
    crawling = Crawling(new_schema(postgres), web)
    crawl = crawling.start()
    first = start_worker(broker_process.url, **crawling.settings(STAGES))
    await crawling.has_pages(crawl, CRAWL_PAGES // 3, ENDS_WITHIN_S)
    postgres.kill()
    await first.logs(AWAY)
    first.terminate()
    assert await first.ended(60) == 0
    # It waits for the server, too.
    second = start_worker(broker_process.url, **crawling.settings(STAGES))
    await second.logs(AWAY, 60)
    postgres.start()

    ended = await crawling.ended(crawl, ENDS_WITHIN_S)
    assert ended.state is CrawlState.COMPLETED
    assert crawling.coverage().is_exact, str(crawling.coverage())
    crawling.close()

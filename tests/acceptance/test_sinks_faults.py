"""A crawl into three sinks at once, under faults: each page is in each of them exactly once."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devservers import BrokerServer, PostgresServer
from loadtest.bench.sinks.stored import check_each_once, parquet_urls, postgres_rows, warc_urls
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.worker.sinks.sinks import MOST_PENDING_BYTES
from tests.acceptance.scale import (
    SINK_DOWN_S,
    SINKS_HOSTS,
    SINKS_KILL_EVERY_S,
    SINKS_KILLS,
    SINKS_PAGES,
)
from tests.conftest import StartWorker
from tests.support.crawl_processes import MIB, rss_mib
from tests.support.crawling import Crawling
from tests.support.sink_contents import edge_pages, warc_files, warcio_complains
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = pytest.mark.timeout(1200)

DELAY_S = 0.1
WEB = WebSpec(hosts=SINKS_HOSTS, pages=SINKS_PAGES, latency_ms=20)
STAGES = "crawl:2x100 parse:1x40"
# One crawl takes so long at the most.
CRAWL_S = 900.0
# Files are sealed, and turned into Parquet, after the last job.
STOP_S = 60.0


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """One of the test's own: it is restarted."""
    with PostgresServer() as server:
        yield server


@dataclass
class Outputs:
    """WARC and Parquet files below a directory, and the tables of a database."""

    directory: Path
    database: PostgresServer

    @property
    def settings(self) -> dict[str, str]:
        sinks = f"warc:{self.warc},parquet:{self.parquet},{self.database.url}"
        return {"SINKS": sinks, "WORKER_SHUTDOWN_TIMEOUT": str(STOP_S - 10)}

    @property
    def warc(self) -> Path:
        return self.directory / "warc"

    @property
    def parquet(self) -> Path:
        return self.directory / "parquet"

    def check(self, web: SyntheticWeb) -> None:
        """Raises RunError unless every page of the ledger is exactly once in each sink."""
        pages = {url for url, page in web.perfect_crawl().items() if page.ends == "done"}
        check_each_once("WARC", pages, warc_urls(self.warc))
        check_each_once("Parquet", pages, parquet_urls(self.parquet))
        check_each_once("PostgreSQL", pages, postgres_rows(self.database.url, "url"))
        assert not warcio_complains(self.warc)
        assert edge_pages(self.parquet)


@pytest.fixture
def outputs(tmp_path: Path, database: PostgresServer) -> Outputs:
    return Outputs(tmp_path / "outputs", database)


async def stopped(worker: WorkerUnderTest) -> None:
    worker.terminate()
    assert await worker.ended(STOP_S) == 0, worker.stderr[-2000:]


async def test_each_page_is_once_in_each_sink_though_workers_and_database_die(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawling: Crawling,
    outputs: Outputs,
    record_property: Callable[[str, object], None],
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    worker = start_worker(broker_process.url, **crawling.settings(STAGES), **outputs.settings)
    await crawling.has_pages(crawl, 20)

    dice = random.Random(1)
    for number in range(SINKS_KILLS):
        victim = dice.choice(await eventually(lambda: worker.children, 30))
        os.kill(victim, signal.SIGKILL)
        if number in (SINKS_KILLS // 3, 2 * SINKS_KILLS // 3):
            outputs.database.restart()
        await asyncio.sleep(SINKS_KILL_EVERY_S)
    ended = await crawling.ended(crawl, CRAWL_S)
    await stopped(worker)

    assert ended.state is CrawlState.COMPLETED, ended
    assert crawling.coverage().is_exact, str(crawling.coverage())
    await asyncio.to_thread(outputs.check, crawling.web)
    record_property("pages", crawling.coverage().wanted)
    record_property("kills", SINKS_KILLS)
    record_property("fetched twice", crawling.pages_twice())
    record_property("WARC files", len(warc_files(outputs.warc)))


async def test_a_sink_that_is_down_holds_the_crawl_up_and_nothing_is_lost(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawling: Crawling,
    outputs: Outputs,
    record_property: Callable[[str, object], None],
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    worker = start_worker(broker_process.url, **crawling.settings(STAGES), **outputs.settings)
    await crawling.has_pages(crawl, 20)

    outputs.database.kill()
    await worker.logs("the sink takes no records", 30)
    before = max(map(rss_mib, worker.children))
    await asyncio.sleep(SINK_DOWN_S)
    after = max(map(rss_mib, worker.children))
    assert not crawling.crawl(crawl).state.is_final
    outputs.database.start()

    ended = await crawling.ended(crawl, CRAWL_S)
    await stopped(worker)
    assert ended.state is CrawlState.COMPLETED, ended
    assert crawling.coverage().is_exact, str(crawling.coverage())
    assert crawling.pages_twice() == 0
    # Nothing but what may wait for the sinks.
    assert after < before + 2 * MOST_PENDING_BYTES / MIB
    await asyncio.to_thread(outputs.check, crawling.web)
    record_property("down for", f"{SINK_DOWN_S:.0f} s")
    record_property("largest process before and after, MiB", f"{before:.0f}, {after:.0f}")

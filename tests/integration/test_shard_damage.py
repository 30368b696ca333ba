"""A shard's file that was damaged while nobody had it open: its crawls wait and say so, all others
go on, and they complete when a good file is back, without a restart."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.sqlite.database import PAGE_BYTES
from manyhands.shared.crawl.store.sqlite.directory import open_reader, shard_file
from manyhands.shared.urls import shard_of_url
from tests.acceptance.scale import IS_PROOF
from tests.conftest import StartWorker
from tests.support.crawling import Crawling
from tests.support.service_pages import damaged_shards
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = pytest.mark.timeout(300)

SHARDS = 4
HOSTS, PAGES = (400, 8_000) if IS_PROOF else (24, 240)
# Slow enough that the crawl is far from its end when the worker is stopped.
DELAY_S = 0.2


@pytest.fixture
def web() -> Iterator[SyntheticWeb]:
    with SyntheticWeb(WebSpec(hosts=HOSTS, pages=PAGES, latency_ms=5)) as web:
        yield web


@pytest.fixture
def crawling(tmp_path: Path, web: SyntheticWeb) -> Iterator[Crawling]:
    crawling = Crawling(tmp_path / "state", web, SHARDS)
    yield crawling
    crawling.close()


def pages_of(crawling: Crawling, crawl: int, shard: int) -> int:
    reader = open_reader(Path(crawling.place), 1, shard)
    assert reader is not None
    pages = reader.counters(crawl)["pages"]
    reader.close()
    return pages


def events(worker: WorkerUnderTest, event: str) -> list[dict[str, Any]]:
    return [line for line in worker.logged if line["event"] == event]


def damaged_by(api: ApiServer) -> str:
    """What the API says of it while it is ready."""
    answer = httpx.get(f"{api.url}/readyz", trust_env=False, timeout=20).raise_for_status()
    return str(answer.json()["damaged_shards"])


def overwrite(path: Path, how: str) -> None:
    chance = random.Random(3)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if how == "header":
            file.write(chance.randbytes(PAGE_BYTES))
        elif how == "cut":
            file.truncate(size // 2 // PAGE_BYTES * PAGE_BYTES)
        else:
            # Behind the schema and the roots: it can be opened and in part be read.
            first = size // PAGE_BYTES // 2 * PAGE_BYTES
            file.seek(first)
            file.write(chance.randbytes(size - first))


@pytest.mark.parametrize(
    "how", ["pages", *(pytest.param(how, marks=pytest.mark.proof) for how in ("header", "cut"))]
)
async def test_a_damaged_shard_is_named_and_its_crawls_go_on_when_the_good_file_is_back(
    broker_process: BrokerServer, start_worker: StartWorker, crawling: Crawling, how: str
) -> None:
    crawl = crawling.start(delay_s=DELAY_S)
    settings = crawling.settings("crawl:2x20 parse:1x20")
    first = start_worker(broker_process.url, **settings)
    await crawling.has_pages(crawl, HOSTS)
    first.terminate()
    await eventually(lambda: first.exit_code == 0, 60)
    # One that has much to do yet.
    shard = shard_of_url(crawling.seeds[0], SHARDS)
    others = [number for number in range(SHARDS) if number != shard]
    path = shard_file(Path(crawling.place), 1, shard)
    good = Path(crawling.place) / "good"
    shutil.copyfile(path, good)
    overwrite(path, how)
    before = {number: pages_of(crawling, crawl, number) for number in others}

    second = start_worker(broker_process.url, **settings)
    reasons = await eventually(lambda: damaged_shards(second), 60)
    assert len(reasons) == 1
    assert f"shard-{shard:02}.db" in reasons[0]
    assert "put a good copy in its place" in reasons[0]
    said = await eventually(lambda: events(second, "a shard is damaged: its crawls wait"))
    assert all(line["file"] == str(path) and line["what_to_do"] for line in said)
    with ApiServer(broker_process, settings={"CRAWL_STATE": crawling.place}) as api:
        assert f"shard-{shard:02}.db" in damaged_by(api)
    await eventually(lambda: all(pages_of(crawling, crawl, n) > before[n] for n in others), 60)
    assert not crawling.crawl(crawl).state.is_final

    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    good.replace(path)
    ended = await crawling.ended(crawl, 200)
    assert ended.state is CrawlState.COMPLETED, ended
    assert crawling.coverage().is_exact, str(crawling.coverage())
    assert not damaged_shards(second)

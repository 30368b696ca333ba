"""Hosts that nobody reaches, and URLs that are never there: named at once, and the crawl ends."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devservers import BrokerServer
from loadtest.web.synthetic_web import NETWORK
from manyhands.api.crawls.model import CrawlView, ErrorView
from manyhands.api.crawls.service import open_crawls
from manyhands.shared.crawl.spec import LimitSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.settings import AllowSettings, CrawlSettings
from tests.conftest import StartWorker
from tests.support.crawling import Crawls
from tests.support.local_site import LocalSite, answer
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

SHARDS = 4
# How long a host is tried by a crawl with a limit.
PATIENCE_S = 6.0
REFUSED = "robots.txt: connection refused"


class Looker:
    """What the API tells of a crawl."""

    def __init__(self, place: str) -> None:
        self._settings = CrawlSettings(state=(place,), shards=SHARDS, limited_patience_s=PATIENCE_S)

    async def look(self, crawl: int) -> tuple[CrawlView, dict[str, ErrorView]]:
        crawls = await open_crawls(self._settings, AllowSettings())
        assert crawls is not None
        try:
            errors = (await crawls.errors(crawl)).errors
            return await crawls.view(crawl), {error.reason: error for error in errors}
        finally:
            await crawls.close()


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


@pytest.fixture
async def dead_url() -> str:
    """Of a port where somebody was a moment ago."""
    async with LocalSite() as gone:
        return gone.url


def crawls_of(site_url: str, directory: Path) -> Crawls:
    return Crawls(directory / "state", [f"{site_url}/"], {"ALLOW_NETS": NETWORK}, SHARDS)


async def test_a_refused_port_is_named_at_once_and_given_up_when_the_patience_ends(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    tmp_path: Path,
    site: LocalSite,
    dead_url: str,
) -> None:
    site.answers["/"] = answer(
        body=f'<a href="/a">a</a> <a href="{dead_url}/1"> <a href="{dead_url}/2">'.encode()
    )
    site.answers["/a"] = answer(body=b"a page")
    crawls = crawls_of(site.url, tmp_path)
    looker = Looker(crawls.place)
    worker = start_worker(
        broker_process.url, **crawls.settings(CRAWL_LIMITED_PATIENCE_S=str(PATIENCE_S))
    )
    crawl = crawls.start(limits=LimitSpec(pages=50))

    # Nothing but the dead host is left.
    await eventually(lambda: crawls.counters(crawl)["done"] == 2, 40)
    known_at = time.monotonic()
    while True:
        view, errors = await looker.look(crawl)
        if REFUSED in errors and REFUSED in view.limited_by:
            break
        assert time.monotonic() - known_at < 5, (view, errors)
        await asyncio.sleep(0.1)
    assert view.state is CrawlState.RUNNING
    assert errors[REFUSED].sample_url.startswith(dead_url)
    assert view.limited_by.startswith(f"host put off: {dead_url} ({REFUSED}), tried again at ")
    [put_off] = view.put_off
    assert (put_off.origin, put_off.reason) == (dead_url, REFUSED)
    assert worker.has_logged("host put off")

    ended = await crawls.ended(crawl, PATIENCE_S + 20)
    view, errors = await looker.look(crawl)
    assert ended.state is CrawlState.COMPLETED
    assert view.urls["failed"] == 2
    assert view.left_out["failed"] == 2
    assert errors[REFUSED].count >= 2
    assert worker.has_logged("host given up")


async def test_a_url_that_is_always_answered_with_503_ends_and_so_does_its_crawl(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path, site: LocalSite
) -> None:
    """In a crawl without a limit, which has patience for hours."""
    links = "".join(f'<a href="/{number}">n</a>' for number in range(20))
    site.answers["/"] = answer(body=f'<a href="/busy">b</a>{links}'.encode())
    site.answers |= {f"/{number}": answer(body=b"a page") for number in range(20)}
    site.answers["/busy"] = answer(503, Retry_After="1")
    crawls = crawls_of(site.url, tmp_path)
    crawl = crawls.start(scope=ScopeSpec(max_depth=20))
    start_worker(broker_process.url, **crawls.settings())

    ended = await crawls.ended(crawl, 90)

    assert ended.state is CrawlState.COMPLETED
    assert 2 <= site.paths.count("/busy") <= 5
    counters = crawls.counters(crawl)
    assert (counters["done"], counters["failed"]) == (21, 1)
    _, errors = await Looker(crawls.place).look(crawl)
    assert errors["http 503"].count == 1
    assert errors["http 503: host put off"].count == site.paths.count("/busy") - 1


async def test_a_robots_txt_that_is_never_there_is_named_and_its_host_given_up(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path, site: LocalSite
) -> None:
    site.answers["/robots.txt"] = answer(500)
    site.answers["/"] = answer(body=b"a page")
    crawls = crawls_of(site.url, tmp_path)
    crawl = crawls.start(limits=LimitSpec(pages=50))
    start_worker(broker_process.url, **crawls.settings(CRAWL_LIMITED_PATIENCE_S="2"))

    ended = await crawls.ended(crawl, 60)

    assert (ended.state, ended.reason) == (CrawlState.FAILED, "not one page could be fetched")
    assert set(site.paths) == {"/robots.txt"}
    assert 2 <= len(site.paths) <= 4
    _, errors = await Looker(crawls.place).look(crawl)
    assert "robots.txt: status 500" in errors

"""Everything that names URLs besides links, by a real worker: honest and hostile."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devservers import BrokerServer
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.spec import DiscoverySpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.worker.pages.documents import MAX_SITEMAP_BYTES
from manyhands.worker.pages.listings import MAX_LISTED
from tests.conftest import StartWorker
from tests.support.crawling import Crawls
from tests.support.local_site import LocalSite, answer

pytestmark = pytest.mark.timeout(180)

TEN_MILLION = 10_000_000
AT_ONCE = 10_000


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


def xml(body: str) -> bytes:
    return answer(200, body.encode(), "application/xml")


def urlset(site: LocalSite, *paths: str) -> str:
    entries = "".join(f"<url><loc>{site.url}{path}</loc></url>" for path in paths)
    return f"<urlset>{entries}</urlset>"


def index(site: LocalSite, *paths: str) -> str:
    children = "".join(f"<sitemap><loc>{site.url}{path}</loc></sitemap>" for path in paths)
    return f"<sitemapindex>{children}</sitemapindex>"


def serve_honest_sources(site: LocalSite) -> set[str]:
    """The paths of all pages."""
    head = (
        "<link rel=next href=/next><link rel=alternate hreflang=de href=/de>"
        "<link rel=alternate type=application/atom+xml href=/feed>"
        "<iframe src=/frame></iframe><a href=/picture.jpg>a page about a picture</a>"
    )
    pages = {"/": head, "/next": '<meta http-equiv=refresh content="0;url=/refreshed">'}
    far = "/" + "far" * 100
    paths = (far, "/de", "/frame", "/picture.jpg", "/refreshed", "/entry", "/mapped", "/packed")
    pages |= dict.fromkeys(paths, "a page")
    for path, text in pages.items():
        site.answers[path] = answer(200, text.encode(), Refresh=f"5; url={far}")
    feed = b"<feed><entry><link href='/entry'/></entry></feed>"
    site.answers["/feed"] = answer(200, feed, "application/atom+xml")
    site.answers["/robots.txt"] = answer(
        200, f"Sitemap: {site.url}/index.xml".encode(), "text/plain"
    )
    site.answers["/index.xml"] = xml(index(site, "/1.xml", "/2.xml.gz"))
    site.answers["/1.xml"] = xml(urlset(site, "/mapped", "/"))
    packed = gzip.compress(urlset(site, "/packed").encode())
    site.answers["/2.xml.gz"] = answer(200, packed, "application/gzip")
    return set(pages)


def serve_hostile_sitemaps(site: LocalSite) -> None:
    names = ("bomb.xml.gz", "million.xml", "entities.xml", "index.xml", "broken.xml", "others.xml")
    text = "".join(f"Sitemap: {site.url}/{name}\n" for name in names)
    site.answers["/robots.txt"] = answer(200, text.encode(), "text/plain")
    site.answers["/"] = answer(200, b"<a href=/linked>x</a>")
    site.answers["/linked"] = site.answers["/mapped"] = answer(200, b"a page")
    bomb = gzip.compress(b"<urlset>" + b" " * MAX_SITEMAP_BYTES)
    site.answers["/bomb.xml.gz"] = answer(200, bomb, "application/gzip")
    site.answers["/million.xml"] = lambda _, writer: ten_million(site, writer)
    site.answers["/entities.xml"] = xml('<!DOCTYPE x [<!ENTITY a "aa">]><urlset>&a;</urlset>')
    site.answers["/index.xml"] = xml(index(site, "/nested.xml"))
    site.answers["/nested.xml"] = xml(index(site, "/nested.xml", "/deeper.xml"))
    site.answers["/broken.xml"] = xml(urlset(site, "/mapped") + "<")
    site.answers["/others.xml"] = xml(
        "<urlset><url><loc>http://other.example/</loc></url></urlset>"
    )


async def ten_million(site: LocalSite, writer: asyncio.StreamWriter) -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nConnection: close\r\n\r\n<urlset>"
    writer.write(head.encode())
    for start in range(0, TEN_MILLION, AT_ONCE):
        paths = (f"/m/{number}" for number in range(start, start + AT_ONCE))
        writer.write(urlset(site, *paths)[len("<urlset>") : -len("</urlset>")].encode())
        await writer.drain()


async def test_every_source_is_followed_and_each_can_be_turned_off(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path, site: LocalSite
) -> None:
    pages = serve_honest_sources(site)
    crawls = Crawls(tmp_path / "state", [f"{site.url}/"], {"ALLOW_NETS": "127.0.0.0/8"}, 4)
    crawl = crawls.start()
    start_worker(broker_process.url, **crawls.settings("crawl:1x20 parse:1x20"))

    ended = await crawls.ended(crawl, 100)

    counters = crawls.counters(crawl)
    documents = {"/feed", "/index.xml", "/1.xml", "/2.xml.gz"}
    assert ended.state is CrawlState.COMPLETED
    assert set(site.paths) == pages | documents | {"/robots.txt"}
    assert counters["done"] == len(pages | documents)
    assert (counters["feeds"], counters["sitemaps"], counters["failed"]) == (1, 3, 0)

    off = {str(source): False for source in Source} | {"sitemaps": "none"}
    site.requests.clear()
    without = crawls.start(
        scope=ScopeSpec(skips_files=True), discovery=DiscoverySpec.model_validate(off)
    )
    await crawls.ended(without, 100)
    assert set(site.paths) <= {"/", "/robots.txt"}
    assert crawls.counters(without)["trapped"] == 1


async def test_hostile_sitemaps_are_cut_and_counted_and_the_crawl_goes_on(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path, site: LocalSite
) -> None:
    serve_hostile_sitemaps(site)
    crawls = Crawls(tmp_path / "state", [f"{site.url}/"], {"ALLOW_NETS": "127.0.0.0/8"}, 4)
    crawl = crawls.start(scope=ScopeSpec(exclude=("*/m/*",)))
    start_worker(broker_process.url, **crawls.settings("crawl:1x20 parse:1x20"))

    ended = await crawls.ended(crawl, 150)

    counters = crawls.counters(crawl)
    assert ended.state is CrawlState.COMPLETED
    assert {"/linked", "/mapped"} <= set(site.paths)
    assert "/deeper.xml" not in site.paths
    assert counters["other_pattern"] == MAX_LISTED
    cuts = ("sitemap_bytes", "sitemap_urls", "entities", "nested_index", "bad_xml")
    assert {cut: counters[f"cut_by_{cut}"] for cut in cuts} == dict.fromkeys(cuts, 1)
    # That of the ten million, which has no end: it was not read to it.
    assert counters["cut_by_fetch_limit"] == 1
    assert counters["sitemap_refused"] == 1
    assert counters["failed"] == 0

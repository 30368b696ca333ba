"""robots.txt over HTTP, from sites on loopback: the rows of CRAWLING.md 5.1."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import Any

import pytest
import trustme

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.worker.crawl.politeness.robots import (
    ALLOW_ALL,
    MAX_BYTES,
    RULES,
    UNREACHABLE,
    rules_of,
)
from manyhands.worker.crawl.politeness.robots_cache import fetch_robots
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from tests.support.local_site import LocalSite, answer, redirect
from tests.support.stub_resolver import StubResolver

LOOPBACK = AddressRule([ip_network("127.0.0.0/8")])
LONG_S = 20.0
SHORT_S = 0.2
TIMES = ("timeout_s", "connect_timeout_s", "first_byte_timeout_s", "read_timeout_s")
NOW = 1_800_000_000.0
DAY = 86_400.0
UP = b"User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n"
NAMES = {
    "site.example": [["127.0.0.1"]],
    "other.example": [["127.0.0.1"]],
    "inside.example": [["10.0.0.1"]],
}

Fetch = Callable[..., Any]


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


@pytest.fixture
async def fetch(site: LocalSite) -> AsyncIterator[Fetch]:
    async with AsyncExitStack() as opened:

        async def fetch(origin: str | None = None, **changes: Any) -> StoredRobots:
            settings = FetchSettings(**dict.fromkeys(TIMES, LONG_S) | changes)
            fetcher = Http1Fetcher(settings, LOOPBACK, lambda: StubResolver(NAMES))
            opened.push_async_callback(fetcher.close)
            return await fetch_robots(
                fetcher,
                origin or f"http://site.example:{site.port}",
                user_agent="Manyhands/0.1 (+mailto:me@example.org)",
                check=lambda: None,
                now=lambda: NOW,
            )

        yield fetch


def allows(stored: StoredRobots, path: str) -> bool:
    return rules_of(stored).allows(f"http://site.example{path}")


async def test_2xx_is_parsed(site: LocalSite, fetch: Fetch) -> None:
    site.answers["/robots.txt"] = answer(200, UP, Cache_Control="public, max-age=600")
    stored = await fetch()
    assert stored == StoredRobots(RULES, UP, NOW, NOW + 600)
    assert not allows(stored, "/private/")
    assert allows(stored, "/public")
    assert rules_of(stored).crawl_delay_s == 2
    assert "User-Agent: Manyhands/0.1 (+mailto:me@example.org)\r\n" in site.requests[0]
    assert f"Host: site.example:{site.port}\r\n" in site.requests[0]


async def test_2xx_is_unpacked(site: LocalSite, fetch: Fetch) -> None:
    site.answers["/robots.txt"] = answer(200, gzip.compress(UP), Content_Encoding="gzip")
    assert (await fetch()).body == UP


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_2xx_is_cut_at_500_kib_and_the_last_line(
    site: LocalSite, fetch: Fetch, encoding: str
) -> None:
    body = UP + b"Disallow: /some/where\n" * 100_000
    if encoding:
        site.answers["/robots.txt"] = answer(200, gzip.compress(body, 1), Content_Encoding="gzip")
    else:
        site.answers["/robots.txt"] = answer(200, body)
    stored = await fetch()
    assert MAX_BYTES - 100 < len(stored.body) <= MAX_BYTES
    assert stored.body.endswith(b"Disallow: /some/where\n")
    assert not allows(stored, "/private/")
    assert allows(stored, "/")


async def test_2xx_with_a_page_in_place_of_the_file_allows_everything(
    site: LocalSite, fetch: Fetch
) -> None:
    page = b"<!DOCTYPE html><title>Hello</title>\n<p>Disallow: /"
    site.answers["/robots.txt"] = answer(200, page, "text/html")
    assert allows(await fetch(), "/")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_3xx_is_followed(site: LocalSite, fetch: Fetch, status: int) -> None:
    site.answers["/robots.txt"] = redirect("/there", status)
    site.answers["/there"] = answer(200, UP)
    assert (await fetch()).body == UP


async def test_3xx_is_followed_five_times_and_no_more(site: LocalSite, fetch: Fetch) -> None:
    site.answers["/robots.txt"] = redirect("/1")
    for hop in range(1, 5):
        site.answers[f"/{hop}"] = redirect(f"/{hop + 1}")
    site.answers["/5"] = answer(200, UP)
    assert (await fetch()).body == UP
    site.answers["/5"] = redirect("/6")
    site.answers["/6"] = answer(200, UP)
    assert (await fetch()).kind == ALLOW_ALL
    assert site.paths[-6:] == ["/robots.txt", "/1", "/2", "/3", "/4", "/5"]


async def test_3xx_to_another_host_counts_for_the_first(site: LocalSite, fetch: Fetch) -> None:
    async with LocalSite() as other:
        site.answers["/robots.txt"] = redirect(f"http://other.example:{other.port}/robots.txt")
        other.answers["/robots.txt"] = answer(200, UP)
        stored = await fetch()
    assert not allows(stored, "/private/")
    assert f"Host: other.example:{other.port}\r\n" in other.requests[0]


@pytest.mark.parametrize(
    "target", ["http://10.0.0.1/", "http://inside.example/", "http://[::ffff:169.254.169.254]/"]
)
async def test_3xx_into_a_private_network_is_not_followed(
    site: LocalSite, fetch: Fetch, target: str
) -> None:
    site.answers["/robots.txt"] = redirect(target)
    assert (await fetch()).kind == ALLOW_ALL


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_4xx_allows_everything(site: LocalSite, fetch: Fetch, status: int) -> None:
    site.answers["/robots.txt"] = answer(status, b"User-agent: *\nDisallow: /")
    stored = await fetch()
    assert stored == StoredRobots(ALLOW_ALL, b"", NOW, NOW + DAY)
    assert allows(stored, "/private/")


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_429_and_5xx_forbid_everything(site: LocalSite, fetch: Fetch, status: int) -> None:
    site.answers["/robots.txt"] = answer(status, UP, Retry_After="900")
    stored = await fetch()
    assert (stored.kind, stored.expires_at) == (UNREACHABLE, NOW + 900)
    assert not allows(stored, "/public")
    assert rules_of(stored).reason == f"status {status}"


@pytest.mark.parametrize("limit", ["first_byte_timeout_s", "timeout_s"])
async def test_a_time_out_forbids_everything(site: LocalSite, fetch: Fetch, limit: str) -> None:
    async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    site.answers["/robots.txt"] = silence
    stored = await fetch(**{limit: SHORT_S})
    assert stored.kind == UNREACHABLE
    assert rules_of(stored).reason.startswith("time-out")


async def test_half_a_file_forbids_everything(site: LocalSite, fetch: Fetch) -> None:
    site.answers["/robots.txt"] = answer(200, UP)[:-10]
    assert (await fetch()).kind == UNREACHABLE


async def test_a_name_that_does_not_exist_forbids_everything(fetch: Fetch) -> None:
    stored = await fetch("http://missing.example")
    assert stored.kind == UNREACHABLE
    assert rules_of(stored).reason == "dns: no such host"


async def test_a_port_where_nobody_listens_forbids_everything(fetch: Fetch) -> None:
    async with LocalSite() as gone:
        origin = gone.url
    stored = await fetch(origin)
    assert stored.kind == UNREACHABLE
    assert rules_of(stored).reason == "connection refused"


async def test_a_certificate_that_nobody_vouches_for_forbids_everything(fetch: Fetch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with LocalSite().with_tls(context) as site:
        stored = await fetch(site.url)
    assert stored.kind == UNREACHABLE
    assert rules_of(stored).reason.startswith("tls")


async def test_a_forbidden_address_is_left_to_the_pages(fetch: Fetch) -> None:
    stored = await fetch("http://inside.example")
    assert stored == StoredRobots(ALLOW_ALL, b"", NOW, NOW + 60)

"""The fetcher against a site on loopback: answers, limits, time-outs, what it sends."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any

import pytest
import trustme

from devservers.processes import Port
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.worker.net.fetcher import Page, PermanentFetchError, TemporaryFetchError
from manyhands.worker.net.following import FollowingFetcher
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from tests.support.local_site import Handler, LocalSite, answer, redirect
from tests.support.stub_resolver import StubResolver

LOOPBACK = AddressRule([ip_network("127.0.0.0/8")])
LONG_S = 20.0
SHORT_S = 0.2

MakeFetcher = Callable[..., FollowingFetcher]
TIMES = ("timeout_s", "connect_timeout_s", "first_byte_timeout_s", "read_timeout_s")


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


@pytest.fixture
async def make_fetcher() -> AsyncIterator[MakeFetcher]:
    made: list[Http1Fetcher] = []

    def make(**changes: Any) -> FollowingFetcher:
        settings = FetchSettings(**dict.fromkeys(TIMES, LONG_S) | changes)
        resolver = StubResolver({"site.example": [["127.0.0.1"]]})
        made.append(Http1Fetcher(settings, LOOPBACK, lambda: resolver))
        return FollowingFetcher(made[-1], settings)

    yield make
    for fetcher in made:
        await fetcher.close()


@pytest.fixture
def fetch(site: LocalSite, make_fetcher: MakeFetcher) -> Callable[..., Any]:
    async def fetch(path: str = "/", **settings: Any) -> Page:
        return await make_fetcher(**settings).fetch(site.url + path)

    return fetch


def sends(*parts: bytes, then: Handler | None = None) -> Handler:
    """A handler that sends these and then goes on, or ends the connection."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if then is not None:
            await then(reader, writer)

    return handler


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Until the other side gives up."""
    await reader.read()


def until_reset(arrived: asyncio.Event, is_reset: asyncio.Event) -> Handler:
    """A handler that answers nothing and sees whether the connection is cut off, not closed."""

    async def wait(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        arrived.set()
        try:
            await reader.read()
        except ConnectionResetError:
            is_reset.set()

    return wait


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


async def test_a_page_is_fetched(site: LocalSite, fetch: Any) -> None:
    site.answers["/a?b=1"] = answer(body=b"<p>hello", content_type="text/html; charset=utf-8")
    page = await fetch("/a?b=1#part")
    assert (page.url, page.final_url) == (site.url + "/a?b=1", site.url + "/a?b=1")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert (page.body, page.cut) == (b"<p>hello", None)
    assert page.fetched_at.tzinfo is not None


async def test_a_request_says_who_asks_and_carries_no_cookie(site: LocalSite, fetch: Any) -> None:
    site.answers["/"] = redirect("/next").replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n")
    site.answers["/next"] = answer()
    await fetch("/", user_agent="Example/1.0 (+mailto:me@example.com)")
    for request in site.requests:
        headers = request.lower()
        assert "user-agent: example/1.0 (+mailto:me@example.com)\r\n" in headers
        assert "accept-encoding: gzip, deflate, br, zstd\r\n" in headers
        assert f"host: 127.0.0.1:{site.port}\r\n" in headers
        assert "cookie" not in headers
        assert "authorization" not in headers


async def test_a_name_is_sent_as_it_is_written(site: LocalSite, make_fetcher: MakeFetcher) -> None:
    site.answers["/%C3%A4?q=a%20b"] = answer(body=b"found")
    page = await make_fetcher().fetch(f"http://SITE.example.:{site.port}/ä?q=a b")
    assert page.body == b"found"
    assert f"Host: site.example:{site.port}\r\n" in site.requests[0]


@pytest.mark.parametrize("status", [204, 304, 400, 401, 403, 404, 410])
async def test_any_final_status_is_a_page(site: LocalSite, fetch: Any, status: int) -> None:
    site.answers["/"] = f"HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n".encode()
    page = await fetch()
    assert (page.status, page.body, page.content_type) == (status, b"", "")


async def test_a_redirect_without_a_location_is_a_page(site: LocalSite, fetch: Any) -> None:
    site.answers["/"] = answer(302, b"where to?")
    assert (await fetch()).status == 302


# Redirects


async def test_redirects_are_followed_and_both_urls_are_kept(site: LocalSite, fetch: Any) -> None:
    site.answers |= {
        "/a": redirect("b", 301),
        "/b": redirect("?c", 303),
        "/b?c": redirect(f"{site.url}/d/./e#part", 308),
        "/d/e": answer(body=b"here"),
    }
    page = await fetch("/a")
    assert (page.url, page.final_url, page.body) == (site.url + "/a", site.url + "/d/e", b"here")


async def test_redirects_have_an_end(site: LocalSite, fetch: Any) -> None:
    site.answers["*"] = redirect("/again")
    with pytest.raises(PermanentFetchError, match="more than 2 redirects"):
        await fetch(max_redirects=2)
    assert site.connections == 3


async def test_no_redirect_may_be_allowed(site: LocalSite, fetch: Any) -> None:
    site.answers["*"] = redirect("/again")
    with pytest.raises(PermanentFetchError, match="more than 0"):
        await fetch(max_redirects=0)


@pytest.mark.parametrize("location", ["ftp://x.example/", "http://u:secret@x.example/", "http://["])
async def test_a_redirect_to_what_cannot_be_fetched_is_final(
    site: LocalSite, fetch: Any, location: str
) -> None:
    site.answers["*"] = redirect(location)
    with pytest.raises(PermanentFetchError, match="redirected to no usable URL") as refused:
        await fetch()
    assert "secret" not in str(refused.value)


# Temporary


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_status_that_may_change_is_temporary(
    site: LocalSite, fetch: Any, status: int
) -> None:
    site.answers["/"] = answer(status, b"sorry", Retry_After="90")
    with pytest.raises(TemporaryFetchError, match=f"answered {status}") as raised:
        await fetch()
    assert raised.value.retry_after_s == 90


@pytest.mark.parametrize(
    "handler",
    [
        sends(),
        sends(b"HTTP/1.1 200"),
        sends(b"this is not HTTP\r\n\r\n"),
        sends(HEAD + b"Content-Length: 100\r\n\r\nhalf"),
        sends(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        sends(HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n"),
    ],
    ids=["nothing", "half a line", "garbage", "half a body", "bad chunk", "a long header"],
)
async def test_a_broken_answer_is_temporary(site: LocalSite, fetch: Any, handler: Handler) -> None:
    site.answers["/"] = handler
    with pytest.raises(TemporaryFetchError) as raised:
        await fetch()
    assert raised.value.retry_after_s is None


async def test_a_port_where_nobody_listens_is_temporary(make_fetcher: MakeFetcher) -> None:
    # Held, so that nobody else can listen there meanwhile.
    port = Port()
    with pytest.raises(TemporaryFetchError, match="Connect"):
        await make_fetcher().fetch(f"http://127.0.0.1:{port.number}/")
    port.release()


async def test_a_name_that_does_not_exist_is_temporary(make_fetcher: MakeFetcher) -> None:
    with pytest.raises(TemporaryFetchError, match="DNS"):
        await make_fetcher().fetch("http://missing.example/")


@pytest.mark.parametrize(
    ("handler", "settings"),
    [
        (silence, {"first_byte_timeout_s": SHORT_S}),
        (silence, {"timeout_s": SHORT_S}),
        (sends(HEAD, then=silence), {"first_byte_timeout_s": SHORT_S}),
        (
            sends(HEAD + b"Content-Length: 9\r\n\r\nhalf", then=silence),
            {"read_timeout_s": SHORT_S},
        ),
        (sends(HEAD + b"Content-Length: 9\r\n\r\nhalf", then=silence), {"timeout_s": SHORT_S}),
    ],
)
async def test_silence_is_a_time_out(
    site: LocalSite, fetch: Any, handler: Handler, settings: dict[str, float]
) -> None:
    site.answers["/"] = handler
    with pytest.raises(TemporaryFetchError, match="time-out"):
        await fetch(**settings)


async def test_a_server_that_sends_a_byte_now_and_then_does_not_hold_a_slot_for_ever(
    site: LocalSite, fetch: Any
) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    site.answers["/"] = drip
    with pytest.raises(TemporaryFetchError, match=r"not done in 0\.3 s"):
        await fetch(timeout_s=0.3)


async def test_the_time_out_counts_for_all_redirects_together(site: LocalSite, fetch: Any) -> None:
    async def slow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(redirect("/"))
        await writer.drain()

    site.answers["*"] = slow
    with pytest.raises(TemporaryFetchError, match="time-out"):
        await fetch(timeout_s=2, max_redirects=50)
    assert site.connections > 1


async def test_a_connection_that_is_never_answered_is_a_time_out(
    make_fetcher: MakeFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_sock: Any, _address: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", never)
    with pytest.raises(TemporaryFetchError, match="time-out"):
        await make_fetcher(connect_timeout_s=SHORT_S).fetch("http://site.example/")


# Size


async def test_a_long_body_is_cut_and_the_rest_is_left_unread(site: LocalSite, fetch: Any) -> None:
    sent = 0

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 10_000)
            await writer.drain()
            sent += 10_000

    site.answers["/"] = endless
    page = await fetch(max_bytes=5000)
    assert (page.body, page.cut) == (b"x" * 5000, Cut.FETCH_LIMIT)
    assert sent < 50_000_000


async def test_a_gzipped_page_is_unpacked(site: LocalSite, fetch: Any) -> None:
    site.answers["/"] = answer(body=gzip.compress(b"<p>" * 1000), Content_Encoding="gzip")
    page = await fetch()
    assert (page.body, page.cut) == (b"<p>" * 1000, None)


async def test_a_bomb_is_cut_like_any_long_page(site: LocalSite, fetch: Any) -> None:
    bomb = gzip.compress(bytes(20_000_000), 1)
    site.answers["/"] = answer(body=bomb, Content_Encoding="gzip")
    page = await fetch(max_bytes=10_000)
    assert (len(page.body), page.cut) == (10_000, Cut.FETCH_LIMIT)


async def test_an_encoding_that_was_not_asked_for_is_final(site: LocalSite, fetch: Any) -> None:
    site.answers["/"] = answer(body=b"?", Content_Encoding="compress")
    with pytest.raises(PermanentFetchError, match="not asked for"):
        await fetch()


async def test_a_chunked_body_is_put_together(site: LocalSite, fetch: Any) -> None:
    site.answers["/"] = sends(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"
    )
    assert (await fetch()).body == b"abcde"


async def test_a_content_type_of_strange_bytes_can_travel_in_a_job(
    site: LocalSite, fetch: Any
) -> None:
    site.answers["/"] = answer().replace(b"text/html", b"text/\xff\xfe" + b"x" * 1000)
    page = await fetch()
    assert page.content_type.isascii()
    assert len(page.content_type) == 200


# Connections


async def test_a_connection_is_used_again(site: LocalSite, make_fetcher: MakeFetcher) -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 5\r\n\r\nagain")
        await reader.read()

    site.answers["/"] = twice
    fetcher = make_fetcher()
    assert (await fetcher.fetch(site.url)).body == b"ok"
    assert (await fetcher.fetch(site.url)).body == b"again"
    assert site.connections == 1


async def test_an_answer_whose_body_nobody_wants_leaves_its_connection_to_the_next(
    site: LocalSite, make_fetcher: MakeFetcher
) -> None:
    async def error_and_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nsorry")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")
        await reader.read()

    site.answers["/"] = error_and_page
    fetcher = make_fetcher()
    with pytest.raises(TemporaryFetchError, match="answered 503"):
        await fetcher.fetch(site.url)
    assert (await fetcher.fetch(site.url)).body == b"ok"
    assert site.connections == 1


async def test_many_pages_of_one_host_are_fetched_at_a_time(
    site: LocalSite, make_fetcher: MakeFetcher
) -> None:
    everybody = asyncio.Barrier(150)

    async def together(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await everybody.wait()
        writer.write(answer())
        await writer.drain()

    site.answers["*"] = together
    fetcher = make_fetcher()
    pages = await asyncio.gather(*(fetcher.fetch(f"{site.url}/{n}") for n in range(150)))
    assert {page.status for page in pages} == {200}


async def test_a_fetcher_that_was_closed_can_be_used_again(site: LocalSite) -> None:
    site.answers["/"] = answer(body=b"ok")
    hops = Http1Fetcher(FetchSettings(), LOOPBACK)
    await hops.close()
    for _ in range(2):
        assert (await FollowingFetcher(hops, FetchSettings()).fetch(site.url)).body == b"ok"
        await hops.close()


async def test_a_fetch_that_is_cancelled_leaves_no_connection(
    site: LocalSite, make_fetcher: MakeFetcher
) -> None:
    arrived, is_reset = asyncio.Event(), asyncio.Event()
    site.answers["/"] = until_reset(arrived, is_reset)
    task = asyncio.create_task(make_fetcher().fetch(site.url))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # What the system had not sent yet would be thrown away, too.
    await is_reset.wait()


async def test_a_request_without_an_answer_in_time_is_not_sent_any_more(
    site: LocalSite, make_fetcher: MakeFetcher
) -> None:
    arrived, is_reset = asyncio.Event(), asyncio.Event()
    site.answers["/"] = until_reset(arrived, is_reset)
    with pytest.raises(TemporaryFetchError):
        await make_fetcher(first_byte_timeout_s=SHORT_S).fetch(site.url)
    await is_reset.wait()


async def test_a_certificate_that_nobody_vouches_for_is_final(make_fetcher: MakeFetcher) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with LocalSite().with_tls(context) as site:
        with pytest.raises(PermanentFetchError, match="certificate"):
            await make_fetcher().fetch(site.url)

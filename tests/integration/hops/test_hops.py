"""One hop over real sockets: what a fetcher tells of an answer, whom it asks before it connects and
before it sends, and how it gets away from sites that are broken, slow or hostile."""

import asyncio
import contextlib
import datetime
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import brotli
import pytest
import trustme
import zstandard

from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    ForbiddenAddress,
    PermanentFetchError,
    TemporaryFetchError,
)
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from tests.support.local_site import Handler, LocalSite, answer
from tests.support.stub_resolver import StubResolver

LOOPBACK = AddressRule([ip_network("127.0.0.0/8"), ip_network("::1/128")])
NAMES = {
    "site.example": [["127.0.0.1"]],
    "other.example": [["127.0.0.1"]],
    "both.example": [["::1", "127.0.0.1"]],
    "inward.example": [["10.0.0.1"]],
}
LONG_S = 20.0
SHORT_S = 0.2
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PAGE = HEAD + b"Content-Length: 2\r\n\r\nok"


class Stopped(Exception):
    """What an owner raises that has lost its lease."""


def anything(_status: int, _content_type: str) -> bool:
    return True


def go_on() -> None:
    """The lease is good."""


Get = Callable[..., Awaitable[Answer]]


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., Http1Fetcher]]:
    made: list[Http1Fetcher] = []

    def make(**changes: Any) -> Http1Fetcher:
        names = ("timeout_s", "connect_timeout_s", "first_byte_timeout_s", "read_timeout_s")
        settings = FetchSettings(**dict.fromkeys(names, LONG_S) | changes)
        made.append(Http1Fetcher(settings, LOOPBACK, lambda: StubResolver(NAMES)))
        return made[-1]

    yield make
    for fetcher in made:
        await fetcher.close()


@pytest.fixture
def fetcher(make: Callable[..., Http1Fetcher]) -> Http1Fetcher:
    return make()


async def get(
    fetcher: Http1Fetcher,
    url: str,
    *,
    max_bytes: int = 1_000_000,
    check: Callable[[], None] = go_on,
    wants_body: Callable[[int, str], bool] = anything,
) -> Answer:
    return await fetcher.get(
        parse_url(url),
        user_agent="Example/1.0 (+mailto:me@example.com)",
        max_bytes=max_bytes,
        check=check,
        wants_body=wants_body,
    )


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


def serving(page: bytes) -> Handler:
    """Answer every request of a connection that stays open; the first has been read."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                writer.write(page)
                await reader.readuntil(b"\r\n\r\n")

    return handler


# What an answer says


async def test_an_answer_is_told_as_it_came(site: LocalSite, fetcher: Http1Fetcher) -> None:
    site.answers["/a?b=1"] = answer(
        503,
        b"<p>later",
        content_type="text/html; charset=utf-8",
        Retry_After="120",
        X_Robots_Tag="noindex",
        Cache_Control="max-age=60",
        Location="elsewhere",
    ).replace(b"X-Robots-Tag: noindex", b"X-Robots-Tag: noindex\r\nx-robots-tag: other: nofollow")
    told = await get(fetcher, site.url + "/a?b=1")
    assert (told.url, told.status) == (site.url + "/a?b=1", 503)
    assert (told.content_type, told.location) == ("text/html; charset=utf-8", "elsewhere")
    assert (told.retry_after, told.cache_control) == ("120", "max-age=60")
    assert told.robots_tag == "noindex, other: nofollow"
    assert (told.body, told.wire_bytes, told.is_truncated) == (b"<p>later", 8, False)


async def test_what_is_not_said_is_empty(site: LocalSite, fetcher: Http1Fetcher) -> None:
    site.answers["/"] = b"HTTP/1.1 204 No Content\r\n\r\n"
    told = await get(fetcher, site.url + "/")
    assert (told.status, told.content_type, told.body) == (204, "", b"")
    assert (told.location, told.retry_after) == (None, None)
    assert (told.robots_tag, told.cache_control) == ("", "")


async def test_the_request_is_what_a_browser_would_send_less_the_cookies(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["*"] = serving(PAGE.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n"))
    url = f"http://site.example:{site.port}/%C3%A4?q=a%20b"
    for _ in range(2):
        await get(fetcher, url)
    (head,) = site.requests
    assert head.startswith("GET /%C3%A4?q=a%20b HTTP/1.1\r\n")
    lines = head.lower().split("\r\n")
    assert f"host: site.example:{site.port}" in lines
    assert "user-agent: example/1.0 (+mailto:me@example.com)" in lines
    assert "accept-encoding: gzip, deflate, br, zstd" in lines
    assert not [line for line in lines if line.startswith(("cookie", "authorization"))]


async def test_an_ipv6_address_is_asked_by_its_name_in_brackets(fetcher: Http1Fetcher) -> None:
    async with LocalSite("::1") as site:
        site.answers["/"] = answer(body=b"six")
        told = await get(fetcher, site.url + "/")
        assert (told.body, told.phases.address) == (b"six", "::1")
        assert f"Host: [::1]:{site.port}\r\n" in site.requests[0]


async def test_the_phases_say_where_the_time_went(site: LocalSite, fetcher: Http1Fetcher) -> None:
    async def slow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(HEAD + b"Content-Length: 4\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.write(b"done")

    site.answers["/"] = slow
    phases = (await get(fetcher, f"http://site.example:{site.port}/")).phases
    assert (phases.is_new_connection, phases.address) == (True, "127.0.0.1")
    # The sleeps are lower bounds; what lies between is small and never negative.
    assert phases.first_byte_s > 0.09
    assert phases.body_s > 0.09
    assert phases.connect_s > 0
    assert phases.dns_s >= 0


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("br", brotli.compress(b"<p>" * 999)), ("zstd", zstandard.compress(b"<p>" * 999))],
)
async def test_a_compressed_page_is_unpacked(
    site: LocalSite, fetcher: Http1Fetcher, encoding: str, body: bytes
) -> None:
    site.answers["/"] = answer(body=body, Content_Encoding=encoding)
    told = await get(fetcher, site.url + "/")
    assert (told.body, told.wire_bytes) == (b"<p>" * 999, len(body))


# The owner is asked


async def test_the_check_is_asked_before_the_connection_and_before_the_request(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["/"] = serving(PAGE)
    seen: list[tuple[int, int]] = []
    for _ in range(2):
        await get(
            fetcher,
            site.url + "/",
            check=lambda: seen.append((site.connections, len(site.requests))),
        )
    # The second goes over the connection that is there: it is asked once.
    assert len(seen) == 3
    assert seen[0] == (0, 0)


async def test_a_check_that_says_no_at_first_connects_to_nothing(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    def stop() -> None:
        raise Stopped

    for host in (f"127.0.0.1:{site.port}", f"both.example:{site.port}"):
        with pytest.raises(Stopped):
            await get(fetcher, f"http://{host}/", check=stop)
    assert site.connections == 0


async def test_a_check_that_says_no_after_the_connection_sends_nothing(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    asked: list[None] = []

    def stop_at_second() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise Stopped

    gone = asyncio.Event()
    real = site._serve

    async def watched(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await real(reader, writer)
        gone.set()

    site._serve = watched  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        await get(fetcher, site.url + "/", check=stop_at_second)
    await gone.wait()
    assert (site.connections, site.requests) == (1, [])


async def test_a_check_that_says_no_spares_a_kept_connection_the_request(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    requests: list[None] = []

    async def counting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                requests.append(None)
                writer.write(PAGE)
                await reader.readuntil(b"\r\n\r\n")

    def stop() -> None:
        raise Stopped

    site.answers["/"] = counting
    await get(fetcher, site.url + "/")
    with pytest.raises(Stopped):
        await get(fetcher, site.url + "/", check=stop)
    assert (await get(fetcher, site.url + "/")).phases.is_new_connection
    assert len(requests) == 2


async def test_a_body_that_is_not_wanted_stays_unread_and_the_connection_is_closed(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    gone = asyncio.Event()

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(bytes(10_000))
                await writer.drain()
        gone.set()

    asked: list[tuple[int, str]] = []

    def only_html(status: int, content_type: str) -> bool:
        asked.append((status, content_type))
        return content_type == "text/html"

    site.answers["/"] = endless
    told = await get(fetcher, site.url + "/", wants_body=only_html)
    assert (told.status, told.content_type, told.body) == (200, "video/mp4", b"")
    assert asked == [(200, "video/mp4")]
    await gone.wait()


# Connections


async def test_a_burst_of_a_host_goes_over_one_connection(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["*"] = serving(PAGE)
    told = [await get(fetcher, f"{site.url}/{number}") for number in range(4)]
    assert [one.phases.is_new_connection for one in told] == [True, False, False, False]
    assert {one.phases.address for one in told} == {"127.0.0.1"}
    assert site.connections == 1


async def test_hosts_do_not_share_a_connection(site: LocalSite, fetcher: Http1Fetcher) -> None:
    site.answers["*"] = serving(PAGE)
    for host in ("site.example", "other.example", "127.0.0.1"):
        assert (await get(fetcher, f"http://{host}:{site.port}/")).phases.is_new_connection
    assert site.connections == 3


async def test_one_idle_connection_is_kept_per_host(site: LocalSite, fetcher: Http1Fetcher) -> None:
    both = asyncio.Barrier(2)
    closed: list[None] = []
    first_closed = asyncio.Event()

    async def together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await both.wait()
        writer.write(PAGE)
        await reader.read()
        closed.append(None)
        first_closed.set()

    site.answers["*"] = together
    await asyncio.gather(get(fetcher, site.url + "/1"), get(fetcher, site.url + "/2"))
    await first_closed.wait()
    assert len(closed) == 1


async def test_a_kept_connection_that_the_server_has_closed_is_replaced(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["*"] = sends(PAGE)
    for _ in range(3):
        assert (await get(fetcher, site.url + "/")).body == b"ok"


async def test_a_request_that_a_kept_connection_swallows_is_sent_once_more(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PAGE)
        await reader.readuntil(b"\r\n\r\n")

    site.answers["*"] = once
    await get(fetcher, site.url + "/")
    assert (await get(fetcher, site.url + "/")).phases.is_new_connection
    assert site.connections == 2


async def test_a_request_that_a_kept_connection_never_answers_is_a_time_out_and_not_sent_again(
    site: LocalSite, make: Callable[..., Http1Fetcher]
) -> None:
    fetcher = make(first_byte_timeout_s=SHORT_S)
    site.answers["*"] = sends(PAGE, then=silence)
    await get(fetcher, site.url + "/")
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, site.url + "/")
    assert raised.value.reason == "time-out: first byte"
    assert site.connections == 1


async def test_a_new_connection_that_is_closed_unanswered_is_not_tried_again(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["*"] = sends()
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, site.url + "/")
    assert raised.value.reason == "connection closed"
    assert site.connections == 1


async def test_more_than_was_announced_is_no_part_of_the_next_answer(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["*"] = sends(
        PAGE + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", then=silence
    )
    for _ in range(2):
        assert (await get(fetcher, site.url + "/")).body == b"ok"
    assert site.connections == 2


async def test_an_answer_that_nobody_asked_for_is_no_answer_to_the_next_request(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    more, sent = asyncio.Event(), asyncio.Event()

    async def forward(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(PAGE)
        await writer.drain()
        await more.wait()
        writer.write(PAGE.replace(b"ok", b"no"))
        with contextlib.suppress(OSError):
            await writer.drain()
        sent.set()
        await _reader.read()

    site.answers["*"] = forward
    await get(fetcher, site.url + "/")
    more.set()
    await sent.wait()
    # The fetcher's end has it when a round trip over another connection is done.
    await get(fetcher, f"http://other.example:{site.port}/")
    assert (await get(fetcher, site.url + "/")).body == b"ok"


async def test_a_get_that_is_cancelled_leaves_no_connection(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        arrived.set()
        await reader.read()
        gone.set()

    site.answers["/"] = wait
    task = asyncio.ensure_future(get(fetcher, site.url + "/"))
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone.wait()


# Odd but honest


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nold", b"old"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\n\r\nup to the end", b"up to the end"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            b"abcde",
        ),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + PAGE, b"ok"),
        (HEAD + b"X-Odd: \xff\xfe\x01\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 50\r\n\r\n", b""),
    ],
    ids=[
        *("HTTP/1.0", "HTTP/1.0 kept open", "no reason", "an empty reason", "no length"),
        *("chunks", "hints", "odd bytes", "nothing", "not modified"),
    ],
)
async def test_an_odd_answer_is_read_as_browsers_read_it(
    site: LocalSite, fetcher: Http1Fetcher, sent: bytes, body: bytes
) -> None:
    site.answers["/"] = sends(sent)
    assert (await get(fetcher, site.url + "/")).body == body


async def test_an_answer_that_comes_byte_by_byte_is_the_same(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["/"] = sends(*(PAGE[at : at + 1] for at in range(len(PAGE))))
    assert (await get(fetcher, site.url + "/")).body == b"ok"


# Broken and hostile


MANY_HEADERS = b"".join(b"X-%d: y\r\n" % number for number in range(1000))
FLOOD = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 10_000) for number in range(50))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "connection closed"),
        (b"HTTP/1.1 200", "bad answer: not HTTP"),
        (b"this is not HTTP\r\n\r\n", "bad answer: not HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "bad answer: not HTTP"),
        (bytes(range(256)) * 10, "bad answer: not HTTP"),
        (HEAD, "bad answer: not HTTP"),
        (HEAD + b"Content-Length: 100\r\n\r\n", "bad answer: body cut short"),
        (HEAD + b"Content-Length: 100\r\n\r\nhalf", "bad answer: body cut short"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", "bad answer: body cut short"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "bad answer: malformed body"),
        (HEAD + b"Content-Length: -5\r\n\r\nx", "bad answer: not HTTP"),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "bad answer: not HTTP"),
        (HEAD + b"X: " + b"x" * 100_000 + b"\r\n\r\n", "headers too large"),
        (HEAD + MANY_HEADERS + b"\r\n", "headers too large"),
        (HEAD + FLOOD + b"\r\n", "headers too large"),
    ],
    ids=[
        *("nothing", "half a line", "garbage", "ssh", "bytes", "half a head", "no body"),
        *("half a body", "half a chunk", "bad chunk", "a negative length", "two lengths"),
        *("a long header", "many headers", "many bytes of headers"),
    ],
)
async def test_a_broken_answer_has_a_reason(
    site: LocalSite, fetcher: Http1Fetcher, sent: bytes, reason: str
) -> None:
    site.answers["/"] = sends(sent)
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, site.url + "/")
    assert raised.value.reason == reason


async def test_headers_without_end_are_cut_off(site: LocalSite, fetcher: Http1Fetcher) -> None:
    sent = 0

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"X: ")
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(b"x" * 10_000)
                await writer.drain()
                sent += 10_000

    site.answers["/"] = endless
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, site.url + "/")
    assert raised.value.reason == "headers too large"
    assert sent < 50_000_000


def _bombs() -> list[tuple[str, bytes]]:
    zeros = bytes(2_000_000)
    return [("br", brotli.compress(zeros, quality=1)), ("zstd", zstandard.compress(zeros))]


@pytest.mark.parametrize(("encoding", "bomb"), _bombs(), ids=["br", "zstd"])
async def test_a_bomb_is_cut_like_any_long_page(
    site: LocalSite, fetcher: Http1Fetcher, encoding: str, bomb: bytes
) -> None:
    site.answers["/"] = answer(body=bomb, Content_Encoding=encoding)
    told = await get(fetcher, site.url + "/", max_bytes=10_000)
    assert (len(told.body), told.is_truncated) == (10_000, True)


async def test_an_encoding_that_was_not_asked_for_is_final(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["/"] = answer(body=b"?", Content_Encoding="compress")
    with pytest.raises(PermanentFetchError) as raised:
        await get(fetcher, site.url + "/")
    assert raised.value.reason == "bad answer: encoding not asked for"


@pytest.mark.parametrize(
    ("handler", "setting", "reason"),
    [
        (silence, "first_byte_timeout_s", "time-out: first byte"),
        (sends(HEAD, then=silence), "first_byte_timeout_s", "time-out: first byte"),
        (
            sends(HEAD + b"Content-Length: 9\r\n\r\nhalf", then=silence),
            "read_timeout_s",
            "time-out: silence",
        ),
        (silence, "timeout_s", "time-out: whole document"),
        (
            sends(HEAD + b"Content-Length: 9\r\n\r\nhalf", then=silence),
            "timeout_s",
            "time-out: whole document",
        ),
    ],
)
async def test_every_wait_has_an_end_that_says_what_was_waited_for(
    site: LocalSite, make: Callable[..., Http1Fetcher], handler: Handler, setting: str, reason: str
) -> None:
    site.answers["/"] = handler
    with pytest.raises(TemporaryFetchError) as raised:
        await get(make(**{setting: SHORT_S}), site.url + "/")
    assert raised.value.reason == reason
    assert "127.0.0.1" not in str(raised.value)


async def test_a_server_that_drips_does_not_hold_a_slot_for_ever(
    site: LocalSite, make: Callable[..., Http1Fetcher]
) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)

    site.answers["/"] = drip
    with pytest.raises(TemporaryFetchError) as raised:
        await get(make(timeout_s=1.5, read_timeout_s=1.0), site.url + "/")
    assert raised.value.reason == "time-out: whole document"


async def test_a_connection_that_is_never_accepted_is_a_time_out(
    make: Callable[..., Http1Fetcher],
) -> None:
    """A listener whose queue is full answers no further SYN."""
    with socket.socket() as listener, contextlib.ExitStack() as full:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            filler = full.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        with pytest.raises(TemporaryFetchError) as raised:
            await get(
                make(connect_timeout_s=SHORT_S),
                f"http://site.example:{listener.getsockname()[1]}/",
            )
    assert raised.value.reason == "time-out: connect"


async def test_a_tls_handshake_that_is_never_answered_is_a_time_out(
    site: LocalSite, make: Callable[..., Http1Fetcher]
) -> None:
    url = f"https://site.example:{site.port}/"
    with pytest.raises(TemporaryFetchError) as raised:
        await get(make(connect_timeout_s=SHORT_S), url)
    assert raised.value.reason == "time-out: connect"


async def test_a_port_where_nobody_listens_is_refused(fetcher: Http1Fetcher) -> None:
    async with LocalSite() as gone:
        url = gone.url
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, url)
    assert raised.value.reason == "connection refused"


async def test_the_second_address_is_tried_where_the_first_refuses(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    site.answers["/"] = answer(body=b"by the second")
    told = await get(fetcher, f"http://both.example:{site.port}/")
    assert (told.body, told.phases.address) == (b"by the second", "127.0.0.1")


@pytest.mark.parametrize("host", ["10.0.0.1", "inward.example"])
async def test_a_forbidden_address_has_its_reason(fetcher: Http1Fetcher, host: str) -> None:
    with pytest.raises(ForbiddenAddress) as raised:
        await get(fetcher, f"http://{host}/")
    assert raised.value.reason == "forbidden address"


async def test_a_name_that_is_not_there_has_its_reason(fetcher: Http1Fetcher) -> None:
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, "http://missing.example/")
    assert raised.value.reason == "dns: no such host"


# TLS


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return authority


def server_tls(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def test_tls_is_spoken_with_the_name_of_the_host_and_taken_up_again(
    authority: trustme.CA, fetcher: Http1Fetcher
) -> None:
    context = server_tls(authority.issue_cert("site.example"))
    async with LocalSite().with_tls(context) as site:
        site.answers["/"] = sends(PAGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        for _ in range(3):
            told = await get(fetcher, f"https://site.example:{site.port}/")
            assert (told.body, told.phases.is_new_connection) == (b"ok", True)
        assert site.connections == 3
    assert context.session_stats()["hits"] == 2


async def test_a_connection_of_tls_is_used_again(
    authority: trustme.CA, fetcher: Http1Fetcher
) -> None:
    async with LocalSite().with_tls(server_tls(authority.issue_cert("site.example"))) as site:
        site.answers["/"] = serving(PAGE)
        for is_new in (True, False, False):
            told = await get(fetcher, f"https://site.example:{site.port}/")
            assert (told.body, told.phases.is_new_connection) == (b"ok", is_new)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("expired", "tls: certificate not accepted: expired"),
        ("other host", "tls: certificate not accepted: of another host"),
        ("self-signed", "tls: certificate not accepted: self-signed"),
        ("stranger", "tls: certificate not accepted: .*(issuer|self-signed)"),
    ],
)
async def test_a_bad_certificate_is_told_and_final(
    authority: trustme.CA, fetcher: Http1Fetcher, fault: str, reason: str, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if fault == "expired":
        long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        authority.issue_cert("site.example", not_after=long_ago).configure_cert(context)
    elif fault == "other host":
        authority.issue_cert("other.example").configure_cert(context)
    elif fault == "stranger":
        trustme.CA().issue_cert("site.example").configure_cert(context)
    else:
        alone = trustme.CA()
        alone.cert_pem.write_to_path(str(tmp_path / "alone.pem"))
        alone.private_key_pem.write_to_path(str(tmp_path / "alone.key"))
        context.load_cert_chain(tmp_path / "alone.pem", tmp_path / "alone.key")
    async with LocalSite().with_tls(context) as site:
        with pytest.raises(PermanentFetchError) as raised:
            await get(fetcher, f"https://site.example:{site.port}/")
        assert site.requests == []
    assert re.fullmatch(reason, raised.value.reason), raised.value.reason


async def test_a_port_that_does_not_speak_tls_has_its_reason(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    real = site._serve

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await real(reader, writer)

    site._serve = talk  # type: ignore[method-assign]
    with pytest.raises(TemporaryFetchError) as raised:
        await get(fetcher, f"https://site.example:{site.port}/")
    assert raised.value.reason == "tls: handshake failed"


async def test_whatever_a_server_says_the_error_is_ours(
    site: LocalSite, fetcher: Http1Fetcher
) -> None:
    """Pieces of answers in odd orders."""
    pieces = [b"HTTP/1.1 ", b"200 OK\r\n", b"\r\n", b"Content-Length: 5\r\n", b"\x00", b"a: b\r\n"]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"HTTP/1.1 101 X\r\n\r\n"]
    for first in pieces:
        for second in pieces:
            site.answers["/"] = sends(b"HTTP/1.1 200 OK\r\n" + first + second + b"\r\n\r\n")
            with contextlib.suppress(FetchError):
                await get(fetcher, site.url + "/")


# Bytes in flight


async def test_large_pages_take_turns_when_together_they_are_too_much(
    site: LocalSite, make: Callable[..., Http1Fetcher]
) -> None:
    size, pages, limit = 3_000_000, 12, 1_000_000
    site.answers["*"] = HEAD + b"Content-Length: %d\r\n\r\n" % size + bytes(size)
    # Most of them wait for longer than silence may last.
    fetcher = make(read_timeout_s=0.5, in_flight_bytes=limit)
    budget = fetcher._budget
    most = done = 0

    async def fetch(number: int) -> None:
        nonlocal most, done
        answer = await fetcher.get(
            parse_url(f"{site.url}/{number}"),
            user_agent="x",
            max_bytes=10_000_000,
            check=go_on,
            wants_body=anything,
        )
        most = max(most, budget.held)
        assert len(answer.body) == size
        # As long as the broker takes.
        await asyncio.sleep(0.1)
        done += 1

    await asyncio.gather(*(fetch(number) for number in range(pages)))
    assert done == pages
    # One page, and one read of each besides.
    assert most <= limit + size + pages * 262_144
    assert (budget.held, budget.waiting) == (0, 0)

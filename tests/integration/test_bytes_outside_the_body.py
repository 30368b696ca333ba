"""Answers whose bytes are mostly no body, from a real server to a real fetcher in a process of its
own: they end with a reason, cost little memory, and other fetches go on meanwhile."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.acceptance.scale import OTHERS_WAIT_S
from tests.support.local_site import Handler, LocalSite, answer

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = "bad answer: too much that is no body"
# What each answer is, before what is repeated without end.
TRAILERS = {
    "one_value": (b"5\r\nhello\r\n0\r\na: ", b"v" * 65_536),
    "one_name": (b"5\r\nhello\r\n0\r\n", b"n" * 65_536),
    "many": (b"5\r\nhello\r\n0\r\n", b"a: b\r\n" * 10_000),
    "folded_value": (b"5\r\nhello\r\n0\r\na: b", b"\n x" * 20_000),
    "extension": (b"5;", b"e" * 65_536),
}
# Of all that a hostile server may make us keep of one answer.
MOST_MB = 30
BODY_BYTES = 1_000_000

pytestmark = pytest.mark.alone


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        site.answers["/honest"] = answer(body=b"<p>" * 7_000)
        yield site


def endless(start: bytes, repeated: bytes, writes: int = 10**9) -> Handler:
    async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + start)
        for _ in range(writes):
            writer.write(repeated)
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return send


async def fetch(site: LocalSite, *paths: str, max_bytes: int = 2 * BODY_BYTES) -> dict[str, Any]:
    urls = [site.url + path for path in ("/honest", *paths)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.fetching_process", str(max_bytes), *urls),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        told, _ = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
    found: dict[str, Any] = json.loads(told)
    return found


async def test_an_answer_that_never_ends_outside_its_body_is_given_up_at_once(
    site: LocalSite,
) -> None:
    for name, (start, repeated) in TRAILERS.items():
        site.answers[f"/{name}"] = endless(start, repeated)
    found = await fetch(site, *(f"/{name}" for name in TRAILERS))
    assert found["ends"] == [ENDLESS] * len(TRAILERS)
    assert found["grown_mb"] < MOST_MB
    assert found["slowest_s"] < OTHERS_WAIT_S
    assert found["seconds"] < 10


@pytest.mark.parametrize("size", [1, 2])
async def test_tiny_chunks_are_refused_where_they_are_mostly_no_body(
    site: LocalSite, size: int
) -> None:
    chunk = b"%d\r\n%s\r\n" % (size, b"xy"[:size])
    site.answers["/tiny"] = endless(b"", chunk * 10_000, BODY_BYTES // size // 10_000)
    found = await fetch(site, "/tiny")
    assert found["ends"] == [ENDLESS]
    assert found["grown_mb"] < MOST_MB


async def test_small_chunks_that_bring_something_cost_no_more_than_the_body(
    site: LocalSite,
) -> None:
    chunk = b"6\r\nabcdef\r\n"
    site.answers["/small"] = endless(b"", chunk * 10_000, BODY_BYTES // 60_000)
    found = await fetch(site, *["/small"] * 4)
    assert found["ends"] == [str(BODY_BYTES // 60_000 * 60_000)] * 4
    assert found["grown_mb"] < MOST_MB
    assert found["slowest_s"] < OTHERS_WAIT_S

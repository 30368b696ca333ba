"""Answers to our fetcher, over a real connection: any bytes, and then the end of it."""

import asyncio
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Self

import brotli
import uvloop
import zstandard

from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import Url, parse_url
from manyhands.worker.net.fetcher import Answer, FetchError
from manyhands.worker.net.http1_fetcher import Http1Fetcher
from tests.fuzz.inputs import Pieces, damaged, in_pieces
from tests.fuzz.targets import Fault, InProcess, stopwatch
from tests.support.archives import gzipped

MAX_BYTES = 100_000
PAGE = b"<title>a page</title>" * 10


def _answer(head: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


MESSAGES = (
    _answer(b"200 OK\r\nContent-Type: text/html", PAGE),
    _answer(b"200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip", gzipped(PAGE)),
    _answer(b"200 OK\r\nContent-Type: text/html\r\nContent-Encoding: br", brotli.compress(PAGE)),
    _answer(
        b"200 OK\r\nContent-Type: text/html\r\nContent-Encoding: zstd",
        zstandard.ZstdCompressor().compress(PAGE),
    ),
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\n<p>ab\r\n3;name=value\r\ncde\r\n0\r\nTrailer: x\r\nExpires: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>until the end",
    b"HTTP/1.1 301 Moved\r\nLocation: http://example.com/\r\n folded\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nCache-Control: a\r\nCache-Control: b\r\n\r\n",
    b"HTTP/1.1 503 Slow\r\nRetry-After: 120\r\nX-Robots-Tag: none\r\nConnection: close\r\n\r\n",
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)
WORDS = (
    *(b"HTTP/1.1 200 OK\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"Content-Encoding: gzip\r\n", b"X: y\r\n"),
    *(
        b"1\r\na\r\n",
        b"2\r\nab\r\n",
        b"0\r\n",
        b"0\r\n\r\n",
        b";a=b",
        b"Trailer: a\r\n",
        b"ffffffff",
    ),
    *(b"a" * 100, b"Set-Cookie: a=b\r\n", b"Location: /\r\n", b"Connection: keep-alive\r\n"),
    *(b"Content-Encoding: gzip, gzip, br\r\n", b"HTTP/1.1 100 \r\n\r\n", b"HTTP/9.9 999 \r\n"),
)


class _OneAddress:
    async def addresses(self, host: str) -> Sequence[str]:
        return ("127.0.0.1",)

    async def close(self) -> None:
        """Nothing is open."""


class Answers(InProcess):
    """State: an event loop with a fetcher, and a server that says what it is told to."""

    inputs = in_pieces(damaged(MESSAGES, WORDS, max_bytes=400_000))

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._stop())
        self._runner.close()

    def run(self, pieces: Pieces) -> float:
        return self._runner.run(self._fetch(pieces))

    async def _start(self) -> None:
        self._said: Pieces = []
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self._url = parse_url(f"http://fuzz.test:{port}/")
        rule = AddressRule([ip_network("127.0.0.0/8")])
        self._fetcher = Http1Fetcher(FetchSettings(), rule, _OneAddress)

    async def _stop(self) -> None:
        await self._fetcher.close()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in self._said:
                writer.write(piece)
                await writer.drain()
                # The next one comes by another read.
                await asyncio.sleep(0)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async def _fetch(self, pieces: Pieces) -> float:
        self._said = pieces
        began = stopwatch()
        try:
            _check(await self._get(self._url))
        except FetchError as error:
            if not error.reason or len(error.reason) > 100:
                raise Fault(f"its reason is {error.reason!r}") from error
        return stopwatch() - began

    async def _get(self, url: Url) -> Answer:
        return await self._fetcher.get(
            url,
            user_agent="Manyhands/0.1 (fuzz)",
            max_bytes=MAX_BYTES,
            check=lambda: None,
            wants_body=lambda status, content_type: status == 200 and "html" in content_type,
        )


def _check(answer: Answer) -> None:
    if not 200 <= answer.status <= 999 or len(answer.body) > MAX_BYTES:
        raise Fault(f"status {answer.status}, {len(answer.body)} bytes")

"""A web site on a loopback address whose answers are given byte by byte."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from tests.support.stream_server import StreamServer

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Answer = bytes | Handler


def answer(
    status: int = 200, body: bytes = b"", content_type: str = "text/html", **headers: str
) -> bytes:
    """An HTTP answer after which the connection is closed; `Retry_After` is a header's name."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return answer(status, Location=location)


class LocalSite(StreamServer):
    """State: the answers by path (`*` for all others), and what has arrived: how many connections
    and the head of every request."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(port)
        self.host = host
        self.answers: dict[str, Answer] = {}
        self.connections = 0
        self.requests: list[str] = []
        self._tls: ssl.SSLContext | None = None

    def with_tls(self, context: ssl.SSLContext) -> Self:
        self._tls = context
        return self

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [request.split(" ")[1] for request in self.requests]

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._accept, self.host, self.port, ssl=self._tls, backlog=1000
        )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.requests.append(head)
        path = head.split(" ")[1]
        found = self.answers.get(path, self.answers.get("*", answer(404)))
        if isinstance(found, bytes):
            writer.write(found)
            await writer.drain()
        else:
            await found(reader, writer)

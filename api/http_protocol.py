"""One HTTP connection, as uvicorn's, and stricter where a stranger could hold it or fill it.

A request's head has to come in time and within a limit; what is no HTTP gets a problem document;
and an offer to upgrade is left alone, as RFC 9110 says, instead of costing the request its body.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from api.problems import Problem, bad_request, too_slow

MAX_HEAD_BYTES = 64 * 1024
# For a whole head: from the connection's start, or from the head's first byte.
HEAD_WITHIN_S = 10.0
# Headers that belong to an upgrade, besides those that Connection names.
UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")


class OneWrite:
    """A transport that writes once in a turn of the loop: an answer's head and its body, or the
    answers to requests that came together, in one system call. State: what is to be written."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpProtocol(HttpToolsProtocol):
    """State, besides uvicorn's: whether a head is incomplete, its bytes so far, and its timer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_head_open = False
        self._is_upgrade_offered = False
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWrite(transport, self.loop))  # type: ignore[arg-type]
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._head_bytes = self._head_bytes + len(data) if self._is_head_open else 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            self._refuse(bad_request(f"this is not HTTP/1.1: {error}"))
            return
        if not self._is_head_open:
            self._stop_head_timer()
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(Problem(431, f"the headers are larger than {MAX_HEAD_BYTES} bytes"))
        elif self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        self._is_head_open = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_head_open = False
        self._is_upgrade_offered = self.parser.should_upgrade()
        if not self._is_upgrade_offered:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._is_upgrade_offered:
            super().on_message_complete()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """The parser takes all that follows an offer for another protocol: start it anew, with the
        same request less the offer."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(Problem(501, "this is no proxy"))
            return
        version = self.parser.get_http_version().encode()
        kept = [(name, value) for name, value in self.headers if name not in UPGRADE_HEADERS]
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in kept]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_WITHIN_S, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_head_open:
            self._refuse(too_slow(f"the headers did not come within {HEAD_WITHIN_S:g} s"))
        else:
            self.transport.close()  # nobody asked for anything

    def _refuse(self, problem: Problem) -> None:
        """Answer what never became a request, and hang up."""
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        body = problem.body()
        headers = {**problem.headers, "content-length": str(len(body)), "connection": "close"}
        lines = [f"{name}: {value}\r\n".encode() for name, value in headers.items()]
        self.transport.write(b"".join([STATUS_LINE[problem.status], *lines, b"\r\n", body]))
        self.transport.close()

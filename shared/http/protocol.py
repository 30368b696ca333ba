"""One HTTP connection of any of our services, as uvicorn's, and stricter where a stranger could
hold it or fill it.

What is no body is counted: it has to come in time and within a limit, also between the pieces of a
body and after it, where a parser joins what it cannot hand out yet. What could be read in two ways
is refused. An offer to upgrade is left alone, as RFC 9110 says, instead of costing the request its
body. After an answer that did not wait for its request, reading soon ends. Limits: limits.py.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from manyhands.shared.http import limits
from manyhands.shared.http.problems import Refusal, is_no_http
from manyhands.shared.http.transport import OneWrite

# Headers that belong to an upgrade, besides those that Connection names.
UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")
VERSIONS = ("1.0", "1.1")


class Refused(Exception):
    """Ends the parser, inside of which it is raised."""


class HttpProtocol(HttpToolsProtocol):
    """State, besides uvicorn's: how far the request is that comes, what of it no body has paid for,
    what its headers say about the body, the timers, and what is still to be said when all requests
    before are answered."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Counted here for connections; uvicorn would let them all in and count requests.
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self._is_head_open = False
        self._is_request_open = False
        self._is_upgrade_offered = False
        self._is_deaf = False
        self._read_bytes = 0
        self._is_behind_another = False
        self._body_bytes = 0
        # Bytes that are no body, less those of body behind them.
        self._unpaid_bytes = 0
        self._has_host = False
        self._has_coding = False
        self._is_body_long = False
        self._keeps_alive = False
        self._refusal: Refusal | None = None
        self._last_words: Refusal | None = None
        self._lingered_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._end_timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        own = OneWrite(transport, self.loop)
        own.on_close = self._end
        super().connection_made(own)  # type: ignore[arg-type]
        if self._max_connections is not None and len(self.connections) > self._max_connections:
            own.write(Refusal(503, "too many connections are open already", 1).message())
            own.close()
            return
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_end_timer()
        self._transport.on_close = self._transport.raw.close
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._let_pass(len(data))
            return
        self._unset_keepalive_if_required()
        self._read_bytes = len(data)
        self._is_behind_another = False
        self._body_bytes = 0
        rest: bytes | None = data
        while rest is not None:
            rest = self._feed(rest)
        if self._is_deaf or not self._is_request_open:
            return
        # Of a read that began with another request nobody knows which part is this one's.
        read_bytes = 0 if self._is_behind_another else self._read_bytes
        self._unpaid_bytes = max(self._unpaid_bytes + read_bytes - 2 * self._body_bytes, 0)
        if self._unpaid_bytes > limits.HEAD_BYTES:
            self._refuse(self._too_much())
        elif self._is_head_open and self._head_timer is None:
            self._start_head_timer()

    def _feed(self, data: bytes) -> bytes | None:
        """What has to be fed instead of what the parser did not take."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._refusal or is_no_http(str(error)))
        return None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._end_timer is None:
            self._end_timer = self.loop.call_later(limits.TAKES_WITHIN_S, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_end_timer()

    def shutdown(self) -> None:
        self._keeps_alive = False
        super().shutdown()

    # The parser

    def on_message_begin(self) -> None:
        self._is_head_open = self._is_request_open = True
        self._has_host = self._has_coding = self._is_body_long = False
        self._unpaid_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_head_open:
            return  # a trailer: nobody asked for it, and it must not pass for a header
        name = name.lower()
        note = _NOTED.get(name)
        if note is not None:
            note(self, value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._is_head_open = False
        if self._head_timer is not None:
            self._stop_head_timer()
        self._check_head()
        self._is_upgrade_offered = self.parser.should_upgrade()
        if self._is_upgrade_offered:
            return
        if len(self.pipeline) >= limits.PIPELINED:
            said = f"more than {limits.PIPELINED} requests wait for their answers"
            self._stop(Refusal(429, f"{said} on this connection: nothing was done", 1))
        super().on_headers_complete()
        if self._is_body_long:
            # Until the whole of it is there: who is answered before is to hang up.
            self._keeps_alive, self.cycle.keep_alive = self.cycle.keep_alive, False

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self._is_upgrade_offered:
            return
        self._is_request_open = False
        self._is_behind_another = True
        if self._head_timer is not None:
            self._stop_head_timer()
        cycle = self.cycle
        if cycle.response_complete:
            return
        if self._is_body_long and not cycle.response_started:
            cycle.keep_alive = self._keeps_alive
        cycle.more_body = False
        cycle.message_event.set()

    def on_response_complete(self) -> None:
        is_last = not self.pipeline
        super().on_response_complete()
        if not is_last or self.transport.is_closing():
            return
        if self._last_words is not None:
            self._say(self._last_words)
        elif self._is_request_open and self._head_timer is None:
            self._start_head_timer()  # for the rest of a short body that nobody reads

    # What a head may say

    def _note_host(self, _: bytes) -> None:
        if self._has_host:
            self._stop(is_no_http("there are two Host headers"))
        self._has_host = True

    def _note_expect(self, value: bytes) -> None:
        if value.lower() == b"100-continue":
            # It may be sent or not when we do not ask for it.
            self.expect_100_continue = self._is_body_long = True

    def _note_coding(self, value: bytes) -> None:
        if self._has_coding or value.lower() != b"chunked":
            self._stop(Refusal(501, "no transfer coding is known here but chunked, once"))
        self._has_coding = self._is_body_long = True

    def _note_length(self, value: bytes) -> None:
        # The parser has seen that it is a number.
        self._is_body_long = self._is_body_long or int(value) > limits.IGNORED_BODY_BYTES

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        if version not in VERSIONS:
            self._stop(is_no_http(f"the request line says HTTP/{version}"))
        if self._has_coding and version == "1.0":
            self._stop(is_no_http("HTTP/1.0 has no transfer coding"))
        if len(self.headers) > limits.HEADERS:
            self._stop(Refusal(431, f"there are more than {limits.HEADERS} headers"))
        is_maybe_large = self._unpaid_bytes + self._read_bytes > limits.HEAD_BYTES
        if is_maybe_large and self._head_size() > limits.HEAD_BYTES:
            self._stop(self._too_much())

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _too_much(self) -> Refusal:
        what = "the headers are" if self._is_head_open or not self.cycle else "what is no body is"
        return Refusal(431, f"{what} larger than {limits.HEAD_BYTES} bytes")

    def _without_upgrade(self, rest: bytes) -> bytes | None:
        """The parser takes all that follows an offer for another protocol: start it anew, with the
        same request less the offer."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(Refusal(501, "this is no proxy"))
            return None
        version = self.parser.get_http_version().encode()
        kept = [(name, value) for name, value in self.headers if name not in UPGRADE_HEADERS]
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in kept]
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", b""]) + rest

    # Its end

    def _stop(self, refusal: Refusal) -> None:
        """From inside the parser."""
        self._refusal = refusal
        raise Refused

    def _refuse(self, refusal: Refusal) -> None:
        """Read no more, and say why when all requests before it have their answers."""
        self._is_deaf = True
        self._stop_head_timer()
        if self.transport.is_closing():
            return
        broken = self._broken_cycle()
        is_queued = bool(self.pipeline) and self.pipeline[0][0] is broken
        if is_queued:
            self.pipeline.popleft()
        if broken is not None:
            # Its application hears that the client is gone.
            broken.disconnected = True
            broken.message_event.set()
        if is_queued or self.pipeline or self._is_answering(broken):
            self._last_words = refusal
        elif broken is not None and broken.response_started:
            self.transport.close()  # in the middle of an answer there is nothing to say
        else:
            self._say(refusal)

    def _broken_cycle(self) -> RequestResponseCycle | None:
        """Of a request that will never be whole, if its head was good."""
        is_own = self.cycle is not None and self.cycle.scope is self.scope
        return self.cycle if is_own and self._is_request_open else None

    def _is_answering(self, broken: RequestResponseCycle | None) -> bool:
        cycle = self.cycle
        return cycle is not None and cycle is not broken and not cycle.response_complete

    def _say(self, refusal: Refusal) -> None:
        self._is_request_open = True  # there may be more of it
        self.transport.write(refusal.message())
        self.transport.close()

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_head_open:
            said = f"the headers did not come within {limits.HEAD_WITHIN_S:g} s"
            self._refuse(Refusal(408, said))
        else:
            self.transport.close()  # nobody asked for anything, or cares for the answer

    def _end(self) -> None:
        """What the transport does when anybody closes it: nothing more is read as a request, and
        who is sending can see the answer."""
        raw = self._transport.raw
        self._is_deaf = True
        self._stop_head_timer()
        self._stop_end_timer()
        if raw.is_closing():
            return
        within_s = limits.TAKES_WITHIN_S
        if self._is_request_open:
            within_s = limits.LINGER_S
            self.flow.resume_reading()
            raw.write_eof()
        else:
            raw.close()
        if self._is_request_open or raw.get_write_buffer_size():
            self._end_timer = self.loop.call_later(within_s, self._cut)

    def _let_pass(self, size: int) -> None:
        self._lingered_bytes += size
        if self._lingered_bytes > limits.LINGER_BYTES:
            self._cut()

    def _cut(self) -> None:
        self._end_timer = None
        self._transport.raw.abort()

    @property
    def _transport(self) -> OneWrite:
        assert isinstance(self.transport, OneWrite)
        return self.transport

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(limits.HEAD_WITHIN_S, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_end_timer(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None


# What a header says before anybody else reads it.
_NOTED = {
    b"host": HttpProtocol._note_host,
    b"expect": HttpProtocol._note_expect,
    b"transfer-encoding": HttpProtocol._note_coding,
    b"content-length": HttpProtocol._note_length,
}

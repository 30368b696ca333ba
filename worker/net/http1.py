"""One HTTP/1 answer as its bytes come in: what is kept of it, and where it is stopped. Pure.

The connection feeds it; `done` is called once, at its end.
"""

from collections.abc import Callable
from contextlib import suppress

import httptools

from manyhands.worker.net.encodings import BoundedBody, SkippedBody
from manyhands.worker.net.fetcher import FetchError
from manyhands.worker.net.reasons import (
    bad_answer,
    connection_closed,
    headers_too_large,
    too_little_body,
)

# Of an answer's head. Larger ones are not honest.
MAX_HEADERS = 200
# Bytes that are not body, wherever they stand: status lines, headers, chunk sizes and extensions,
# trailers. Each byte of body earns one, up to this total: small chunks may go on as long as they
# bring something, nothing else may.
MAX_HEAD_BYTES = 64 * 1024
# Where there may be headers, the parser gets no more than that at once, but at least this much: at
# each piece of a value it copies all it has of it, and a folded value comes in three pieces a line.
LEAST_FED_BYTES = 4096
# A body that nobody wants (of a 404, a redirect, an image) is read to its end and dropped if it is
# no longer than this: a new connection, mostly with a TLS handshake, costs more than that.
MAX_SKIPPED_BYTES = 64 * 1024
# Of a header that is passed on.
MAX_VALUE_LENGTH = 200
_LENGTH, _TRANSFER = b"content-length", b"transfer-encoding"
_TYPE, _ENCODING = b"content-type", b"content-encoding"
_SINGLE = frozenset(
    {
        *(_TYPE, _ENCODING, b"location", b"refresh", b"retry-after", _LENGTH, _TRANSFER),
        *(b"content-language", b"last-modified", b"etag"),
    }
)
_LISTS = frozenset({b"x-robots-tag", b"cache-control"})
_SWITCHING = 101


class Exchange:
    """State: the head and the body so far; `failure` if it ended without an answer.

    `is_reusable` says after the end whether the connection can carry another request.
    `keeps_unwanted`: of a body that nobody wants, what is read is kept, for archives.
    """

    __slots__ = (
        "_allowance",
        "_done",
        "_has_all",
        "_header_count",
        "_headers",
        "_is_skipping",
        "_keeps_unwanted",
        "_lines",
        "_max_bytes",
        "_parser",
        "_pieces",
        "_reason",
        "_version",
        "_wants_body",
        "body",
        "content_type",
        "failure",
        "has_begun",
        "has_head",
        "is_done",
        "is_reusable",
        "on_body",
        "status",
    )

    def __init__(
        self,
        wants_body: Callable[[int, str], bool],
        max_bytes: int,
        done: Callable[[], None],
        *,
        keeps_unwanted: bool = False,
    ) -> None:
        self._wants_body = wants_body
        self._keeps_unwanted = keeps_unwanted
        self._max_bytes = max_bytes
        self._done = done
        # Pieces of the body that the parser found in one feed, joined after it, because a server
        # may send single bytes. Appended without a function of ours, which would run for every
        # chunk.
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        # Dropped at the end: it refers to us, and a cycle would keep every page until the garbage
        # collector runs, which costs more than all the rest.
        self._parser: httptools.HttpResponseParser | None = _parser(self)
        self._headers: dict[bytes, bytes] = {}
        self._lines: list[bytes] = []
        self._reason = b""
        self._version = ""
        self._allowance = MAX_HEAD_BYTES
        self._header_count = 0
        self._has_all = False
        # The head is all that is wanted, and the body goes on.
        self._is_skipping = False
        self.status = 0
        self.content_type = ""
        # Whether anything came at all.
        self.has_begun = False
        self.has_head = False
        self.body: BoundedBody | SkippedBody = BoundedBody("", max_bytes)
        self.failure: FetchError | None = None
        self.is_done = False
        self.is_reusable = False

    @property
    def head(self) -> bytes:
        """Status line and headers as they came, but for white space, and the empty line."""
        status_line = b"HTTP/%s %d %s\r\n" % (self._version.encode(), self.status, self._reason)
        return status_line + b"".join(self._lines) + b"\r\n"

    @property
    def is_unwanted(self) -> bool:
        """Nobody wants the body."""
        return self._is_skipping

    @property
    def is_left_out(self) -> bool:
        """There was more of that body than is here."""
        if not self._is_skipping or self._headers.get(_LENGTH) == b"0":
            return False
        is_dropped = self.body.taken > 0 and not self.body.size
        return not self._has_all or is_dropped

    def header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("utf-8", "surrogateescape")

    def text(self, name: bytes) -> str:
        """A header to be passed on; empty where there is none."""
        value = self.header(name)
        return "" if value is None else _plain(value)

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        while len(data) > self._allowance and self._may_have_headers():
            size = max(LEAST_FED_BYTES, self._allowance)
            self._feed(data[:size])
            data = data[size:]
        if data:
            self._feed(data)

    def _may_have_headers(self) -> bool:
        """In what comes next: it is the head, or the body is in chunks."""
        return not self.is_done and (not self.has_head or _TRANSFER in self._headers)

    def _feed(self, data: bytes) -> None:
        if self._parser is None:
            # Behind the end.
            self.is_reusable = False
            return
        failure: FetchError | None = None
        had_head = self.has_head
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            failure = bad_answer("another protocol")
        except httptools.HttpParserError:
            # Our own stop raises this, too; then all is decided.
            self.is_reusable = False
            failure = bad_answer("malformed body" if self.has_head else "not HTTP")
        body_bytes = self._take_body() if self._pieces else 0
        self._allowance += 2 * body_bytes - len(data)
        if self._allowance < 0:
            self.is_reusable = False
            self.fail(too_little_body() if had_head else headers_too_large())
        elif self._has_all:
            self._finish()
        elif failure is not None:
            self.fail(failure)
        elif self._allowance > MAX_HEAD_BYTES:
            self._allowance = MAX_HEAD_BYTES

    def _take_body(self) -> int:
        """What the parser has found of the body; how much that is."""
        pieces = self._pieces
        found = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.is_done:
            return len(found)
        try:
            is_more_wanted = self.body.feed(found)
        except FetchError as failure:
            self.is_reusable = False
            self.fail(failure)
        else:
            if not is_more_wanted:
                self.is_reusable = False
                self._finish()
        return len(found)

    def ended(self) -> None:
        """The server closed the connection in good order."""
        if self.is_done:
            return
        if not self.has_head:
            self.fail(bad_answer("not HTTP") if self.has_begun else connection_closed())
        elif _LENGTH in self._headers or _TRANSFER in self._headers:
            self.fail(bad_answer("body cut short"))
        else:
            self._has_all = True
            self._finish()

    def fail(self, failure: FetchError) -> None:
        """What goes wrong in a body that nobody wants costs the connection, not the answer."""
        if self.is_done:
            return
        if self._is_skipping:
            self.is_reusable = False
        else:
            self.failure = failure
            # Nobody will read it, and the failure may be kept for long.
            self.body = BoundedBody("", 0)
        self._finish()

    # Called by the parser; what is raised here makes it stop.

    def on_message_begin(self) -> None:
        if self._has_all:
            raise _Stop
        self._headers.clear()
        self._lines.clear()
        self._reason = b""
        self._header_count = 0

    def on_status(self, reason: bytes) -> None:
        """It may come in parts."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            return  # a trailer: nobody asked for one
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self.fail(headers_too_large())
            raise _Stop
        self._lines.append(b"%s: %s\r\n" % (name, value))
        name = name.lower()
        if name in _SINGLE:
            self._headers.setdefault(name, value)
        elif name in _LISTS:
            before = self._headers.get(name)
            self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:
            if status == _SWITCHING:
                self.fail(bad_answer("another protocol"))
                raise _Stop
            return
        self.status = status
        self._version = self._parser.get_http_version()
        self.has_head = True
        try:
            self._open_body()
        except FetchError as failure:
            self.fail(failure)
            raise _Stop from None

    def on_message_complete(self) -> None:
        if self.has_head and self._parser is not None:
            self.is_reusable = self._parser.should_keep_alive()
            self._has_all = True

    def _open_body(self) -> None:
        self.content_type = self.text(_TYPE)
        if not self._wants_body(self.status, self.content_type):
            self._is_skipping = True
            self.body = self._unwanted_body()
            if not self._is_worth_skipping():
                self._finish()
                raise _Stop
            return
        encoding = self.header(_ENCODING)
        if encoding:
            self.body = BoundedBody(encoding, self._max_bytes)

    def _unwanted_body(self) -> BoundedBody | SkippedBody:
        if self._keeps_unwanted:
            # In an encoding that we do not know, nothing of it can be kept.
            with suppress(FetchError):
                return BoundedBody(self.header(_ENCODING) or "", MAX_SKIPPED_BYTES)
        return SkippedBody(MAX_SKIPPED_BYTES)

    def _is_worth_skipping(self) -> bool:
        """Whether the connection, or the body, is of use once that is over."""
        assert self._parser is not None
        length = int(self._headers.get(_LENGTH, b"0"))
        is_of_use = self._keeps_unwanted or self._parser.should_keep_alive()
        return length <= MAX_SKIPPED_BYTES and is_of_use

    def _finish(self) -> None:
        if not self.is_done:
            self.is_done = True
            self._parser = None
            self._done()


class _Stop(Exception):
    """No more of this answer is wanted."""


def _parser(callbacks: Exchange) -> httptools.HttpResponseParser:
    parser = httptools.HttpResponseParser(callbacks)
    # What browsers tolerate, too.
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_optional_lf_after_cr=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def _plain(header: str) -> str:
    """Header bytes that are not text would break the job that carries them."""
    if header.isascii() and len(header) <= MAX_VALUE_LENGTH:
        return header
    return header[:MAX_VALUE_LENGTH].encode("ascii", "replace").decode()

"""Request bodies: read within limits of size and time, unpacked, and split into lines."""

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import zstandard

from manyhands.api.problems import Problem, bad_request, too_large, too_slow

Receive = Callable[[], Awaitable[Any]]

# A client that sends nothing for this long is gone or hostile.
SILENCE_S = 30.0
# So is one whose stream we have waited for longer than this, if it sent less than this per second
# of waiting. Clients with few jobs can send single ones.
PATIENCE_S = 10.0
SLOWEST_BYTES_PER_S = 256
# Most bytes unpacked at a time: a few bytes of a bomb would become gigabytes.
UNPACKED_BYTES = 1024 * 1024
# A zstd block of 128 KiB can be four bytes long, and there is no way to ask for less at a time.
ZSTD_PACKED_BYTES = 256
# As RFC 9659 has it for HTTP.
ZSTD_WINDOW_BYTES = 8 * 1024 * 1024


class ClientGone(Exception):
    """The client closed the connection before its request was whole."""


# A body that comes in one piece holds no room.
NO_ROOM = contextlib.nullcontext


async def read_body(
    receive: Receive, limit: int, room: Callable[[], AbstractContextManager[None]] = NO_ROOM
) -> bytes:
    """A whole body of at most `limit` bytes; `room` is held while waiting for more than its first
    piece. Raises Problem or ClientGone."""
    try:
        async with asyncio.timeout(SILENCE_S):
            body, has_more = await _receive(receive)
            if has_more:
                with room():
                    body = await _read_rest(receive, body, limit)
    except TimeoutError:
        raise too_slow(f"the body did not come within {SILENCE_S:g} s") from None
    if len(body) > limit:
        raise too_large("the body", limit)
    return body


async def _read_rest(receive: Receive, start: bytes, limit: int) -> bytes:
    parts, size, has_more = [start], len(start), True
    while has_more and size <= limit:
        part, has_more = await _receive(receive)
        parts.append(part)
        size += len(part)
    return b"".join(parts)


class Pace:
    """How fast a body comes, counting only the time spent waiting for it. Pure."""

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._size = 0

    def add(self, waited_s: float, size: int) -> None:
        self._waited_s += waited_s
        self._size += size

    @property
    def is_too_slow(self) -> bool:
        needed = self._waited_s * SLOWEST_BYTES_PER_S
        return self._waited_s > PATIENCE_S and self._size < needed


class Chunks:
    """A body of any length, piece by piece. Resolving `stop` with a Problem ends the reading from
    outside."""

    def __init__(self, receive: Receive, stop: asyncio.Future[Problem]) -> None:
        self._receive = receive
        self._stop = stop
        self._has_more = True
        self._pace = Pace()
        self._clock = asyncio.get_running_loop().time

    async def next(self) -> bytes | None:
        """None at the end. Raises Problem or ClientGone."""
        if not self._has_more:
            return None
        if self._stop.done():
            raise self._stop.result()
        if self._pace.is_too_slow:
            raise too_slow(
                f"the body comes at less than {SLOWEST_BYTES_PER_S} bytes/s: "
                "end it sooner, or send single jobs"
            )
        began = self._clock()
        receiving = asyncio.ensure_future(_receive(self._receive))
        try:
            await asyncio.wait(
                (receiving, self._stop), timeout=SILENCE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if receiving.done():
                chunk, self._has_more = receiving.result()
                self._pace.add(self._clock() - began, len(chunk))
                return chunk
        finally:
            receiving.cancel()
        if self._stop.done():
            raise self._stop.result()
        raise too_slow(f"nothing came for {SILENCE_S:g} s")


async def _receive(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


class Unpacker(Protocol):
    def unpack(self, chunk: bytes) -> Iterator[bytes]: ...

    def end(self) -> None:
        """Raises Problem when the data stops in the middle."""


class Plain:
    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def end(self) -> None:
        return


class Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._is_empty = True

    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        while chunk:
            if self._inflate.eof:
                # Files may be joined: `cat a.gz b.gz`.
                self._inflate = zlib.decompressobj(wbits=31)
            try:
                yield self._inflate.decompress(chunk, UNPACKED_BYTES)
            except zlib.error as error:
                raise bad_request(f"the body is not gzip: {error}") from None
            self._is_empty = False
            chunk = self._inflate.unconsumed_tail or self._inflate.unused_data

    def end(self) -> None:
        if not self._is_empty and not self._inflate.eof:
            raise bad_request("the gzip body is cut off")


class Zstd:
    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._frame = self._decompressor.decompressobj()
        self._is_empty = True

    def unpack(self, chunk: bytes) -> Iterator[bytes]:
        for start in range(0, len(chunk), ZSTD_PACKED_BYTES):
            piece = chunk[start : start + ZSTD_PACKED_BYTES]
            while piece:
                if self._frame.eof:
                    self._frame = self._decompressor.decompressobj()
                try:
                    yield self._frame.decompress(piece)
                except zstandard.ZstdError as error:
                    raise bad_request(f"the body is not zstd: {error}") from None
                self._is_empty = False
                piece = self._frame.unused_data

    def end(self) -> None:
        if not self._is_empty and not self._frame.eof:
            raise bad_request("the zstd body is cut off")


def unpacker(encoding: str) -> Unpacker:
    """Raises Problem for an unknown encoding."""
    if encoding in ("", "identity"):
        return Plain()
    if encoding == "gzip":
        return Gzip()
    if encoding == "zstd":
        return Zstd()
    raise Problem(415, f"content encoding {encoding[:50]!r} is not known: use gzip or zstd")


def unpack_whole(body: bytes, encoding: str, limit: int) -> bytes:
    """Raises Problem, also when it grows beyond the limit."""
    stage = unpacker(encoding)
    parts: list[bytes] = []
    size = 0
    for part in stage.unpack(body):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise too_large("the unpacked body", limit)
    stage.end()
    return b"".join(parts)


class Lines:
    """State: the start of a line whose end has not come yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._start: list[bytes] = []
        self._start_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are whole now. Raises Problem at one that is too long."""
        first, *others = data.split(b"\n")
        self._hold(first)
        if not others:
            return
        yield self._take()
        rest = others.pop()
        for line in others:
            if len(line) > self._limit:
                raise too_large("a line", self._limit)
            yield line
        self._hold(rest)

    def last(self) -> Iterator[bytes]:
        """What follows the last line's end, if anything."""
        if self._start_bytes:
            yield self._take()

    def _hold(self, part: bytes) -> None:
        self._start_bytes += len(part)
        if self._start_bytes > self._limit:
            raise too_large("a line", self._limit)
        if part:
            self._start.append(part)

    def _take(self) -> bytes:
        line = b"".join(self._start)
        self._start.clear()
        self._start_bytes = 0
        return line

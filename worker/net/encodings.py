"""The body of an answer, decompressed as it arrives and never beyond a limit. Pure.

Every decompressor is asked for no more bytes than are wanted, so a few kilobytes that would unpack
to gigabytes cost nothing.
"""

import zlib
from typing import IO, Protocol, cast

import brotli
import zstandard

from manyhands.worker.net.fetcher import PermanentFetchError

ACCEPTED = "gzip, deflate, br, zstd"
_ZLIB_METHOD = 8
_EITHER_HEADER = 32 + zlib.MAX_WBITS
_NO_HEADER = -zlib.MAX_WBITS
# RFC 9659: no server may require a larger window.
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
# How much zstd hands over at a time.
_ZSTD_PIECE_BYTES = 32 * 1024
# Members of one body: honest ones have at least a kilobyte each, and each costs as much as a page.
MAX_GZIP_MEMBERS = 1000
# A smaller piece is joined to those before it: a separate object would cost more than it holds.
_SMALL_BYTES = 1024


class _Decoder(Protocol):
    def decode(self, chunk: bytes, wanted: int) -> list[bytes]:
        """About `wanted` bytes of the unpacked data, or all of it. Raises _Damaged."""


class _Damaged(Exception):
    """Not what the header says; `decoded` is what came out before."""

    def __init__(self, error: Exception, decoded: list[bytes]) -> None:
        super().__init__(str(error))
        self.decoded = decoded


class BoundedBody:
    """State: what was decoded so far, and how much was taken for it."""

    def __init__(self, content_encoding: str, max_bytes: int) -> None:
        self._decoder = _decoder_of(content_encoding) if content_encoding else None
        self._max_bytes = max_bytes
        self._pieces: list[bytes | bytearray] = []
        self._size = 0
        self.taken = 0
        self.is_truncated = False
        # Whether that is because the rest cannot be decompressed.
        self.is_damaged = False

    @property
    def data(self) -> bytes:
        return b"".join(self._pieces)

    def feed(self, chunk: bytes) -> bool:
        """Take more of the body; False when no more is wanted."""
        self.taken += len(chunk)
        if self._decoder is None:
            self._add(chunk)
        else:
            try:
                decoded = self._decoder.decode(chunk, self._max_bytes + 1 - self._size)
                self._add(b"".join(decoded))
            except _Damaged as damaged:
                self._add(b"".join(damaged.decoded))
                if not self._size:
                    raise PermanentFetchError(
                        f"the body cannot be decompressed: {damaged}",
                        reason="bad answer: cannot be decompressed",
                    ) from None
                # Padding or damage behind what was read: keep that, as browsers do.
                self.is_damaged = True
        # Input is bounded too: compressed data may go on for ever and unpack to nothing.
        if self.is_damaged or self._size > self._max_bytes or self.taken > self._max_bytes:
            self._cut()
            return False
        return True

    @property
    def size(self) -> int:
        """Of what was decoded so far."""
        return self._size

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        pieces = self._pieces
        if len(piece) >= _SMALL_BYTES or not pieces:
            pieces.append(piece)
        elif isinstance(last := pieces[-1], bytearray):
            last += piece
        else:
            pieces.append(bytearray(piece))

    def _cut(self) -> None:
        self.is_truncated = True
        if self._size > self._max_bytes:
            self._pieces = [self.data[: self._max_bytes]]
            self._size = self._max_bytes


class SkippedBody:
    """A body that nobody wants. State: how much of it went by."""

    data = b""
    size = 0
    is_truncated = False
    is_damaged = False

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.taken = 0

    def feed(self, chunk: bytes) -> bool:
        """False when there is more than it is worth."""
        self.taken += len(chunk)
        return self.taken <= self._max_bytes


def _decoder_of(content_encoding: str) -> _Decoder | None:
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Inflater()
    if encoding == "br":
        return _Brotli()
    if encoding == "zstd":
        return _Zstd()
    raise PermanentFetchError(
        f"an encoding that was not asked for: {encoding[:80]!r}",
        reason="bad answer: encoding not asked for",
    )


class _Inflater:
    """gzip, which may have several members, and deflate. State: the present one, and how many
    there were."""

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._members = 0

    def decode(self, chunk: bytes, wanted: int) -> list[bytes]:
        decoded: list[bytes] = []
        try:
            while chunk and wanted > 0:
                inflater = self._inflater
                if inflater is None or inflater.eof:
                    self._members += 1
                    if self._members > MAX_GZIP_MEMBERS:
                        raise _Damaged(ValueError("too many members"), decoded)
                    self._inflater = inflater = zlib.decompressobj(_window_bits(chunk))
                decoded.append(inflater.decompress(chunk, wanted))
                wanted -= len(decoded[-1])
                chunk = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        except zlib.error as error:
            raise _Damaged(error, decoded) from None
        return decoded


def _window_bits(chunk: bytes) -> int:
    """Some servers send deflate without the header that it should have."""
    is_gzip = chunk[0] == 0x1F
    return _EITHER_HEADER if is_gzip or chunk[0] & 0x0F == _ZLIB_METHOD else _NO_HEADER


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def decode(self, chunk: bytes, wanted: int) -> list[bytes]:
        decoded: list[bytes] = []
        try:
            while wanted > 0:
                decoded.append(self._decompressor.process(chunk, output_buffer_limit=wanted))
                wanted -= len(decoded[-1])
                if self._decompressor.can_accept_more_data():
                    break
                chunk = b""
        except brotli.error as error:
            raise _Damaged(error, decoded) from None
        return decoded


class _Zstd:
    """The library stops at a limit only if what it writes to raises."""

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        # Not this object itself: the garbage collector does not see into the library's, so a circle
        # through it would keep every page, and its window, for ever.
        self._output = _Output()
        # Of the file that it asks for it calls `write` only.
        target = cast("IO[bytes]", self._output)
        self._writer = decompressor.stream_writer(target, write_size=_ZSTD_PIECE_BYTES)

    def decode(self, chunk: bytes, wanted: int) -> list[bytes]:
        self._output.begin(wanted)
        try:
            self._writer.write(chunk)
        except _Enough:
            pass
        except zstandard.ZstdError as error:
            raise _Damaged(error, self._output.pieces) from None
        return self._output.pieces


class _Output:
    """State: what was decompressed, and how much more of it is wanted."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._wanted = 0

    def begin(self, wanted: int) -> None:
        self.pieces, self._wanted = [], wanted

    def write(self, data: bytes) -> int:
        self.pieces.append(bytes(data))
        self._wanted -= len(data)
        if self._wanted <= 0:
            raise _Enough
        return len(data)


class _Enough(Exception):
    """As much is decompressed as was wanted."""

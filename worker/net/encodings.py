"""The body of an answer, decompressed as it arrives and never beyond a limit. Pure.

The decompressor is asked for no more bytes than are wanted, so a few kilobytes that stand for
gigabytes cost nothing.
"""

import zlib

from worker.net.fetcher import PermanentFetchError

ACCEPTED = "gzip, deflate"
_ZLIB_METHOD = 8
_EITHER_HEADER = 32 + zlib.MAX_WBITS
_NO_HEADER = -zlib.MAX_WBITS


class BoundedBody:
    """State: what was decoded so far, and how much was taken for it."""

    def __init__(self, content_encoding: str, max_bytes: int) -> None:
        encoding = content_encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise PermanentFetchError(f"an encoding that was not asked for: {encoding[:80]!r}")
        self._is_compressed = encoding not in ("", "identity")
        self._max_bytes = max_bytes
        self._taken = 0
        self._inflater: zlib._Decompress | None = None
        self.data = bytearray()
        self.is_truncated = False

    def feed(self, chunk: bytes) -> bool:
        """Take more of the body; False when no more is wanted."""
        self._taken += len(chunk)
        if self._is_compressed:
            self._inflate(chunk)
        else:
            self.data += chunk
        # Input is bounded too: compressed data may go on for ever and stand for nothing.
        if len(self.data) > self._max_bytes or self._taken > self._max_bytes:
            self.is_truncated = True
            del self.data[self._max_bytes :]
            return False
        return True

    def _inflate(self, chunk: bytes) -> None:
        try:
            while chunk and len(self.data) <= self._max_bytes:
                inflater = self._inflater
                if inflater is None or inflater.eof:
                    # A gzip body may have several members.
                    self._inflater = inflater = zlib.decompressobj(_window_bits(chunk))
                self.data += inflater.decompress(chunk, self._max_bytes + 1 - len(self.data))
                chunk = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        except zlib.error as error:
            if not self.data:
                raise PermanentFetchError(f"the body cannot be decompressed: {error}") from None
            # Padding or damage behind what was read: keep that, as browsers do.
            self._taken = self._max_bytes + 1


def _window_bits(chunk: bytes) -> int:
    """Some servers send deflate without the header that it should have."""
    is_gzip = chunk[0] == 0x1F
    return _EITHER_HEADER if is_gzip or chunk[0] & 0x0F == _ZLIB_METHOD else _NO_HEADER

"""The seam between an archive's place and its decoder: bytes from an offset on.

A stream is read in a separate thread. Errors of its place are FetchErrors of worker.net.fetcher,
permanent or temporary, whatever the place is.
"""

from typing import Protocol


class ByteStream(Protocol):
    """All but `abort` is called in the thread that reads."""

    def read(self) -> bytes | memoryview:
        """The next bytes, as many as are at hand; empty at the end. Raises a FetchError."""

    def seek(self, offset: int) -> None:
        """What is read next begins there."""

    def close(self) -> None:
        """Nothing is read any more."""

    def abort(self) -> None:
        """Called in any thread: a read that waits, and every later one, raises Aborted."""


class Aborted(Exception):
    """The job was cancelled: nobody needs the bytes any more."""


class BytesStream:
    """A `ByteStream` of what is in memory already. State: where it is."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    def read(self) -> memoryview:
        rest = self._data[self._at :]
        self._at = len(self._data)
        return rest

    def seek(self, offset: int) -> None:
        self._at = offset

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Nothing waits."""


class Window:
    """What was read of a stream and is not used yet. State: a piece of the file, where its next
    byte is, and the offset of its end."""

    __slots__ = ("_at", "_data", "_end", "_stream")

    def __init__(self, stream: ByteStream, offset: int) -> None:
        self._stream = stream
        self._data = memoryview(b"")
        self._at = 0
        self._end = offset
        stream.seek(offset)

    @property
    def position(self) -> int:
        """The offset of the next byte in the file."""
        return self._end - len(self._data) + self._at

    def take(self, most: int) -> memoryview:
        """The next bytes; empty at the end of the file."""
        if self._at == len(self._data):
            self._data = memoryview(self._stream.read())
            self._end += len(self._data)
            self._at = 0
        piece = self._data[self._at : self._at + most]
        self._at += len(piece)
        return piece

    def give_back(self, count: int) -> None:
        """The last bytes of what was taken last."""
        self._at -= count

    def peek(self, wanted: int) -> memoryview:
        """At least `wanted` of the next bytes, unless the file ends; they are not consumed."""
        missing = wanted - (len(self._data) - self._at)
        if missing > 0:
            pieces = [self._data[self._at :]]
            while missing > 0 and (piece := memoryview(self._stream.read())):
                pieces.append(piece)
                missing -= len(piece)
                self._end += len(piece)
            self._data = memoryview(b"".join(pieces))
            self._at = 0
        return self._data[self._at :]

    def skip(self, count: int) -> None:
        """Of bytes that were seen."""
        self._at += count

    def seek(self, offset: int) -> None:
        beginning = self._end - len(self._data)
        if beginning <= offset <= self._end:
            self._at = offset - beginning
            return
        self._stream.seek(offset)
        self._data = memoryview(b"")
        self._at = 0
        self._end = offset

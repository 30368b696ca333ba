"""The members of an archive: gzip members, zstd frames, or records that are not packed. Pure.

Each is read by itself, so that a damaged one costs no other: its end is known only if its checksum
was right, and what follows a damaged one is found by how members begin. FastWARC could unpack, too,
but holds Python's lock meanwhile, and reports less about what was wrong and where.
"""

import re
from typing import IO, Protocol, cast

import zstandard
from isal import igzip_lib

from manyhands.shared.errors import ManyhandsError
from manyhands.worker.warc.streams import BytesStream, Window

RECORD_BEGINS = b"WARC/"
# Fed to a decompressor at a time: what is left over of it at the end of a member is copied.
FEED_BYTES = 16 * 1024
# Of a member: enough to see whether a record begins there. A block of zstd may be as long.
LOOK_BYTES = 160 * 1024
# Of a file that does not begin like an archive: how far it is searched for something that does.
DAMAGED_START_BYTES = 1024 * 1024
SEARCH_BYTES = 256 * 1024
# Testing whether a member begins somewhere takes as long as unpacking kilobytes. Chance makes one
# false start in megabytes: after this many, a search skips this many bytes more each time.
FALSE_STARTS = 64
FALSE_START_BYTES = 256
# Of a record that is not packed: looked through for the end of its header, and at the most.
FIRST_HEADER_BYTES = 4 * 1024
MAX_HEADER_BYTES = 64 * 1024
# What a zstd frame may ask for: as much as its highest level does.
ZSTD_WINDOW_BYTES = 128 * 1024 * 1024
MAX_DICTIONARY_BYTES = 16 * 1024 * 1024
CUT_OFF = "the file ends in the middle of it"

_RECORD_HEADER = re.compile(
    rb"WARC/\d\.\d{1,2}\r?\n(?:[!-9;-~]+[ \t]*:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)*?WARC-Type:",
    re.I,
)
_CONTENT_LENGTH = re.compile(rb"^Content-Length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r$", re.I | re.M)
_BETWEEN_RECORDS = b"\r\n"
_RECORD_ENDS = b"\r\n\r\n"
# Its stub calls the class an exception.
_GZIP_ERROR = cast("type[Exception]", igzip_lib.IsalError)
_ZSTD_HEADER_BYTES = 18
_ZSTD_BLOCK_HEADER_BYTES = 3


class NotAnArchive(ManyhandsError):
    """Nothing in the file looks like a WARC record."""


class Damaged(Exception):
    """The member that is being read is not whole."""


class Frame(Protocol):
    """One member, unpacked while it is read, as a file for FastWARC."""

    def read(self, size: int, /) -> bytes:
        """Raises Damaged."""

    def tell(self) -> int: ...

    def finish(self) -> None:
        """Read to its end, which must be intact. Raises Damaged."""


class Packing(Protocol):
    """How the members of a file are packed."""

    magic: bytes

    def skip(self, window: Window) -> None:
        """Go past what may stand between members."""

    def frame(self, window: Window) -> Frame:
        """The member that begins where the window is. Raises Damaged."""

    def begins(self, beginning: memoryview) -> bool:
        """Whether these bytes are the beginning of a member that holds a record."""


class Gzip:
    magic = b"\x1f\x8b\x08"

    def skip(self, window: Window) -> None:
        """Nothing may."""

    def frame(self, window: Window) -> Frame:
        return _GzipFrame(window)

    def begins(self, beginning: memoryview) -> bool:
        return _unpacks_to_record(self, beginning)


class _GzipFrame:
    """A `Frame`. State: the decompressor."""

    __slots__ = ("_decompressor", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._decompressor = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)

    def read(self, size: int, /) -> bytes:
        decompressor = self._decompressor
        while not decompressor.eof:
            piece: memoryview | bytes = b""
            if decompressor.needs_input and not (piece := self._window.take(FEED_BYTES)):
                raise Damaged(CUT_OFF)
            try:
                out = decompressor.decompress(piece, size)
            except _GZIP_ERROR as error:
                raise Damaged(f"it cannot be unpacked: {error}") from None
            if decompressor.eof:
                self._window.give_back(len(decompressor.unused_data))
            if out:
                return out
        return b""

    def tell(self) -> int:
        return 0

    def finish(self) -> None:
        while self.read(SEARCH_BYTES):
            pass


class Zstd:
    """Frames may share a dictionary, which then is the first frame of the file."""

    magic = b"\x28\xb5\x2f\xfd"
    # Frames that are no data: a dictionary, or an index.
    no_data = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")

    def __init__(self, dictionary: bytes = b"") -> None:
        self._decompressor = zstandard.ZstdDecompressor(
            dict_data=zstandard.ZstdCompressionDict(dictionary) if dictionary else None,
            max_window_size=ZSTD_WINDOW_BYTES,
        )

    def skip(self, window: Window) -> None:
        while self.no_data.match(header := window.peek(8)) and len(header) >= 8:
            length = 8 + int.from_bytes(header[4:8], "little")
            window.seek(window.position + length)

    def frame(self, window: Window) -> Frame:
        return _ZstdFrame(window, self._decompressor)

    def begins(self, beginning: memoryview) -> bool:
        return _unpacks_to_record(self, beginning)


class _ZstdFrame:
    """A `Frame`. State: the bytes of the frame, and what they become."""

    __slots__ = ("_packed", "_reader")

    def __init__(self, window: Window, decompressor: zstandard.ZstdDecompressor) -> None:
        self._packed = _ZstdBytes(window)
        # Of the file that it asks for it calls `read` only.
        self._reader = decompressor.stream_reader(
            cast("IO[bytes]", self._packed), read_size=FEED_BYTES, closefd=False
        )

    def read(self, size: int, /) -> bytes:
        try:
            return self._reader.read(size)
        except zstandard.ZstdError as error:
            raise Damaged(f"it cannot be unpacked: {error}") from None

    def tell(self) -> int:
        return 0

    def finish(self) -> None:
        while self.read(SEARCH_BYTES):
            pass
        if self._packed.read(1):
            raise Damaged("it cannot be unpacked: it has more blocks than it says")


class _ZstdBytes:
    """The bytes of one frame, as a file: where it ends is known from block to block. State: how
    much of the header or of a block is left, and what comes then."""

    __slots__ = ("_checksum_bytes", "_is_last", "_left", "_window")

    def __init__(self, window: Window) -> None:
        beginning = bytes(window.peek(_ZSTD_HEADER_BYTES)[:_ZSTD_HEADER_BYTES])
        try:
            self._left = zstandard.frame_header_size(beginning)
            has_checksum = zstandard.get_frame_parameters(beginning).has_checksum
        except zstandard.ZstdError as error:
            raise Damaged(f"it cannot be unpacked: {error}") from None
        self._checksum_bytes = 4 if has_checksum else 0
        self._is_last = False
        self._window = window

    def read(self, size: int) -> bytes:
        if not self._left and not self._next_block():
            return b""
        piece = _taken(self._window, min(size, self._left))
        self._left -= len(piece)
        return piece

    def _next_block(self) -> bool:
        if self._is_last:
            self._left, self._checksum_bytes = self._checksum_bytes, 0
            return self._left > 0
        header = self._window.peek(_ZSTD_BLOCK_HEADER_BYTES)[:_ZSTD_BLOCK_HEADER_BYTES]
        if len(header) < _ZSTD_BLOCK_HEADER_BYTES:
            raise Damaged(CUT_OFF)
        word = int.from_bytes(header, "little")
        self._is_last = bool(word & 1)
        is_one_byte_repeated = word >> 1 & 3 == 1
        self._left = _ZSTD_BLOCK_HEADER_BYTES + (1 if is_one_byte_repeated else word >> 3)
        return True


class Plain:
    """Each record is a member, which ends where its length says."""

    magic = RECORD_BEGINS

    def skip(self, window: Window) -> None:
        while bytes(window.peek(2)[:2]) == _BETWEEN_RECORDS:
            window.skip(2)

    def frame(self, window: Window) -> Frame:
        return _PlainFrame(window)

    def begins(self, beginning: memoryview) -> bool:
        return _RECORD_HEADER.match(beginning[:FIRST_HEADER_BYTES]) is not None


class _PlainFrame:
    """A `Frame`. State: the header until it is read, and how much of the record is left."""

    __slots__ = ("_header", "_left", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._header = _plain_header(window)
        length = _CONTENT_LENGTH.search(self._header)
        if length is None:
            raise Damaged("its header has no length")
        self._left = int(length[1])

    def read(self, size: int, /) -> bytes:
        if self._header:
            header, self._header = self._header, b""
            return header
        if not self._left:
            return b""
        piece = _taken(self._window, min(size, self._left))
        self._left -= len(piece)
        return piece

    def tell(self) -> int:
        return 0

    def finish(self) -> None:
        while self.read(SEARCH_BYTES):
            pass
        end = bytes(self._window.peek(len(_RECORD_ENDS))[: len(_RECORD_ENDS)])
        if end != _RECORD_ENDS:
            raise Damaged("it does not end where its length says")
        self._window.skip(len(_RECORD_ENDS))


def _taken(window: Window, most: int) -> bytes:
    """The next bytes of a frame that has not ended yet."""
    piece = window.take(most)
    if not piece:
        raise Damaged(CUT_OFF)
    return bytes(piece)


def _plain_header(window: Window) -> bytes:
    wanted = FIRST_HEADER_BYTES
    while True:
        seen = window.peek(wanted)
        ends = bytes(seen[:wanted]).find(_RECORD_ENDS)
        if ends >= 0:
            header = bytes(seen[: ends + len(_RECORD_ENDS)])
            window.skip(len(header))
            return header
        if len(seen) < wanted:
            raise Damaged("the file ends in the middle of its header")
        if wanted >= MAX_HEADER_BYTES:
            raise Damaged("its header does not end")
        wanted *= 4


def detect(window: Window) -> Packing:
    """How the members from here on are packed. Raises NotAnArchive."""
    start = window.position
    beginning = window.peek(LOOK_BYTES)
    packing = _by_magic(window, bytes(beginning[:8]))
    if packing is not None:
        packing.skip(window)
        if packing.begins(window.peek(LOOK_BYTES)[:LOOK_BYTES]):
            return packing
        window.seek(start)
    if start:
        # The file is damaged here, or was changed: its beginning shows what it is.
        window.seek(0)
        packing = detect(window)
        window.seek(start)
        return packing
    return _detect_damaged(bytes(window.peek(DAMAGED_START_BYTES)))


def next_start(window: Window, packing: Packing) -> None:
    """Go to the next member that holds a record, or to the end of the file."""
    magic = re.compile(re.escape(packing.magic))
    false_starts = 0
    while seen := window.peek(SEARCH_BYTES):
        found = magic.search(seen)
        if found is None:
            # The magic may begin in the last bytes.
            window.skip(max(1, len(seen) - len(packing.magic) + 1))
            continue
        window.skip(found.start())
        if packing.begins(window.peek(LOOK_BYTES)[:LOOK_BYTES]):
            return
        false_starts += 1
        window.take(_behind(false_starts))


def _by_magic(window: Window, beginning: bytes) -> Packing | None:
    if beginning.startswith(Gzip.magic):
        return Gzip()
    if beginning.startswith(RECORD_BEGINS):
        return Plain()
    if beginning.startswith(Zstd.magic) or Zstd.no_data.match(beginning):
        return Zstd(_dictionary(window))
    return None


def _detect_damaged(beginning: bytes) -> Packing:
    """The first that is found in it."""
    if not beginning:
        raise NotAnArchive("the file is empty")
    packings: list[Packing] = [Gzip(), Zstd(), Plain()]
    found = [(at, packing) for packing in packings if (at := _first(beginning, packing)) >= 0]
    if not found:
        raise NotAnArchive("not a WARC file: no record begins in it")
    return min(found, key=lambda one: one[0])[1]


def _first(data: bytes, packing: Packing) -> int:
    view = memoryview(data)
    at = data.find(packing.magic)
    false_starts = 0
    while at >= 0 and not packing.begins(view[at : at + LOOK_BYTES]):
        false_starts += 1
        at = data.find(packing.magic, at + _behind(false_starts))
    return at


def _behind(false_starts: int) -> int:
    """How far after the last of `false_starts` to look for the next member."""
    return 1 if false_starts < FALSE_STARTS else FALSE_START_BYTES


def _dictionary(window: Window) -> bytes:
    """The dictionary of all frames: by convention the file's first frame, which is not data and may
    be packed itself. Empty for most files."""
    here = window.position
    window.seek(0)
    header = bytes(window.peek(8)[:8])
    data = b""
    if header[:4] == b"\x5d\x2a\x4d\x18":
        length = int.from_bytes(header[4:8], "little")
        if length > MAX_DICTIONARY_BYTES:
            raise NotAnArchive(f"its dictionary has {length} bytes")
        data = bytes(window.peek(8 + length)[8 : 8 + length])
    window.seek(here)
    if not data.startswith(Zstd.magic):
        return data
    try:
        return zstandard.ZstdDecompressor().decompress(data, MAX_DICTIONARY_BYTES)
    except zstandard.ZstdError as error:
        raise NotAnArchive(f"its dictionary cannot be unpacked: {error}") from None


def _unpacks_to_record(packing: Packing, beginning: memoryview) -> bool:
    try:
        frame = packing.frame(Window(BytesStream(beginning), 0))
        return frame.read(len(RECORD_BEGINS)) == RECORD_BEGINS
    except Damaged:
        return False

"""The pages of a SQLite file and of its log, read without SQLite: what it gives up on as a whole
may be whole in most of its parts. Nothing is written.

Of the format (sqlite.org/fileformat2.html) only what our tables use: leaves of tables with integer
keys, their overflow pages, the list of free pages, and the log's frames.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER_BYTES = 100
_LEAF = 0x0D
_FREE, _OVERFLOWS, _HIGHEST_KIND = 2, (3, 4), 5
_POINTER_BYTES = 5
_LOG_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
# Which byte order the log's checksums are in.
_LOG_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
# Longer than any payload can be; a length that is damaged must not fill the memory.
MOST_PAYLOAD_BYTES = 1 << 30

Value = int | float | bytes | str | None


class Broken(Exception):
    """What stands here is no record."""


class Record(NamedTuple):
    key: int
    values: list[Value]


class Pages:
    """State: the open file, the pages of the log that stand for those of the file, and the pages
    that are free."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._file = path.open("rb")
        self._page_bytes = page_bytes
        in_file = path.stat().st_size // page_bytes
        self._logged, in_log = _committed_frames(path.with_name(f"{path.name}-wal"), page_bytes)
        # What is behind the end that the log gives is of no use any more.
        self.count = in_log or in_file
        self._free = self._listed_as_free()
        # The kinds of pages by the page that maps them; none where that is damaged.
        self._maps: dict[int, bytes] = {}

    def close(self) -> None:
        self._file.close()

    def page(self, number: int) -> bytes:
        if number in self._logged:
            return self._logged[number]
        self._file.seek((number - 1) * self._page_bytes)
        try:
            return self._file.read(self._page_bytes)
        except OSError:  # a sector that cannot be read
            return b""

    def records(self, number: int) -> Iterator[Record | None]:
        """Of a leaf that is in use; None for each that cannot be made out."""
        page = self.page(number)
        if len(page) < self._page_bytes or not self._is_leaf_in_use(number, page):
            return
        cells = int.from_bytes(page[3:5])
        for index in range(min(cells, self._page_bytes // 4)):
            place = int.from_bytes(page[8 + 2 * index : 10 + 2 * index])
            try:
                yield self._record(page, place)
            except (Broken, IndexError, struct.error, UnicodeDecodeError):
                yield None

    def _is_leaf_in_use(self, number: int, page: bytes) -> bool:
        if page[0] != _LEAF:
            return False
        if self._free is not None:
            return number not in self._free
        return self._kind(number) not in (_FREE, *_OVERFLOWS)

    def _kind(self, number: int) -> int:
        """By the map of pages that a file which can shrink has; 0 when it does not say."""
        group = self._page_bytes // _POINTER_BYTES + 1
        first = (number - 2) // group * group + 2
        if first not in self._maps:
            kinds = self.page(first)[::_POINTER_BYTES][: self.count - first]
            self._maps[first] = kinds if max(kinds, default=0) <= _HIGHEST_KIND else b""
        kinds = self._maps[first]
        return kinds[number - first - 1] if 0 < number - first <= len(kinds) else 0

    def _listed_as_free(self) -> set[int] | None:
        """None when the list is damaged."""
        header = self.page(1)
        trunk, total = int.from_bytes(header[32:36]), int.from_bytes(header[36:40])
        free: set[int] = set()
        while trunk:
            page = self.page(trunk)
            if not 1 < trunk <= self.count or trunk in free or len(page) < 8:
                return None
            free.add(trunk)
            length = int.from_bytes(page[4:8])
            if length > self._page_bytes // 4 - 2:
                return None
            listed = struct.unpack_from(f">{length}I", page, 8)
            if any(not 1 < number <= self.count or number in free for number in listed):
                return None
            free.update(listed)
            trunk = int.from_bytes(page[:4])
        return free if len(free) == total else None

    def _record(self, page: bytes, place: int) -> Record:
        size, place = _varint(page, place)
        key, place = _varint(page, place)
        if not 0 < size < MOST_PAYLOAD_BYTES:
            raise Broken
        payload = self._payload(page, place, size)
        return Record(key - (1 << 64) if key >> 63 else key, _values(payload))

    def _payload(self, page: bytes, place: int, size: int) -> bytes:
        most = self._page_bytes - 35
        if size <= most:
            return _exactly(page[place : place + size], size)
        least = (self._page_bytes - 12) * 32 // 255 - 23
        here = least + (size - least) % (self._page_bytes - 4)
        here = here if here <= most else least
        parts = [_exactly(page[place : place + here], here)]
        left = size - here
        following = int.from_bytes(_exactly(page[place + here : place + here + 4], 4))
        while left > 0:
            if not 1 < following <= self.count:
                raise Broken
            overflow = _exactly(self.page(following), self._page_bytes)
            parts.append(overflow[4 : 4 + left])
            left -= len(parts[-1])
            following = int.from_bytes(overflow[:4])
        return b"".join(parts)


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise Broken
    return data


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place
    return value << 8 | data[place], place + 1


def _values(payload: bytes) -> list[Value]:
    end, place = _varint(payload, 0)
    if end > len(payload):
        raise Broken
    kinds = []
    while place < end:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, size = _value(kind, payload, place)
        values.append(value)
        place += size
    if place != len(payload):
        raise Broken
    return values


_INT_BYTES = (0, 1, 2, 3, 4, 6, 8)
_FLOAT = struct.Struct(">d")
_FLOAT_KIND, _ZERO, _ONE, _BLOB, _TEXT = 7, 8, 9, 12, 13


def _value(kind: int, payload: bytes, place: int) -> tuple[Value, int]:
    if kind == 0:
        return None, 0
    if kind < _FLOAT_KIND:
        size = _INT_BYTES[kind]
        return int.from_bytes(_exactly(payload[place : place + size], size), signed=True), size
    if kind == _FLOAT_KIND:
        return _FLOAT.unpack_from(payload, place)[0], 8
    if kind in (_ZERO, _ONE):
        return kind - _ZERO, 0
    if kind < _BLOB:
        raise Broken
    size = (kind - _BLOB) // 2
    data = _exactly(payload[place : place + size], size)
    return (data.decode() if kind % 2 else data), size


# The log


def _committed_frames(path: Path, page_bytes: int) -> tuple[dict[int, bytes], int]:
    """The newest version of each page, up to the last commit that is whole, as SQLite would see
    them; and how many pages the file has then."""
    if not path.exists():
        return {}, 0
    data = path.read_bytes()
    if len(data) < _LOG_HEADER.size:
        return {}, 0
    magic, _, size, _, *salts, first, second = _LOG_HEADER.unpack_from(data)
    order = _LOG_MAGIC.get(magic)
    if order is None or size != page_bytes:
        return {}, 0
    sums = _checksum(order, data[:24], (0, 0))
    if sums != (first, second):
        return {}, 0
    pages: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    count, place = 0, _LOG_HEADER.size
    while place + _FRAME_HEADER.size + page_bytes <= len(data):
        number, after, *frame_salts, first, second = _FRAME_HEADER.unpack_from(data, place)
        content = data[place + _FRAME_HEADER.size : place + _FRAME_HEADER.size + page_bytes]
        sums = _checksum(order, data[place : place + 8], sums)
        sums = _checksum(order, content, sums)
        if frame_salts != salts or sums != (first, second):
            break
        pending[number] = content
        if after:
            pages |= pending
            pending, count = {}, after
        place += _FRAME_HEADER.size + page_bytes
    return pages, count


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second

"""Reads files of JSON lines, as long as their manifest says that they are: never a half line, and
nothing of a batch that was not confirmed.

The file of each process grows by itself, so a place is a place in each. In a file that is packed, a
batch is a frame, and a place is before a frame, and behind some lines of it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import zstandard

from manyhands.shared.crawl.page_fields import FIRST_VERSION, RecordKind
from manyhands.shared.results.files import FileSource, manifest_at
from manyhands.shared.results.protocol import Page, Place, ResultsAway, WrongPlace
from manyhands.shared.sinks.manifest_tables import lines_manifest

ZSTD = ".zst"
_READ_BYTES = 256 * 1024
# What every record of a page has, and what others emit hardly ever.
_OF_PAGES = frozenset({"id", "url", "final_url", "status", "links", "fetched_at"})
# Of a line from before there were versions.
_OF_OLD = {"schema": FIRST_VERSION, "kind": RecordKind.PAGE, "cuts": []}
# A file's offset, and the lines behind it that were given.
_At = tuple[int, int]


def lines(url: str) -> FileSource:
    """For `jsonl:FILE`."""
    return FileSource(url, LineReader)


class LineReader:
    """A `Reader`. State: how far each file was read, by what its name adds to the one that was
    named."""

    def __init__(self, path: Path, crawl: int, place: Place | None, fields: Sequence[str]) -> None:
        self._path = path
        self._crawl = crawl
        # As it stands in the line of such a page: to look is much cheaper than to parse.
        self._mark = b'"crawl":%d,' % crawl
        self._fields = tuple(fields)
        self._places = _read_place(place)
        self._sizes = self._committed()

    @property
    def place(self) -> Place:
        return dict(self._places)

    @property
    def end(self) -> Place:
        ends = {name: (size, 0) for name, size in self._sizes.items()}
        return {name: max(end, self._places.get(name, end)) for name, end in ends.items()}

    def pages(self) -> Iterator[Page | None]:
        for name, size in self._sizes.items():
            try:
                file = self._file(name).open("rb", _READ_BYTES)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ResultsAway(f"{self._file(name)}: {error.strerror}") from error
            with file:
                yield from self._pages_of(name, file, size)

    def close(self) -> None:
        """Nothing is open between two records but a file, which goes with the iterator."""

    def _pages_of(self, name: str, file: BinaryIO, size: int) -> Iterator[Page | None]:
        begin, given = self._places.get(name, (0, 0))
        is_packed = self._file(name).suffix == ZSTD
        for lines, end in (_frames if is_packed else _each_line)(file, begin, size):
            for number, line in enumerate(lines[given:], start=given + 1):
                self._places[name] = (begin, number) if number < len(lines) else (end, 0)
                yield self._page(line)
            self._places[name] = (end, 0)
            begin, given = end, 0

    def _page(self, line: bytes) -> Page | None:
        if self._mark not in line:
            return None
        try:
            record = orjson.loads(line)
        except ValueError:
            raise WrongPlace("it is in the middle of a line") from None
        if not isinstance(record, dict) or not record.keys() >= _OF_PAGES:
            return None
        if record.get("crawl") != self._crawl:
            return None
        return {name: record.get(name, _OF_OLD.get(name)) for name in self._fields}

    def _committed(self) -> dict[str, int]:
        with manifest_at(lines_manifest(self._path)) as database:
            if database is None:
                return {}
            rows = database.rows("SELECT name, size FROM segments ORDER BY created_at, name")
        begin, end = self._around()
        return {name.removeprefix(begin).removesuffix(end): size for name, size in rows}

    def _file(self, name: str) -> Path:
        begin, end = self._around()
        return self._path.with_name(f"{begin}{name}{end}")

    def _around(self) -> tuple[str, str]:
        """What the names of all files begin and end with."""
        packing = ZSTD if self._path.suffix == ZSTD else ""
        plain = Path(self._path.name.removesuffix(packing))
        return plain.stem, f"{plain.suffix}{packing}"


def _read_place(place: Place | None) -> dict[str, _At]:
    """Raises WrongPlace."""
    if place is None:
        return {}
    try:
        found = {str(name): _at(*at) for name, at in place.items()}
    except (AttributeError, TypeError, ValueError):
        raise WrongPlace("it is no place in a file of lines") from None
    return found


def _at(offset: Any, given: Any) -> _At:
    if type(offset) is not int or type(given) is not int or min(offset, given) < 0:
        raise ValueError
    return offset, given


def _each_line(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[list[bytes], int]]:
    """Each by itself, with the offset behind it."""
    file.seek(begin)
    while begin < end:
        line = file.readline(end - begin)
        if not line.endswith(b"\n"):
            # It was cut from outside.
            return
        begin += len(line)
        yield [line], begin


def _frames(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[list[bytes], int]]:
    """The lines of each, with the offset behind it. One frame is in memory: a batch."""
    file.seek(begin)
    ahead = b""
    while begin < end:
        unpacking = zstandard.ZstdDecompressor().decompressobj()
        text, size = [], 0
        while not unpacking.eof:
            packed = ahead or file.read(min(_READ_BYTES, end - file.tell()))
            if not packed:
                return
            ahead = b""
            size += len(packed)
            try:
                text.append(unpacking.decompress(packed))
            except zstandard.ZstdError:
                raise WrongPlace("it is in the middle of a frame") from None
        ahead = unpacking.unused_data
        begin += size - len(ahead)
        yield b"".join(text).splitlines(), begin

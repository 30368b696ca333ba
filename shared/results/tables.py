"""Reads the Parquet files of a directory: those that are complete, in the order in which they
became so. What still grows in the spool is not there yet.

A place is a file's number in the manifest, its date, and the pages of it that were given. The links
of a page are in a table of their own, in the order of the pages.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.shared.crawl.page_fields import FIELDS, OF_LINKS, Kind
from manyhands.shared.jobs import rfc3339
from manyhands.shared.results.files import FileSource, manifest_at
from manyhands.shared.results.protocol import Page, Place, ResultsAway, WrongPlace
from manyhands.shared.sinks.manifest_tables import (
    PARQUET_EDGES,
    PARQUET_MANIFEST,
    PARQUET_PAGES,
    PARQUET_SPOOL,
    SCHEMA,
)

# Rows that become Python objects at a time.
ROWS_AT_ONCE = 64
_SUFFIX = ".parquet"
_LINK_COUNT = "link_count"
_EDGES = dict(zip(OF_LINKS, ("target", "text", "rel"), strict=True))
_TIMES = frozenset(field.name for field in FIELDS if field.kind is Kind.TIME)
_JSON = frozenset(field.name for field in FIELDS if field.kind is Kind.JSON)
_OF_PARTITIONS = "crawl"


class _At(NamedTuple):
    """`number` is the file's; all before `date` are read, and `given` pages of that one."""

    number: int
    date: str
    given: int


def tables(url: str) -> FileSource:
    """For `parquet:DIRECTORY`."""
    return FileSource(url, TableReader)


class TableReader:
    """A `Reader`. State: how far it has come."""

    def __init__(
        self, directory: Path, crawl: int, place: Place | None, fields: Sequence[str]
    ) -> None:
        self._directory = directory
        self._crawl = crawl
        self._fields = tuple(fields)
        self._at = _read_place(place)
        self._files = self._published()

    @property
    def place(self) -> Place:
        return list(self._at)

    @property
    def end(self) -> Place:
        return [self._files[-1][0] + 1, "", 0] if self._files else self.place

    def pages(self) -> Iterator[Page | None]:
        for number, name in self._files:
            if number > self._at.number:
                self._at = _At(number, "", 0)
            for date, path in self._parts(name):
                if date > self._at.date:
                    self._at = _At(number, date, 0)
                for page in self._pages_of(path, self._at.given):
                    self._at = self._at._replace(given=self._at.given + 1)
                    yield page
            self._at = _At(number + 1, "", 0)
            yield None

    def close(self) -> None:
        """Files are open while they are read."""

    def _published(self) -> list[tuple[int, str]]:
        manifest = self._directory / PARQUET_SPOOL / PARQUET_MANIFEST
        with manifest_at(manifest) as database:
            if database is None:
                return []
            if database.value("PRAGMA user_version") < SCHEMA.version:
                raise ResultsAway(
                    f"{manifest} is of an earlier release: start a worker of this one, which "
                    "brings it up to date"
                )
            return database.rows(
                "SELECT published, name FROM segments WHERE published >= ? ORDER BY published",
                (self._at.number,),
            )

    def _parts(self, name: str) -> Iterator[tuple[str, Path]]:
        """Of one segment, by date, from ours on."""
        file = f"{name.partition('.')[0]}{_SUFFIX}"
        of_crawl = self._directory / PARQUET_PAGES / f"crawl={self._crawl}"
        for path in sorted(of_crawl.glob(f"date=*/{file}")):
            date = path.parent.name.removeprefix("date=")
            if date >= self._at.date:
                yield date, path

    def _pages_of(self, path: Path, given: int) -> Iterator[Page]:
        edges = self._edges_of(path)
        try:
            with pq.ParquetFile(path) as file:
                yield from self._joined(file, edges, given)
        except (OSError, pa.ArrowException) as error:
            raise ResultsAway(f"{path}: {error}") from error

    def _joined(self, file: pq.ParquetFile, edges: Path | None, given: int) -> Iterator[Page]:
        stored = [name for name in self._fields if name not in (*OF_LINKS, _OF_PARTITIONS)]
        wanted = [name for name in self._fields if name in OF_LINKS]
        first, links = given, 0
        if wanted and given:
            links = sum(row[_LINK_COUNT] for row in islice(_rows(file, [_LINK_COUNT], 0), given))
        behind = _links(edges, wanted, links) if wanted and edges is not None else iter(())
        # Without a column there would be no rows.
        for row in _rows(file, [*stored, _LINK_COUNT], first):
            count = row.pop(_LINK_COUNT)
            of_links = [next(behind) for _ in range(count)] if wanted and edges else []
            page = {name: _plain(name, value) for name, value in row.items()}
            page |= {name: _listed(name, of_links) for name in wanted}
            yield {
                name: self._crawl if name == _OF_PARTITIONS else page[name] for name in self._fields
            }

    def _edges_of(self, path: Path) -> Path | None:
        """None: these pages have no links."""
        edges = self._directory / PARQUET_EDGES / path.relative_to(self._directory / PARQUET_PAGES)
        return edges if edges.exists() else None


def _rows(file: pq.ParquetFile, columns: list[str], first: int) -> Iterator[dict[str, Any]]:
    """From the row `first` on. A row group at most is in memory."""
    for group in range(file.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if first >= size:
            first -= size
            continue
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=columns):
            skipped = min(first, len(batch))
            first -= skipped
            yield from batch.slice(skipped).to_pylist()


def _links(edges: Path, wanted: list[str], first: int) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(edges) as file:
        yield from _rows(file, [_EDGES[name] for name in wanted], first)


def _listed(name: str, links: list[dict[str, Any]]) -> list[Any] | None:
    values = [link[_EDGES[name]] for link in links]
    # What was not chosen is null for each link.
    if values and all(value is None for value in values):
        return None
    return values


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime) and name in _TIMES:
        return rfc3339(value)
    if value is not None and name in _JSON:
        return orjson.loads(value)
    return value


def _read_place(place: Place | None) -> _At:
    """Raises WrongPlace."""
    if place is None:
        return _At(0, "", 0)
    try:
        number, date, given = place
    except (TypeError, ValueError):
        raise WrongPlace("it is no place in tables") from None
    if type(number) is not int or type(given) is not int or not isinstance(date, str):
        raise WrongPlace("it is no place in tables")
    if min(number, given) < 0 or number >= 2**63:
        raise WrongPlace("it is no place in tables")
    return _At(number, date, given)

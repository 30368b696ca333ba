"""Pages and links as tables: their layout in a segment, and its conversion to Parquet. Blocking.

A segment is a sequence of frames. A frame holds records of one crawl and one day: a header of fixed
length, and an Arrow stream with the pages, each with the list of its links. The links become a
separate table only at the end: until then their page is written once, not for each of them.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from manyhands.shared.crawl.page_fields import FIELDS, OF_LINKS, VERSION, Kind
from manyhands.shared.sinks.manifest_tables import PARQUET_EDGES, PARQUET_PAGES
from manyhands.worker.records import PageRecord
from manyhands.worker.sinks.files.segment_file import sync_file
from manyhands.worker.sinks.rows import json_of, valid_text

# What all readers take for NULL in the name of a partition.
NO_CRAWL = "__HIVE_DEFAULT_PARTITION__"
# Most bytes in memory, and most rows, of a row group.
ROW_GROUP_BYTES = 64 * 1024 * 1024
ROW_GROUP_ROWS = 1_000_000
# Of the values of a column and row group that are written once. Parquet's own 1 MB is too little
# for the pages whose links make up a row group.
DICTIONARY_BYTES = 8 * 1024 * 1024

_WORDS = pa.dictionary(pa.int32(), pa.string())
_MANY = pa.list_(pa.field("item", pa.string(), nullable=False))
_TYPES = {
    Kind.NAME: pa.string(),
    Kind.WORD: _WORDS,
    Kind.TEXT: pa.string(),
    Kind.RAW: pa.string(),
    Kind.INTEGER: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIME: pa.timestamp("ms", "UTC"),
    Kind.NAMES: _MANY,
    Kind.TEXTS: _MANY,
    # As text.
    Kind.JSON: pa.string(),
}
# In the names of the directories.
_OF_PARTITIONS = "crawl"
SPOOLED = pa.schema(
    [
        pa.field(field.name, _TYPES[field.kind], nullable=not field.is_required)
        for field in FIELDS
        if field.name != _OF_PARTITIONS
    ]
)
_JSON_NAMES = frozenset(field.name for field in FIELDS if field.kind is Kind.JSON)
_METADATA = {"manyhands.page_schema": str(VERSION)}
PAGES = pa.schema(
    [
        *(field for field in SPOOLED if field.name not in OF_LINKS),
        pa.field("link_count", pa.int32(), nullable=False),
    ],
    _METADATA,
)
EDGES = pa.schema(
    [
        pa.field("page_id", _WORDS, nullable=False),
        pa.field("source", _WORDS, nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("rel", pa.string()),
    ],
    _METADATA,
)
# Columns whose values are worth being looked for among those before.
_REPEATED = [
    *("status", "content_type", "language", "page_id", "source", "rel", "schema"),
    "content_language",
]

_HEADER = struct.Struct(">q10sQ")
_NONE = -1
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


@dataclass(slots=True, frozen=True, order=True)
class Partition:
    """`crawl` is -1 for pages of none; `date` is YYYY-MM-DD."""

    crawl: int
    date: str

    @property
    def path(self) -> str:
        return f"crawl={NO_CRAWL if self.crawl == _NONE else self.crawl}/date={self.date}"


def frames(records: Sequence[PageRecord]) -> bytes:
    """Raises TypeError or ValueError when no table can hold one of them."""
    groups: dict[Partition, list[PageRecord]] = {}
    for record in records:
        crawl = _NONE if record.crawl is None else record.crawl
        groups.setdefault(Partition(crawl, record.fetched_at[:10]), []).append(record)
    try:
        return b"".join(_frame(partition, group) for partition, group in groups.items())
    except (OverflowError, struct.error) as error:
        raise ValueError(f"a number is too large: {error}") from error


def _frame(partition: Partition, records: Sequence[PageRecord]) -> bytes:
    columns = [_column(field, _values(field.name, records)) for field in SPOOLED]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SPOOLED, options=_PACKED) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SPOOLED))
    stream = sink.getvalue()
    header = _HEADER.pack(partition.crawl, partition.date.encode("ascii"), len(stream))
    return b"".join((header, stream))


def _values(name: str, records: Sequence[PageRecord]) -> list[Any]:
    values = [getattr(record, name) for record in records]
    if name in _JSON_NAMES:
        return [None if value is None else json_of(value).decode() for value in values]
    return values


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    try:
        column = _array(field.type, values)
    except UnicodeEncodeError:
        # Checking all text first would cost more than this.
        column = _array(field.type, [_with_valid_text(value) for value in values])
    if not field.nullable and column.null_count:
        raise ValueError(f"{field.name} is missing")
    if pa.types.is_list(field.type) and column.values.null_count:
        raise ValueError(f"one of the {field.name} is missing")
    return column


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_timestamp(kind):
        exact = pa.array(values, pa.string()).cast(pa.timestamp("ns", "UTC"))
        return exact.cast(kind, safe=False)
    return pa.array(values, kind)


def _with_valid_text(value: Any) -> Any:
    if isinstance(value, list):
        return [valid_text(one) for one in value]
    return valid_text(value) if isinstance(value, str) else value


def convert(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """A `Convert`: for each partition a file of pages and, if there are any, one of edges. The same
    segment becomes the same files again. At most a row group is in memory."""
    stem = name.partition(".")[0]
    for partition, places in _partitions(path).items():
        for table, schema, of_pages in (
            (PARQUET_PAGES, PAGES, _pages),
            (PARQUET_EDGES, EDGES, _edges),
        ):
            made = path.with_name(f"{stem}.{table}.part")
            try:
                if _write(made, schema, map(of_pages, _tables(path, places))):
                    yield made, f"{table}/{partition.path}/{stem}.parquet"
            finally:
                made.unlink(missing_ok=True)
    pa.default_memory_pool().release_unused()


def _partitions(path: Path) -> dict[Partition, list[tuple[int, int]]]:
    """Where the streams of each are, and how long."""
    found: dict[Partition, list[tuple[int, int]]] = {}
    with path.open("rb") as file:
        while header := file.read(_HEADER.size):
            crawl, date, length = _HEADER.unpack(header)
            place = (file.tell(), length)
            found.setdefault(Partition(crawl, date.decode("ascii")), []).append(place)
            file.seek(length, 1)
    return found


def _tables(path: Path, places: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
    with path.open("rb") as file:
        for offset, length in places:
            file.seek(offset)
            with pa.ipc.open_stream(file.read(length)) as reader:
                yield reader.read_all()


def _pages(table: pa.Table) -> pa.Table:
    counts = pc.list_value_length(table["links"])
    kept = table.drop_columns(list(OF_LINKS)).append_column(PAGES.field("link_count"), counts)
    return kept.replace_schema_metadata(PAGES.metadata)


def _edges(table: pa.Table) -> pa.Table:
    """The source and its id are indices into the pages: nothing is written for each link but the
    link."""
    links = table["links"].combine_chunks()
    pages = pc.list_parent_indices(links).cast(pa.int32())
    targets = links.flatten()
    starts = pc.take(links.offsets, pages)
    positions = pc.subtract(pa.array(range(len(targets)), pa.int32()), starts)
    return pa.Table.from_arrays(
        [
            pa.DictionaryArray.from_arrays(pages, table["id"].combine_chunks()),
            pa.DictionaryArray.from_arrays(pages, table["final_url"].combine_chunks()),
            targets,
            positions,
            _beside(table["link_texts"], table["links"], len(targets)),
            _beside(table["link_rels"], table["links"], len(targets)),
        ],
        schema=EDGES,
    )


def _beside(said: pa.ChunkedArray, links: pa.ChunkedArray, count: int) -> pa.Array:
    """What is said of each link; nothing where a page's record does not have it."""
    values = said.combine_chunks()
    if values.null_count == len(values):
        return pa.nulls(count, pa.string())
    if values.null_count:
        given = zip(values.to_pylist(), links.to_pylist(), strict=True)
        each = (many if many is not None else [None] * len(of) for many, of in given)
        return pa.array([one for many in each for one in many], pa.string())
    return values.flatten()


def _write(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> bool:
    """Whether there are any rows: else there is no file."""
    groups = _row_groups(tables)
    first = next(groups, None)
    if first is None:
        return False
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=_REPEATED,
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        write_page_index=True,
    ) as writer:
        _write_group(writer, first)
        del first
        for group in groups:
            _write_group(writer, group)
    sync_file(path)
    return True


def _write_group(writer: pq.ParquetWriter, group: pa.Table) -> None:
    writer.write_table(group.unify_dictionaries(), row_group_size=len(group))


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        size += table.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting.clear()
            rows = size = 0
    if rows:
        yield pa.concat_tables(waiting)

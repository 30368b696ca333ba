"""An archive → one Parquet file, a row for each record. Blocking; for a thread.

It decodes while one thread makes columns and another packs and writes them: memory holds two row
groups, however long the file is. Digests become a column and are not checked: that would take a
fifth of the time, and the checksums of the packing already show damaged bytes.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.worker.warc.outputs import Output
from manyhands.worker.warc.reading import ArchivedRecord, Damage, Position, read_archive
from manyhands.worker.warc.streams import ByteStream
from manyhands.worker.warc.tables import (
    DICTIONARY_COLUMNS,
    GROUP_BYTES,
    GROUP_ROWS,
    MAX_BODY_BYTES,
    SCHEMA,
    STATISTICS_COLUMNS,
    batch_of,
    size_of,
)

# Made into columns at a time, and how many of them may wait for that.
BATCH_BYTES = 4 * 1024 * 1024
BATCHES_AHEAD = 4
# The fastest level; the next ones save a seventh of the bytes for half as much time again.
ZSTD_LEVEL = 1

_UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")
_SUFFIXES = re.compile(r"(\.(warc|wat|wet|gz|zst|zstd))+$", re.I)
_MAX_STEM = 150


@dataclass(slots=True)
class Exported:
    """How far it is. `offset` is where the last record began."""

    rows: int = 0
    offset: int = 0
    damages: list[Damage] = field(default_factory=list)


def file_name(source: str) -> str:
    """A name that is always the same for a source, and different for every other one."""
    stem = _SUFFIXES.sub("", source.rstrip("/").rpartition("/")[2])
    known_by = hashlib.blake2b(source.encode(), digest_size=6).hexdigest()
    shown = _UNUSABLE.sub("_", stem)[:_MAX_STEM].strip(".")
    return f"{shown or 'archive'}-{known_by}.parquet"


def export_archive(
    stream: ByteStream, output: Output, tell: Callable[[Exported], None]
) -> Exported:
    """`tell` is called now and then. Raises NotAnArchive, and what stream and output
    raise."""
    try:
        with _Groups(output) as groups:
            exported = _Exporting(groups, tell).run(stream)
        output.commit()
    except BaseException:
        output.abandon()
        raise
    finally:
        stream.close()
    return exported


class _Exporting:
    """State: how far it is."""

    def __init__(self, groups: "_Groups", tell: Callable[[Exported], None]) -> None:
        self._groups = groups
        self._tell = tell
        self._exported = Exported()

    def run(self, stream: ByteStream) -> Exported:
        exported = self._exported
        batch: list[ArchivedRecord] = []
        size = 0
        for item in read_archive(stream, Position(), MAX_BODY_BYTES, checks_digests=False):
            if isinstance(item, Damage):
                exported.damages.append(item)
                continue
            batch.append(item)
            size += size_of(item)
            if size >= BATCH_BYTES:
                self._hand_over(batch, size)
                batch, size = [], 0
        if batch:
            self._hand_over(batch, size)
        self._groups.finish()
        return exported

    def _hand_over(self, batch: list[ArchivedRecord], size: int) -> None:
        self._exported.rows += len(batch)
        self._exported.offset = batch[-1].at.offset
        self._groups.add(batch, size)
        self._tell(self._exported)


class _Groups:
    """Makes columns of records in one thread, and packs and writes them in another. State: the
    writer, what the two threads have still to do, and the row group that is being filled."""

    def __init__(self, output: Output) -> None:
        self._writer = pq.ParquetWriter(
            output,
            SCHEMA,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=DICTIONARY_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
            # Rows after which a page is looked at whether it is full: bodies are long.
            write_batch_size=16,
            # Readers need not know that bodies are views.
            store_schema=False,
        )
        self._columns = ThreadPoolExecutor(1, thread_name_prefix="columns")
        self._parquet = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._added: deque[Future[None]] = deque()
        self._written: Future[None] | None = None
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._columns.shutdown(cancel_futures=True)
        self._parquet.shutdown(cancel_futures=True)
        # After a failure: otherwise it would go on writing when it is garbage-collected.
        with suppress(Exception):
            self._writer.close()

    def add(self, records: list[ArchivedRecord], size: int) -> None:
        self._added.append(self._columns.submit(self._add, records, size))
        while len(self._added) > BATCHES_AHEAD:
            self._added.popleft().result()

    def finish(self) -> None:
        for future in self._added:
            future.result()
        self._end_group()
        self._wait()
        self._writer.close()

    def _add(self, records: list[ArchivedRecord], size: int) -> None:
        if self._bytes + size > GROUP_BYTES or self._rows + len(records) > GROUP_ROWS:
            self._end_group()
        self._batches.append(batch_of(records))
        self._bytes += size
        self._rows += len(records)
        # The caller keeps the list until it asks for the outcome.
        records.clear()

    def _end_group(self) -> None:
        self._wait()
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._written = self._parquet.submit(self._writer.write_table, table)
            self._batches = []
            self._bytes = self._rows = 0

    def _wait(self) -> None:
        if self._written is not None:
            self._written.result()
            self._written = None

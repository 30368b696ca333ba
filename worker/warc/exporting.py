"""An archive → one Parquet file, a row for each record. Blocking; for a thread.

It decodes while another thread packs and writes the row group before: memory holds two of them,
however long the file is.
"""

import hashlib
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from worker.warc.digests import Digest
from worker.warc.outputs import Output
from worker.warc.reading import Damage, Position, read_archive
from worker.warc.streams import ByteStream
from worker.warc.tables import (
    DICTIONARY_COLUMNS,
    GROUP_BYTES,
    GROUP_ROWS,
    MAX_BODY_BYTES,
    SCHEMA,
    STATISTICS_COLUMNS,
    Rows,
)

# Of a row group: brought into columns at a time, so that the records can go.
BATCH_BYTES = 4 * 1024 * 1024
# The quickest; the next ones save a seventh of the bytes for half as much time again.
ZSTD_LEVEL = 1

_UNUSABLE = re.compile(r"[^A-Za-z0-9._-]+")
_SUFFIXES = re.compile(r"(\.(warc|wat|wet|gz|zst|zstd))+$", re.I)
_MAX_STEM = 150


@dataclass(slots=True)
class Exported:
    """How far it is. `offset` is where the last record began."""

    rows: int = 0
    groups: int = 0
    offset: int = 0
    bad_digests: list[int] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


def file_name(source: str) -> str:
    """The same for the same source, and another for each other one."""
    stem = _SUFFIXES.sub("", source.rstrip("/").rpartition("/")[2])
    known_by = hashlib.blake2b(source.encode(), digest_size=6).hexdigest()
    return f"{_UNUSABLE.sub('_', stem)[:_MAX_STEM] or 'archive'}-{known_by}.parquet"


def export_archive(
    stream: ByteStream, output: Output, tell: Callable[[Exported], None]
) -> Exported:
    """`tell` is called with every row group. Raises NotAnArchive, and what stream and output
    raise."""
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="parquet") as thread:
            exported = _Exporting(output, thread, tell).run(stream)
        output.commit()
    except BaseException:
        output.abandon()
        raise
    finally:
        stream.close()
    return exported


class _Exporting:
    """State: how far it is, the rows and batches of the group that is being filled, and the group
    that is being written."""

    def __init__(
        self, output: Output, thread: ThreadPoolExecutor, tell: Callable[[Exported], None]
    ) -> None:
        self._writer = pq.ParquetWriter(
            output,
            SCHEMA,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=DICTIONARY_COLUMNS,
            write_statistics=STATISTICS_COLUMNS,
        )
        self._thread = thread
        self._tell = tell
        self._exported = Exported()
        self._rows = Rows()
        self._batches: list[pa.RecordBatch] = []
        self._batched_bytes = 0
        self._batched_rows = 0
        self._written: Future[None] | None = None

    def run(self, stream: ByteStream) -> Exported:
        exported = self._exported
        for item in read_archive(stream, Position(), MAX_BODY_BYTES):
            if isinstance(item, Damage):
                exported.damages.append(item)
                continue
            exported.rows += 1
            exported.offset = item.at.offset
            if item.digest_state is Digest.BAD:
                exported.bad_digests.append(item.at.offset)
            self._rows.add(item)
            if self._rows.size >= BATCH_BYTES:
                self._batch()
        self._batch()
        self._end_group()
        if self._written is not None:
            self._written.result()
        self._writer.close()
        return exported

    def _batch(self) -> None:
        rows = self._rows
        if not len(rows):
            return
        self._batched_bytes += rows.size
        self._batched_rows += len(rows)
        self._batches.append(rows.take())
        # With room for one more batch.
        is_full = self._batched_bytes > GROUP_BYTES - BATCH_BYTES - MAX_BODY_BYTES
        if is_full or self._batched_rows >= GROUP_ROWS:
            self._end_group()

    def _end_group(self) -> None:
        if not self._batches:
            return
        if self._written is not None:
            self._written.result()
        table = pa.Table.from_batches(self._batches)
        self._written = self._thread.submit(self._write, table)
        self._batches = []
        self._batched_bytes = self._batched_rows = 0
        self._exported.groups += 1
        self._tell(self._exported)

    def _write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=GROUP_ROWS)

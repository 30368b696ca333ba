"""Records of archives as rows of Parquet: the columns, and the batches that make up row groups.
Pure."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from manyhands.worker.warc.reading import ArchivedRecord

# What a reader holds in memory at a time, unpacked; we hold twice as much.
GROUP_BYTES = 64 * 1024 * 1024
GROUP_ROWS = 1_000_000
# Of a body; the rest of it stays in the archive.
MAX_BODY_BYTES = 16 * 1024 * 1024

SCHEMA = pa.schema(
    [
        pa.field("url", pa.string(), nullable=False),
        pa.field("date", pa.timestamp("us", tz="UTC")),
        pa.field("status", pa.int16()),
        pa.field("content_type", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("payload_length", pa.int64(), nullable=False),
        pa.field("ip", pa.string()),
        pa.field("headers", pa.binary(), nullable=False),
        pa.field("body", pa.binary_view(), nullable=False),
        pa.field("is_truncated", pa.bool_(), nullable=False),
        pa.field("warc_offset", pa.int64(), nullable=False),
    ]
)
# Few values, many times.
DICTIONARY_COLUMNS = ["status", "content_type", "ip"]
# Statistics by which a reader may skip row groups; for bodies they would not be worth their cost.
STATISTICS_COLUMNS = ["url", "date", "status", "content_type", "warc_offset"]

# Arrow's view of a value: its length and the value; or its length, its beginning, the buffer that
# holds it and the offset there.
_IN_PLACE = 12
_SHORT_VIEW = struct.Struct("<i12s")
_VIEW = struct.Struct("<i4sii")


def batch_of(records: Sequence[ArchivedRecord]) -> pa.RecordBatch:
    columns = {
        "url": [record.url for record in records],
        "date": [_moment(record.date) for record in records],
        "status": [record.status or None for record in records],
        "content_type": [record.content_type or None for record in records],
        "digest": [record.digest or None for record in records],
        "payload_length": [record.length for record in records],
        "ip": [record.ip or None for record in records],
        "headers": [record.head for record in records],
        "body": _bodies([record.body for record in records]),
        "is_truncated": [record.is_truncated for record in records],
        "warc_offset": [record.at.offset for record in records],
    }
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for field, column in zip(SCHEMA, columns.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def size_of(record: ArchivedRecord) -> int:
    """In bytes, unpacked."""
    return len(record.body) + len(record.head) + len(record.url)


def _bodies(values: Sequence[bytes]) -> pa.Array:
    """Views of the bytes where they are: copying them together would take as long as unpacking
    them."""
    views = bytearray()
    buffers: list[pa.Buffer] = []
    for value in values:
        if len(value) <= _IN_PLACE:
            views += _SHORT_VIEW.pack(len(value), value)
        else:
            views += _VIEW.pack(len(value), value[:4], len(buffers), 0)
            buffers.append(pa.py_buffer(value))
    return pa.Array.from_buffers(
        pa.binary_view(), len(values), [None, pa.py_buffer(bytes(views)), *buffers]
    )


def _moment(text: str) -> datetime | None:
    """Without a zone it is in UTC, as the format wants it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

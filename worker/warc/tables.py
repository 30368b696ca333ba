"""Records of archives as rows of Parquet: the columns, and the batches that row groups are made of.
Pure."""

from datetime import UTC, datetime

import pyarrow as pa

from worker.warc.reading import ArchivedRecord

# What a reader takes into memory at a time, unpacked.
GROUP_BYTES = 128 * 1024 * 1024
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
        pa.field("headers", pa.binary()),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("is_truncated", pa.bool_(), nullable=False),
        pa.field("warc_offset", pa.int64(), nullable=False),
    ]
)
# Few values, many times.
DICTIONARY_COLUMNS = ["status", "content_type", "ip"]
# By which a reader may leave out row groups; those of bodies would cost more than they tell.
STATISTICS_COLUMNS = ["url", "date", "status", "content_type", "warc_offset"]


class Rows:
    """State: the columns of the rows that wait, and how many bytes they have."""

    def __init__(self) -> None:
        self._columns: tuple[list[object], ...] = tuple([] for _ in SCHEMA)
        self.size = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, record: ArchivedRecord) -> None:
        row = (
            record.url,
            _moment(record.date),
            record.status or None,
            record.content_type or None,
            record.digest or None,
            record.length,
            record.ip or None,
            record.head or None,
            record.body,
            record.is_truncated,
            record.at.offset,
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        self.size += len(record.body) + len(record.head) + len(record.url)

    def take(self) -> pa.RecordBatch:
        """All of them; none wait any more."""
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(self._columns, SCHEMA, strict=True)
        ]
        self.__init__()  # type: ignore[misc]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _moment(text: str) -> datetime | None:
    """Without a zone it is in UTC, as the format wants it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

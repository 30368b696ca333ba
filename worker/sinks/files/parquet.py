"""Pages and the links between them as Parquet files, in a directory or a bucket.

`pages/crawl=7/date=2026-11-17/….parquet` and `edges/…`: partitions that all readers know.
Incomplete files are beside them in `_spool`, where readers do not look.
"""

from collections.abc import Sequence
from typing import cast

from manyhands.shared.closing import closed_on_error
from manyhands.shared.crawl.page_fields import VERSION
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import PARQUET_MANIFEST, PARQUET_SPOOL
from manyhands.shared.sinks.places import parse_place
from manyhands.worker.records import PageRecord, Record
from manyhands.worker.sinks.files.batches import MIB, BatchWriter, SealedAt
from manyhands.worker.sinks.files.file_sink import FileSink
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.parquet_tables import convert, frames
from manyhands.worker.sinks.files.publishing import Publishing
from manyhands.worker.sinks.files.segments import Spool
from manyhands.worker.sinks.files.stores import store_of
from manyhands.worker.sinks.rows import rows_of

SEALED_AT = SealedAt(size=64 * MIB, age_s=15 * 60)
SUFFIX = ".arrows"


class ParquetSink(FileSink):
    """For `parquet:DIRECTORY` and `parquet+s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        place = parse_place(url, {})
        directory = place.path / PARQUET_SPOOL if place.bucket is None else place.path

        def spool() -> Spool:
            manifest = Manifest.open(directory / PARQUET_MANIFEST)
            with closed_on_error(manifest):
                _check_schema(manifest, place.name)
            return Spool(manifest, directory, SUFFIX)

        super().__init__(
            place.name,
            frozenset({PageRecord}),
            lambda: BatchWriter(spool(), ParquetFormat(), SEALED_AT),
            lambda: Publishing(spool(), store_of(place), convert, SEALED_AT.age_s),
        )


def _check_schema(manifest: Manifest, name: str) -> None:
    found = manifest.page_schema(VERSION)
    if found != VERSION:
        raise ConfigError(
            f"SINKS: {name} has pages of schema {found}, and this release writes schema {VERSION}: "
            "name another place, so that all files of one have the same columns"
        )


class ParquetFormat:
    """A `Format`."""

    def beginning(self, name: str, now: float) -> bytes:
        del name, now
        return b""

    def encode(self, records: Sequence[Record]) -> bytes:
        try:
            return frames(cast("Sequence[PageRecord]", records))
        except (TypeError, ValueError):
            # One of them, and it is not said which.
            return b"".join(rows_of(records, _frame))


def _frame(record: Record) -> bytes:
    assert isinstance(record, PageRecord)
    return frames([record])

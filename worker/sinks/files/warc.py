"""Captured pages as WARC files, in a directory or a bucket.

A file is called `….warc.gz.open` until it is complete. Each record of it is compressed by itself,
so that readers can begin anywhere.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import zstandard
from isal import isal_zlib

from manyhands.shared.jobs import rfc3339
from manyhands.shared.sinks.places import parse_place
from manyhands.worker.records import Capture, Record
from manyhands.worker.sinks.files.batches import GIB, BatchWriter, SealedAt
from manyhands.worker.sinks.files.file_sink import FileSink
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.publishing import Publishing, as_it_is
from manyhands.worker.sinks.files.segments import Spool
from manyhands.worker.sinks.files.stores import store_of
from manyhands.worker.sinks.files.warc_records import Pack, capture_records, warcinfo_record
from manyhands.worker.sinks.rows import rows_of

SEALED_AT = SealedAt(size=GIB, age_s=15 * 60)
MANIFEST = "warc.manifest"
_OPTIONS = {"compression": ("gzip", "zstd")}
_SUFFIXES = {"gzip": ".warc.gz", "zstd": ".warc.zst"}
# Hardly larger than zlib's level 6, and three to ten times as fast.
_GZIP_LEVEL = 2
# With a header and a checksum of its own.
_GZIP_BITS = 31
# As fast as that and a little smaller; the next levels take much longer for little gain.
_ZSTD_LEVEL = 1


class WarcSink(FileSink):
    """For `warc:DIRECTORY` and `warc+s3://bucket/prefix`."""

    def __init__(self, url: str) -> None:
        place = parse_place(url, _OPTIONS)
        compression = place.options["compression"]

        def spool() -> Spool:
            manifest = Manifest.open(place.path / MANIFEST)
            return Spool(manifest, place.path, _SUFFIXES[compression])

        super().__init__(
            place.name,
            frozenset({Capture}),
            lambda: BatchWriter(spool(), WarcFormat(compression), SEALED_AT),
            lambda: Publishing(spool(), store_of(place), as_it_is, SEALED_AT.age_s),
        )


class WarcFormat:
    """A `Format`, for one thread."""

    def __init__(self, compression: str) -> None:
        self._pack: Pack = _gzip
        if compression == "zstd":
            self._pack = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress

    def beginning(self, name: str, now: float) -> bytes:
        return warcinfo_record(name, rfc3339(datetime.fromtimestamp(now, UTC)), self._pack)

    def encode(self, records: Sequence[Record]) -> bytes:
        return b"".join(rows_of(records, self._records))

    def _records(self, record: Record) -> bytes:
        assert isinstance(record, Capture)
        return capture_records(record, self._pack)


def _gzip(record: bytes) -> bytes:
    return isal_zlib.compress(record, _GZIP_LEVEL, _GZIP_BITS)

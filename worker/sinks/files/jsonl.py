"""Records as lines of JSON: in a file for each process, or in objects of a bucket."""

from collections.abc import Sequence

import zstandard

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import lines_manifest
from manyhands.shared.sinks.places import Place, parse_place
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.files.batches import MIB, NEVER, BatchWriter, SealedAt
from manyhands.worker.sinks.files.file_sink import FileSink
from manyhands.worker.sinks.files.line_files import ZSTD, LineFiles, LineKeeper
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.publishing import Publishing, as_it_is
from manyhands.worker.sinks.files.segments import Spool
from manyhands.worker.sinks.files.stores import store_of
from manyhands.worker.sinks.rows import json_of, rows_of

# Of objects; compressed.
SEALED_AT = SealedAt(size=64 * MIB, age_s=15 * 60)
OBJECT_SUFFIX = ".jsonl.zst"
MANIFEST = "jsonl.manifest"
_KINDS: frozenset[type] = frozenset({PageRecord, PlainRecord})


class JsonlSink(FileSink):
    """For `jsonl:FILE` and `jsonl+s3://bucket/prefix`. Objects, and files named .zst, are
    compressed with zstd."""

    def __init__(self, url: str) -> None:
        place = parse_place(url, {})
        if place.bucket is None:
            self._use_files(place)
        else:
            self._use_objects(place)

    def _use_files(self, place: Place) -> None:
        path = place.path
        if path.is_dir():
            raise ConfigError(f"SINKS: {place.name} must be a file, but is a directory")

        def manifest() -> Manifest:
            return Manifest.open(lines_manifest(path))

        form = JsonlFormat(is_packed=path.suffix == ZSTD)
        super().__init__(
            place.name,
            _KINDS,
            lambda: BatchWriter(LineFiles(manifest(), path), form, NEVER),
            lambda: LineKeeper(manifest(), path.parent),
        )

    def _use_objects(self, place: Place) -> None:
        def spool() -> Spool:
            return Spool(Manifest.open(place.path / MANIFEST), place.path, OBJECT_SUFFIX)

        form = JsonlFormat(is_packed=True)
        super().__init__(
            place.name,
            _KINDS,
            lambda: BatchWriter(spool(), form, SEALED_AT),
            lambda: Publishing(spool(), store_of(place), as_it_is, SEALED_AT.age_s),
        )


class JsonlFormat:
    """A `Format`, for one thread. A batch is one frame of zstd, if it is packed."""

    def __init__(self, *, is_packed: bool) -> None:
        self._packer = zstandard.ZstdCompressor() if is_packed else None

    def beginning(self, name: str, now: float) -> bytes:
        del name, now
        return b""

    def encode(self, records: Sequence[Record]) -> bytes:
        data = b"".join(rows_of(records, _line))
        return data if self._packer is None else self._packer.compress(data)


def _line(record: Record) -> bytes:
    return json_of(record.body if isinstance(record, PlainRecord) else record) + b"\n"

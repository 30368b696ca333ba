"""Segments in a directory, written by several processes that a test plays, as plain text."""

from collections.abc import Sequence
from pathlib import Path

from manyhands.shared.sinks.manifest_tables import Segment
from manyhands.worker.records import PlainRecord, Record
from manyhands.worker.sinks.files.batches import BatchWriter, SealedAt
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.publishing import Convert, Directory, Publishing, Store, as_it_is
from manyhands.worker.sinks.files.segments import Spool
from manyhands.worker.sinks.protocol import RecordsRefused
from tests.support.sink_records import plain

NOW = 1_800_000_000.0
LARGE = SealedAt(size=1000, age_s=900)


class TextFormat:
    """A record is its id and a space; those whose body is "bad" are refused."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def beginning(self, name: str, now: float) -> bytes:
        del name, now
        return b"begin "

    def encode(self, records: Sequence[Record]) -> bytes:
        refused = {
            position: f"{record.id} is bad"
            for position, record in enumerate(records)
            if isinstance(record, PlainRecord) and record.body == "bad"
        }
        if refused:
            raise RecordsRefused(refused)
        self.encoded += [record.id for record in records]
        return "".join(f"{record.id} " for record in records).encode()


class Place:
    """State: what the processes that were started have open."""

    def __init__(self, directory: Path, sealed_at: SealedAt = LARGE, suffix: str = ".txt") -> None:
        self.directory = directory
        self.sealed_at = sealed_at
        self.suffix = suffix
        self.format = TextFormat()
        self.manifest = Manifest.open(directory / "manifest")
        self._writers: list[BatchWriter] = []

    def writer(self) -> BatchWriter:
        """That of a new process."""
        writer = BatchWriter(self.spool(), self.format, self.sealed_at)
        writer.open()
        self._writers.append(writer)
        return writer

    def kill(self, writer: BatchWriter) -> None:
        """Its file and its connection are closed as the system does it."""
        self._writers.remove(writer)
        writer.close()

    def spool(self) -> Spool:
        return Spool(Manifest.open(self.directory / "manifest"), self.directory, self.suffix)

    def publishing(self, store: Store | None = None, convert: Convert = as_it_is) -> Publishing:
        spool = Spool(self.manifest, self.directory, self.suffix)
        return Publishing(spool, store or Directory(self.directory), convert, self.sealed_at.age_s)

    @property
    def segments(self) -> list[Segment]:
        return self.manifest.unfinished()

    @property
    def open_files(self) -> list[str]:
        return sorted(path.read_text() for path in self.directory.glob("*.open"))

    @property
    def published(self) -> list[str]:
        return sorted(path.read_text() for path in self.directory.glob(f"*{self.suffix}"))

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.manifest.close()


def records(*names: str) -> list[Record]:
    return [PlainRecord(name, plain(0).body) for name in names]

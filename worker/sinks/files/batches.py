"""One batch of records → the end of a segment. Blocking; for the thread that writes.

In this order: encode the records that the manifest does not have, write them to disk behind the end
of this process's own segment, and commit their ids and the new end. A process killed before the
commit has written nothing, one killed after it everything. If two processes have the same record at
the same time, the second to commit leaves it out.

Only the commit needs the manifest's lock: encoding and writing the data do not hold up others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.sinks.manifest_tables import SegmentState
from manyhands.worker.records import Record
from manyhands.worker.sinks.files.manifest import Manifest, digest
from manyhands.worker.sinks.files.segments import OwnSegment, settle
from manyhands.worker.sinks.protocol import RecordsRefused

GIB = 1024**3
MIB = 1024**2
# Most files and bytes of one place that are sealed and not published.
MOST_WAITING_BYTES = 4 * GIB
MOST_WAITING_SEGMENTS = 64


class SpoolFull(ManyhandsError):
    """Too much waits to be published: nothing more is taken until some of it is."""


class Format(Protocol):
    """How records become bytes. The same record becomes the same bytes again."""

    def beginning(self, name: str, now: float) -> bytes:
        """Of a segment of that name."""

    def encode(self, records: Sequence[Record]) -> bytes:
        """Raises RecordsRefused."""


class Segments(Protocol):
    """Where a process gets its segment from."""

    manifest: Manifest

    def adopt(self) -> OwnSegment | None:
        """One left from before, if any."""

    def create(self, now: float) -> OwnSegment: ...


@dataclass(slots=True, frozen=True)
class SealedAt:
    """When a segment is complete."""

    size: float
    age_s: float

    def is_reached(self, size: int, age_s: float) -> bool:
        return size >= self.size or age_s >= self.age_s


# For files that stay where they are written.
NEVER = SealedAt(inf, inf)


class BatchWriter:
    """State: the segment of this process, if it has one."""

    def __init__(self, segments: Segments, format: Format, sealed_at: SealedAt) -> None:
        self._segments = segments
        self._manifest = segments.manifest
        self._format = format
        self._sealed_at = sealed_at
        self._own: OwnSegment | None = None

    def open(self) -> None:
        self._own = self._segments.adopt()

    def write(self, records: Sequence[Record], now: float) -> bool:
        """Return when all of them are durable: True if that completed a segment. Raises
        RecordsRefused, SpoolFull, and whatever the disk or the manifest raise."""
        positions = self._unknown(records)
        if not positions:
            return False
        self._check_backlog()
        own = self._ready_segment(now)
        new = [records[position] for position in positions.values()]
        data = self._encoded(own, list(positions.values()), new, now)
        own.file.put(data, own.size)
        # Until the commit has returned.
        own.is_doubtful = True
        with self._manifest.transaction():
            added = self._manifest.add_ids(positions)
            if len(added) != len(positions):
                left = [place for key, place in positions.items() if key in added]
                data = self._encoded(own, left, [records[place] for place in left], now)
                own.file.put(data, own.size)
            size = own.size + len(data)
            is_complete = self._sealed_at.is_reached(size, now - own.created_at)
            state = SegmentState.SEALED if is_complete else SegmentState.OPEN
            self._manifest.grow(own.name, size, len(added), state)
        own.size = size
        own.is_doubtful = False
        if is_complete:
            self._let_go()
        return is_complete

    def seal_if_old(self, now: float) -> bool:
        """True if that completed a segment."""
        own = self._own
        if own is None or not self._sealed_at.is_reached(0, now - own.created_at):
            return False
        self._seal(own)
        return True

    def finish(self) -> None:
        """Nothing more comes into the segment."""
        if self._own is not None and self._sealed_at is not NEVER:
            self._seal(self._own)

    def close(self) -> None:
        """As it is."""
        self._let_go()
        self._manifest.close()

    def _seal(self, own: OwnSegment) -> None:
        with self._manifest.transaction():
            self._manifest.set_state(own.name, SegmentState.SEALED)
        self._let_go()

    def _let_go(self) -> None:
        if self._own is not None:
            self._own.file.close()
            self._own = None

    def _unknown(self, records: Sequence[Record]) -> dict[bytes, int]:
        """The first position of each that the manifest does not have."""
        positions: dict[bytes, int] = {}
        for position, record in enumerate(records):
            positions.setdefault(digest(record.id), position)
        for key in self._manifest.known(positions):
            del positions[key]
        return positions

    def _check_backlog(self) -> None:
        count, size = self._manifest.backlog()
        if count >= MOST_WAITING_SEGMENTS or size >= MOST_WAITING_BYTES:
            raise SpoolFull(
                f"{count} files with {size / MIB:,.0f} MiB wait to be published: "
                "nothing more is taken until some of them are"
            )

    def _ready_segment(self, now: float) -> OwnSegment:
        if self._own is None:
            self._own = self._segments.create(now)
        elif self._own.is_doubtful:
            settle(self._manifest, self._own)
        return self._own

    def _encoded(
        self, own: OwnSegment, positions: Sequence[int], records: Sequence[Record], now: float
    ) -> bytes:
        """`positions` are those of the records in their batch."""
        if not records:
            return b""
        try:
            data = self._format.encode(records)
        except RecordsRefused as refused:
            raise RecordsRefused(
                {positions[place]: reason for place, reason in refused.reasons.items()}
            ) from None
        return data if own.size else self._format.beginning(own.name, now) + data

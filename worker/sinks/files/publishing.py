"""Complete segments → the files and objects that readers see. Blocking; for a separate thread.

The process that has a segment's lock publishes it. Each step can be repeated: what a killed process
left half done, the next one does from the beginning, under the same names.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from manyhands.shared.sinks.manifest_tables import Segment, SegmentState
from manyhands.worker.sinks.files.segment_file import SegmentFile, make_directory, sync_directory
from manyhands.worker.sinks.files.segments import Spool

# From a segment's file and its name to the files that are published, with their names. Each may
# be moved or removed before the next one is asked for.
Convert = Callable[[Path, str], Iterator[tuple[Path, str]]]


class Store(Protocol):
    """Where published files go."""

    def put(self, path: Path, name: str) -> None:
        """Whole or not at all, replacing a file of that name. `path` may be gone afterwards."""

    def has_taken(self, name: str) -> bool:
        """Whether a file that is gone from the spool is there by that name."""


class Directory:
    """A `Store`: files are renamed into place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, path: Path, name: str) -> None:
        target = self._path / name
        make_directory(target.parent)
        path.replace(target)
        sync_directory(target.parent)

    def has_taken(self, name: str) -> bool:
        return (self._path / name).exists()


def as_it_is(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """A `Convert`."""
    yield path, name


class Publishing:
    """State: the segment that could not be published last; others go before it."""

    def __init__(self, spool: Spool, store: Store, convert: Convert, oldest_s: float) -> None:
        self._spool = spool
        self._manifest = spool.manifest
        self._store = store
        self._convert = convert
        self._oldest_s = oldest_s
        self._failed = ""

    def sweep(self, now: float, *, is_last: bool = False) -> None:
        """Publish all complete segments, and those that a killed process left open for too long;
        with `is_last` all that no process has. Raises the first error."""
        for segment in self._in_turn():
            is_due = is_last or now - segment.created_at >= self._oldest_s
            is_foreign = not segment.name.endswith(self._spool.suffix)
            if segment.state is SegmentState.OPEN and not is_due and not is_foreign:
                continue
            self._failed = segment.name
            self._publish(segment)
        self._failed = ""

    def close(self) -> None:
        self._manifest.close()

    def _in_turn(self) -> list[Segment]:
        """Those behind the one that failed last, then the others: one that can never be published
        must not hold up the rest."""
        unfinished = self._manifest.unfinished()
        names = [segment.name for segment in unfinished]
        first = names.index(self._failed) + 1 if self._failed in names else 0
        return unfinished[first:] + unfinished[:first]

    def _publish(self, segment: Segment) -> None:
        try:
            file = SegmentFile.take(self._spool.path(segment.name))
        except FileNotFoundError:
            self._settle_missing(segment.name)
            return
        if file is not None:
            with file:
                self._publish_locked(file, segment.name)

    def _publish_locked(self, file: SegmentFile, name: str) -> None:
        self._manifest.claim(name)
        # Another process may have been here since it was listed.
        segment = self._manifest.segment(name)
        if segment is None or segment.state > SegmentState.SEALED:
            return
        if file.length < segment.size:
            self._spool.lose(segment)
            return
        if not segment.records:
            # In this order: a process that finds the file gone must not find it in the manifest.
            self._manifest.forget(name)
            file.path.unlink()
            return
        self._manifest.set_state(name, SegmentState.SEALED)
        if file.length > segment.size:
            file.cut(segment.size)
        for path, published_name in self._convert(file.path, name):
            self._store.put(path, published_name)
        self._manifest.set_state(name, SegmentState.PUBLISHED)
        file.path.unlink(missing_ok=True)

    def _settle_missing(self, name: str) -> None:
        segment = self._manifest.segment(name)
        if segment is None or segment.state > SegmentState.SEALED:
            return
        if self._store.has_taken(name):
            self._manifest.set_state(name, SegmentState.PUBLISHED)
        else:
            self._spool.lose(segment)

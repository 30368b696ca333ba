"""The segments of a place that are published once complete: who has which, and what a crash left.
Blocking.

A segment is a file `NAME.open` in the spool, locked by the process that writes it. If that process
dies, the next one that needs a segment takes it over, or it is sealed after a while.
"""

import secrets
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from manyhands.shared.logs import get_logger
from manyhands.shared.sinks.manifest_tables import Segment, SegmentState
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.segment_file import SegmentFile

OPEN = ".open"


@dataclass(slots=True)
class OwnSegment:
    """One that this process writes. `size` is its committed size; `is_doubtful` after a commit that
    may or may not have taken effect."""

    name: str
    file: SegmentFile
    size: int
    created_at: float
    is_doubtful: bool = False


_Taken = TypeVar("_Taken", OwnSegment, OwnSegment | None)


def settle(manifest: Manifest, own: OwnSegment) -> None:
    """Find out its committed size, after a commit that may or may not have taken effect."""
    manifest.claim(own.name)
    own.size = cut_to_what_counts(manifest, own.name, own.file)
    own.is_doubtful = False


def cut_to_what_counts(manifest: Manifest, name: str, file: SegmentFile) -> int:
    """Its committed size. Only after a claim."""
    segment = manifest.segment(name)
    assert segment is not None, "a segment that we have locked is gone from the manifest"
    if file.length > segment.size:
        file.cut(segment.size)
    return segment.size


def taken_over(manifest: Manifest, take: Callable[[], _Taken]) -> _Taken:
    """The segment that `take` gets in a transaction, cut to its committed size; released if either
    fails."""
    with ExitStack() as if_it_fails:
        with manifest.transaction():
            own = take()
            if own is not None:
                if_it_fails.callback(own.file.close)
        if own is not None:
            own.file.cut(own.size)
        if_it_fails.pop_all()
    return own


class Spool:
    """Where the segments of one place are. State: only that of the manifest and the files. `suffix`
    is that of the published files: segments with another one are not taken over."""

    def __init__(self, manifest: Manifest, directory: Path, suffix: str) -> None:
        self.manifest = manifest
        self.suffix = suffix
        self._directory = directory
        self._log = get_logger("sink")

    def path(self, name: str) -> Path:
        return self._directory / (name + OPEN)

    def adopt(self) -> OwnSegment | None:
        """A segment that no process has, cut to its committed size; None if there is none."""
        return taken_over(self.manifest, self._tidy_and_take)

    def create(self, now: float) -> OwnSegment:
        moment = datetime.fromtimestamp(now, UTC)
        name = f"manyhands-{moment:%Y%m%dT%H%M%SZ}-{secrets.token_hex(5)}{self.suffix}"
        file: SegmentFile | None = None
        try:
            with self.manifest.transaction():
                file = SegmentFile.make(self.path(name))
                self.manifest.create(name, now)
        except BaseException:
            if file is not None:
                file.close()
            raise
        return OwnSegment(name, file, 0, now)

    def lose(self, segment: Segment) -> None:
        """Its file is not there, or too short."""
        if not segment.records:
            self.manifest.forget(segment.name)
            return
        self.manifest.set_state(segment.name, SegmentState.LOST)
        self._log.error(
            "an incomplete file was removed or cut from outside",
            path=str(self.path(segment.name)),
            records=segment.records,
        )

    def _tidy_and_take(self) -> OwnSegment | None:
        self._tidy()
        return self._first_without_owner()

    def _first_without_owner(self) -> OwnSegment | None:
        for segment in self.manifest.unfinished():
            if segment.state is not SegmentState.OPEN or not segment.name.endswith(self.suffix):
                continue
            try:
                file = SegmentFile.take(self.path(segment.name))
            except FileNotFoundError:
                self.lose(segment)
                continue
            if file is None:
                continue
            if file.length < segment.size:
                file.close()
                self.lose(segment)
                continue
            self.manifest.claim(segment.name)
            return OwnSegment(segment.name, file, segment.size, segment.created_at)
        return None

    def _tidy(self) -> None:
        """Remove files that never got into the manifest, and published ones that were not
        removed."""
        for path in self._directory.glob(f"manyhands-*{OPEN}"):
            # Others publish meanwhile.
            with suppress(FileNotFoundError):
                if self._is_left_over(path) and (file := SegmentFile.take(path)) is not None:
                    with file:
                        path.unlink()

    def _is_left_over(self, path: Path) -> bool:
        segment = self.manifest.segment(path.name.removesuffix(OPEN))
        if segment is None:
            # A file with content belongs to a manifest that was removed.
            return path.stat().st_size == 0
        return segment.state is SegmentState.PUBLISHED

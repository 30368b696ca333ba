"""Files of lines that readers see while they grow: one for each process. Blocking.

The first process has the file that was named, `pages.ndjson`, the others `pages-2.ndjson` and so
on: each takes the first that no other has locked. They are never complete; only what a killed
process wrote without a commit is cut off.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from manyhands.shared.closing import closed_on_error
from manyhands.shared.errors import ConfigError
from manyhands.shared.logs import get_logger
from manyhands.shared.sinks.manifest_tables import Segment, lines_manifest
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.segment_file import SegmentFile
from manyhands.worker.sinks.files.segments import OwnSegment, cut_to_what_counts, taken_over

MOST_FILES = 1000
ZSTD = ".zst"
_SEARCHED_AT_ONCE = 64 * 1024


class LineFiles:
    """`Segments`. State: none but that of the manifest and the files."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        self.manifest = manifest
        self._path = path
        self._log = get_logger("sink")

    def adopt(self) -> OwnSegment:
        return self.create(time.time())

    def create(self, now: float) -> OwnSegment:
        return taken_over(self.manifest, lambda: self._first_without_owner(now))

    def _first_without_owner(self, now: float) -> OwnSegment:
        for path in _names(self._path):
            file = SegmentFile.make_or_take(path)
            if file is None:
                continue
            with closed_on_error(file):
                return self._entered(file, now)
        raise ConfigError(f"SINKS: {MOST_FILES} processes write beside {self._path} already")

    def _entered(self, file: SegmentFile, now: float) -> OwnSegment:
        name = file.path.name
        segment = self.manifest.segment(name)
        if segment is not None and file.length >= segment.size:
            self.manifest.claim(name)
            return OwnSegment(name, file, segment.size, segment.created_at)
        size = self._end_of_what_is_whole(file)
        if segment is None:
            self.manifest.create(name, now, size)
            return OwnSegment(name, file, size, now)
        self._log.warning(
            "a file was removed or cut from outside: what was in it is not written again",
            path=str(file.path),
        )
        self.manifest.resize(name, size)
        return OwnSegment(name, file, size, segment.created_at)

    def _end_of_what_is_whole(self, file: SegmentFile) -> int:
        """Of a file that the manifest does not know, or knows differently."""
        if file.path.suffix != ZSTD:
            return _end_of_last_line(file)
        if file.length:
            raise ConfigError(
                f"SINKS: {file.path} is not as its manifest says: move it elsewhere, "
                f"or {lines_manifest(self._path)} back"
            )
        return 0


class LineKeeper:
    """A `Keeper`: cuts off what a killed process wrote without a commit, if no other has its file.
    Its jobs run again, and their lines would be there twice."""

    def __init__(self, manifest: Manifest, directory: Path) -> None:
        self._manifest = manifest
        self._directory = directory

    def sweep(self, now: float, *, is_last: bool = False) -> None:
        del now, is_last
        for segment in self._manifest.unfinished():
            with suppress(FileNotFoundError):
                if (self._directory / segment.name).stat().st_size > segment.size:
                    self._cut(segment)

    def close(self) -> None:
        self._manifest.close()

    def _cut(self, segment: Segment) -> None:
        with ExitStack() as stack:
            # In a transaction: a process that looks for a file hardly ever finds this one locked.
            with self._manifest.transaction():
                file = SegmentFile.take(self._directory / segment.name)
                if file is None:
                    return
                stack.enter_context(file)
                self._manifest.claim(segment.name)
            cut_to_what_counts(self._manifest, segment.name, file)


def _names(path: Path) -> Iterator[Path]:
    yield path
    packing = ZSTD if path.suffix == ZSTD else ""
    plain = path.with_name(path.name.removesuffix(packing))
    for number in range(2, MOST_FILES + 1):
        yield plain.with_name(f"{plain.stem}-{number}{plain.suffix}{packing}")


def _end_of_last_line(file: SegmentFile) -> int:
    end = file.length
    while end:
        start = max(0, end - _SEARCHED_AT_ONCE)
        found = file.read(end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0

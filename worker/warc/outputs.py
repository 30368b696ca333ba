"""Where an export is written: a file or an object that appears as a whole, or not at all.

Blocking; for a thread. Errors of a place are FetchErrors, as for sources.
"""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from manyhands.shared.settings import WarcSettings
from manyhands.shared.warc_places import FileAt, ObjectAt
from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.sinks.files.segment_file import sync_directory
from manyhands.worker.warc.sources import check_allowed, path_of, s3_library, translated


class Output(Protocol):
    """A file for the Parquet writer."""

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> int: ...

    def flush(self) -> None: ...

    def close(self) -> None:
        """Called by the writer, whose end is not yet ours."""

    def commit(self) -> None:
        """Make it appear, replacing whatever has its name."""

    def abandon(self) -> None:
        """It will not appear."""


def open_output(place: FileAt | ObjectAt, name: str, settings: WarcSettings) -> Output:
    """Raises a FetchError."""
    if isinstance(place, ObjectAt):
        check_allowed(place, settings.s3_destinations, "WARC_S3_DESTINATIONS")
        key = f"{place.key}/{name}" if place.key else name
        return cast("Output", s3_library().ObjectOutput(ObjectAt(place.bucket, key)))
    return LocalOutput(path_of(settings.files, place), name)


class LocalOutput:
    """An `Output`. State: the file, under another name until it is complete."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._part = directory / f".{name}.part"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = _locked(self._part)
        except OSError as error:
            raise translated(self._path, error) from error

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise translated(self._path, error) from error

    def flush(self) -> None:
        """With the commit."""

    def close(self) -> None:
        """With the commit."""

    def commit(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._part.replace(self._path)
            self._file.close()
            sync_directory(self._path.parent)
        except OSError as error:
            raise translated(self._path, error) from error

    def abandon(self) -> None:
        # Before the lock is released: afterwards it may be another job's.
        self._part.unlink(missing_ok=True)
        self._file.close()


def _locked(path: Path) -> BinaryIO:
    """Empty, and ours alone: a job may come again while its first run goes on."""
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, file):
                file.truncate(0)
                return file
        except BlockingIOError:
            file.close()
            raise TemporaryFetchError(f"{path.name} is being written by another job") from None
        except BaseException:
            file.close()
            raise
        # The other job is done, and the file has its final name now.
        file.close()


def _is_still(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False

"""From the name of a source to its bytes: a local file, a URL, an object of S3."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import cast

from manyhands.shared.contained import Outside, path_below
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.extras import import_extra
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import Settings
from manyhands.shared.warc_places import FileAt, InvalidPlace, ObjectAt, Place, UrlAt, parse_source
from manyhands.worker.net.fetcher import PermanentFetchError, TemporaryFetchError
from manyhands.worker.warc.http_source import HttpFiles
from manyhands.worker.warc.streams import Aborted, ByteStream

READ_BYTES = 64 * 1024
# Imported only when a job uses S3: nothing else needs the library.
_S3 = "manyhands.worker.warc.s3_objects"
_FOR_GOOD = frozenset(
    {
        *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP),
        *(errno.ENAMETOOLONG, errno.EINVAL, errno.ENXIO, errno.EEXIST),
    }
)


class Sources:
    """State: what HTTP needs. One for a process."""

    def __init__(self, settings: Settings) -> None:
        self._files = settings.warc.files
        self._objects = settings.warc.s3_sources
        self._http = HttpFiles(settings.fetch, AddressRule(settings.allow.nets))

    def open(self, source: str) -> tuple[str, ByteStream]:
        """Its name without secrets, and its bytes. Called in the event loop's thread; nothing is
        read yet. Raises PermanentFetchError."""
        try:
            place = parse_source(source)
        except (InvalidPlace, InvalidUrl) as error:
            raise PermanentFetchError(f"not a source: {error}") from None
        return str(place), self._stream(place)

    async def close(self) -> None:
        await self._http.close()

    def _stream(self, place: Place) -> ByteStream:
        if isinstance(place, UrlAt):
            return self._http.stream(place)
        if isinstance(place, ObjectAt):
            check_allowed(place, self._objects, "WARC_S3_SOURCES")
            return cast("ByteStream", s3_library().ObjectStream(place))
        return LocalStream(path_of(self._files, place))


class LocalStream:
    """A `ByteStream`. State: the open file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Opening a pipe would block.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise translated(path, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PermanentFetchError(f"{path} is not a file")
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._is_aborted = False

    def read(self) -> bytes:
        if self._is_aborted:
            raise Aborted
        try:
            return self._file.read(READ_BYTES)
        except OSError as error:
            raise translated(self._path, error) from error

    def seek(self, offset: int) -> None:
        self._file.seek(offset)

    def close(self) -> None:
        self._file.close()

    def abort(self) -> None:
        self._is_aborted = True


def check_allowed(place: ObjectAt, allowed: Sequence[ObjectAt], setting: str) -> None:
    """The worker may have rights on S3 that the producer of a job lacks. Raises
    PermanentFetchError."""
    if not any(place.is_below(prefix) for prefix in allowed):
        raise PermanentFetchError(f"{place} is not below what {setting} allows")


def path_of(directory: Path | None, place: FileAt) -> Path:
    """The real path of what a job names, which must lie below WARC_FILES despite links and dots; it
    need not exist. Raises PermanentFetchError."""
    if directory is None:
        raise PermanentFetchError("no local files are read or written: WARC_FILES is not set")
    try:
        return path_below(directory, place.path)
    except Outside:
        raise PermanentFetchError(f"{place.path!r} is not below WARC_FILES") from None


def s3_library() -> ModuleType:
    """Raises ConfigError."""
    return import_extra(_S3, "s3://", "s3")


def translated(path: Path, error: OSError) -> PermanentFetchError | TemporaryFetchError:
    reason = f"{path}: {error.strerror or error}"
    return PermanentFetchError(reason) if error.errno in _FOR_GOOD else TemporaryFetchError(reason)

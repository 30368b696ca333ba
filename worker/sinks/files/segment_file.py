"""A file that one process at a time writes, and the directories of such files. Blocking.

The lock goes with the process: the files of one that was killed can be taken over at once.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Self


class SegmentFile:
    """An open file that this process has locked. State: the descriptor alone; the caller knows
    where the committed part ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def make(cls, path: Path) -> Self:
        """A new file that survives a power cut. Raises FileExistsError."""
        made = cls._locked(path, os.O_CREAT | os.O_EXCL)
        if made is None:
            raise FileExistsError(f"{path} was made just now by another process")
        sync_directory(path.parent)
        return made

    @classmethod
    def make_or_take(cls, path: Path) -> Self | None:
        """None when another process has it."""
        taken = cls._locked(path, os.O_CREAT)
        if taken is not None:
            sync_directory(path.parent)
        return taken

    @classmethod
    def take(cls, path: Path) -> Self | None:
        """None when another process has it, or has just moved it. Raises FileNotFoundError."""
        return cls._locked(path, 0)

    @classmethod
    def _locked(cls, path: Path, flags: int) -> Self | None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return cls(path, descriptor)
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    @property
    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def put(self, data: bytes, offset: int) -> None:
        """Write at `offset`, where the file then ends; on disk on return. A failed write leaves
        nothing."""
        rest = memoryview(data)
        end = offset
        try:
            while rest:
                written = os.pwrite(self._descriptor, rest, end)
                end += written
                rest = rest[written:]
            if self.length > end:
                os.ftruncate(self._descriptor, end)
            os.fdatasync(self._descriptor)
        except OSError:
            # What cannot be cut off now still does not count.
            with suppress(OSError):
                self.cut(offset)
            raise

    def cut(self, size: int) -> None:
        """To its committed size."""
        os.ftruncate(self._descriptor, size)
        os.fdatasync(self._descriptor)

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync_directory(directory: Path) -> None:
    """A new or renamed file survives a power cut only when its directory is written, too."""
    sync_file(directory)


def sync_file(path: Path) -> None:
    """A file that was written and closed elsewhere."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """With its parents, so that it survives a power cut."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync_directory(one.parent)

"""Records as lines of one file, on disk before their jobs are acknowledged.

A process has a file of its own: the first of `pages.ndjson`, `pages-2.ndjson`, … that no other
process has locked. One thread writes; what arrives while it waits for the disk goes out together
with the next fsync. A line is whole or not there: what a crash cut off is removed at the next
start, and what a full disk cut off at once.

A record whose `id` is among the last ones of the file is not written again.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from shared.errors import ConfigError
from shared.logs import get_logger

MOST_FILES = 1000
# Ids that are remembered; some 20 MB.
IDS_REMEMBERED = 100_000
# Of an existing file, this much of its end is read for them.
TAIL_BYTES = 8 * 1024 * 1024
SEARCHED_AT_ONCE = 64 * 1024


class LineFile:
    """An open, locked file that ends with a whole line. Blocking. State: the descriptor, how long
    the file is, and whether more than that may be in it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._may_be_longer = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises ConfigError when there is no such place, or nothing may be written there."""
        try:
            for candidate in _names(path):
                descriptor = os.open(candidate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                if _is_locked(descriptor):
                    opened = cls(candidate, descriptor)
                    opened._recover()
                    _sync_directory(candidate.parent)
                    return opened
                os.close(descriptor)
        except OSError as error:
            raise ConfigError(f"SINK_NDJSON: cannot write {path}: {error.strerror}") from error
        raise ConfigError(f"SINK_NDJSON: {MOST_FILES} processes write beside {path} already")

    def append(self, lines: bytes) -> None:
        """Return when they are on disk; leave nothing of them when that fails."""
        if self._may_be_longer:
            self._cut()
        self._may_be_longer = True
        written = 0
        try:
            while written < len(lines):
                written += os.pwrite(self._descriptor, lines[written:], self._size + written)
            os.fdatasync(self._descriptor)
        except OSError:
            self._cut()
            raise
        self._size += written
        self._may_be_longer = False

    def tail(self, most_bytes: int) -> list[bytes]:
        """The last whole lines."""
        start = max(0, self._size - most_bytes)
        lines = os.pread(self._descriptor, self._size - start, start).splitlines()
        return lines[1:] if start else lines

    def close(self) -> None:
        os.close(self._descriptor)

    def _recover(self) -> None:
        whole = self._end_of_last_line()
        if whole < self._size:
            get_logger("sink").warning(
                "removing a line that a crash cut off",
                path=str(self.path),
                bytes=self._size - whole,
            )
            self._size = whole
            self._cut()

    def _end_of_last_line(self) -> int:
        end = self._size
        while end:
            start = max(0, end - SEARCHED_AT_ONCE)
            found = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0

    def _cut(self) -> None:
        os.ftruncate(self._descriptor, self._size)
        os.fdatasync(self._descriptor)
        self._may_be_longer = False


@dataclass(slots=True)
class Waiting:
    """Lines on their way to the disk, and who waits for them."""

    lines: bytes
    ids: list[str | None]
    written: asyncio.Future[None]


class NdjsonSink:
    """A `Sink`. State: the file and its thread, the lines that wait for it, and the ids that were
    written last."""

    def __init__(self, file: LineFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sink")
        self._waiting: list[Waiting] = []
        self._writer: asyncio.Task[None] | None = None
        # A dict for its order: the oldest go first.
        self._ids: dict[str, None] = {}
        self._remember(map(_id_of_line, file.tail(TAIL_BYTES)))

    @classmethod
    def open(cls, path: Path) -> Self:
        return cls(LineFile.open(path))

    @property
    def path(self) -> Path:
        return self._file.path

    async def write(self, records: Sequence[Any]) -> None:
        """Return when the records are durable. Raises OSError when they are not."""
        new = [record for record in records if _id_of(record) not in self._ids]
        if not new:
            return
        lines = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in new)
        written = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(lines, [_id_of(record) for record in new], written))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_waiting(), name="ndjson sink")
        await written

    async def close(self) -> None:
        """What was given is written first."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown()
        self._file.close()

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            lines = b"".join(one.lines for one in batch)
            error: Exception | None = None
            try:
                await loop.run_in_executor(self._thread, self._file.append, lines)
            except Exception as raised:
                # Whatever it is, each of their jobs fails by it, and none waits for ever.
                error = raised
            for one in batch:
                self._tell(one, error)
        self._writer = None

    def _tell(self, one: Waiting, error: Exception | None) -> None:
        if error is None:
            self._remember(one.ids)
        # One whose job was cancelled meanwhile waits no more.
        if one.written.done():
            return
        if error is None:
            one.written.set_result(None)
        else:
            one.written.set_exception(error)

    def _remember(self, ids: Iterable[str | None]) -> None:
        self._ids.update((one, None) for one in ids if one is not None)
        while len(self._ids) > IDS_REMEMBERED:
            del self._ids[next(iter(self._ids))]


def _id_of(record: Any) -> str | None:
    found = record.get("id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else None


def _id_of_line(line: bytes) -> str | None:
    try:
        return _id_of(orjson.loads(line))
    except orjson.JSONDecodeError:
        return None


def _names(path: Path) -> Iterable[Path]:
    yield path
    for number in range(2, MOST_FILES + 1):
        yield path.with_stem(f"{path.stem}-{number}")


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_directory(directory: Path) -> None:
    """A new file is there after a power cut only when its directory is written too."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

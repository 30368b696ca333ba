"""The jobs without retries that a child has in hand, kept where its supervisor can read them after
the child's death: a real Faktory discards such a job when its reservation ends.

Two files in memory, shared by both. Records are appended to one; when most of them are about jobs
that are over, the rest are written to the other, and the number at its head, written last, makes it
the valid one. So a child may die at any moment. A record costs one system call.
"""

import os
import struct
import tempfile
from dataclasses import dataclass
from multiprocessing.reduction import DupFd
from typing import Any

HEAD = struct.Struct("<Q")
RECORD = struct.Struct("<cQI")
WAITING, STARTED, OVER = b"w", b"s", b"o"
# Below this size, compaction is not worth it.
LEAST_BYTES = 1024 * 1024


@dataclass(slots=True, frozen=True)
class HeldJob:
    """A job as the server sent it, and whether its handler had been called."""

    payload: bytes
    was_started: bool


class HeldJobs:
    """State: the two files and which of them is written to; in the child the jobs by number, and
    how far the file is filled."""

    def __init__(self) -> None:
        self._files = [_memory_file(), _memory_file()]
        self._begin()

    def _begin(self) -> None:
        self._current = 0
        self._generation = 0
        self._end = HEAD.size
        self._last_number = 0
        self._jobs: dict[int, tuple[bytes, bytes]] = {}
        self._jobs_bytes = 0

    # It travels to a process that is being started, with its files.

    def __getstate__(self) -> list[Any]:
        return [DupFd(file) for file in self._files]

    def __setstate__(self, files: list[Any]) -> None:
        self._files = [file.detach() for file in files]
        self._begin()

    # The child

    def add(self, payload: bytes, *, is_started: bool) -> int:
        """Returns the number by which it is removed again."""
        self._last_number += 1
        kind = STARTED if is_started else WAITING
        self._jobs[self._last_number] = kind, payload
        self._jobs_bytes += len(payload)
        self._write(kind, self._last_number, payload)
        return self._last_number

    def start(self, number: int) -> None:
        """A waiting job is given to its handler now."""
        _, payload = self._jobs[number]
        self._jobs[number] = STARTED, payload
        self._write(STARTED, number, b"")

    def remove(self, number: int) -> None:
        _, payload = self._jobs.pop(number)
        self._jobs_bytes -= len(payload)
        self._write(OVER, number, b"")
        if self._end > LEAST_BYTES + 2 * self._jobs_bytes:
            self._move()

    def _write(self, kind: bytes, number: int, payload: bytes) -> None:
        record = RECORD.pack(kind, number, len(payload)) + payload
        if os.pwrite(self._files[self._current], record, self._end) == len(record):
            self._end += len(record)

    def _move(self) -> None:
        """Copy the remaining jobs to the other file."""
        before = self._files[self._current]
        self._current = 1 - self._current
        self._generation += 1
        self._end = HEAD.size
        for number, (kind, payload) in self._jobs.items():
            self._write(kind, number, payload)
        os.pwrite(self._files[self._current], HEAD.pack(self._generation), 0)
        os.ftruncate(before, 0)

    # The supervisor

    def read(self) -> list[HeldJob]:
        """What the child had in hand when it ended, in the order in which it came."""
        return _held_in(max((_whole(file) for file in self._files), key=_generation))

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _held_in(data: bytes) -> list[HeldJob]:
    held: dict[int, HeldJob] = {}
    at = HEAD.size
    while at + RECORD.size <= len(data):
        kind, number, size = RECORD.unpack_from(data, at)
        payload = data[at + RECORD.size : at + RECORD.size + size]
        at += RECORD.size + size
        if len(payload) < size:
            break  # it died while it wrote this
        if kind == OVER:
            held.pop(number, None)
        else:
            known = held.get(number)
            held[number] = HeldJob(payload if known is None else known.payload, kind == STARTED)
    return list(held.values())


def _whole(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _generation(data: bytes) -> int:
    (number,) = HEAD.unpack(data[: HEAD.size].ljust(HEAD.size, b"\0"))
    return int(number)


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("held-jobs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())

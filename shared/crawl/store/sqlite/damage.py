"""Shards whose files are damaged: a note beside each file, which all processes can see.

A shard with a note has no owner, so its URLs wait and nothing else does. The note describes the
file as it was: once the file is replaced, the shard is checked and taken over again.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

SUFFIX = ".damaged"
WHAT_TO_DO = (
    "put a good copy in its place, and remove the files beside it that end with -wal and -shm: its"
    " crawls go on by themselves then; without a copy, move the file away, and the shard begins"
    " anew without its URLs"
)


class _Note(msgspec.Struct):
    reason: str
    identity: tuple[int, int, int]


def write_note(file: Path, reason: str) -> None:
    """Best effort: the disk may be full, and the next owner finds the damage again."""
    with contextlib.suppress(OSError):
        _note_of(file).write_bytes(msgspec.json.encode(_Note(reason, _identity(file))))


def remove_note(file: Path) -> None:
    _note_of(file).unlink(missing_ok=True)


def has_note(file: Path) -> bool:
    """About this file, or the one that was in its place."""
    return _note_of(file).exists()


def is_damaged(file: Path) -> bool:
    """It has not changed since its damage was found."""
    note = _read(_note_of(file))
    return note is not None and note.identity == _identity(file)


def damaged_shards(directory: Path) -> list[str]:
    """Sentences about all that are, below the directory of the state."""
    return [
        f"{note_file.with_suffix('').relative_to(directory)}: {note.reason}; {WHAT_TO_DO}"
        for note_file, note in _notes(directory)
    ]


def _notes(directory: Path) -> Iterator[tuple[Path, _Note]]:
    for note_file in sorted(directory.glob(f"gen-*/shard-*.db{SUFFIX}")):
        if (note := _read(note_file)) is not None:
            yield note_file, note


def _note_of(file: Path) -> Path:
    return file.with_name(file.name + SUFFIX)


def _read(note_file: Path) -> _Note | None:
    try:
        return msgspec.json.decode(note_file.read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError):
        return None


def _identity(file: Path) -> tuple[int, int, int]:
    """Zeros when there is none."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns

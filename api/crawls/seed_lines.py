"""The lines of a seed file, a part at a time: as much as a transaction can take, however long the
file is. Blocks; to be used in a thread."""

import os
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from manyhands.api.crawls.seeds import Seed, read_seed
from manyhands.shared.crawl.store.model import SeedFile
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.public_addresses import AddressRule

LINES_AT_ONCE = 10_000
BYTES_AT_ONCE = 4 * 1024 * 1024
# No URL is as long as that.
MAX_LINE_BYTES = 64 * 1024
DIGEST_BYTES = 16


class FileHasChanged(ValueError):
    """It does not begin with what was read of it before."""


class Part(NamedTuple):
    """`lines` counts all, also empty ones and comments; `size` and `digest` are those of the file
    up to here. The first line that was refused is named by its number: who names a file may not be
    allowed to read it."""

    seeds: list[Seed]
    lines: int
    refused: int
    size: int
    digest: bytes
    is_end: bool
    first_refusal: str

    def added_to(self, read: SeedFile, until: float) -> SeedFile:
        return read._replace(
            lines=read.lines + self.lines,
            refused=read.refused + self.refused,
            size=self.size,
            digest=self.digest,
            is_read=self.is_end,
            until=until,
        )


class SeedLines:
    """State: the file, how far it was read, and the digest of that."""

    def __init__(self, path: Path, read: SeedFile, rule: AddressRule) -> None:
        """Goes on after what was read. Raises OSError, FileHasChanged."""
        self._rule = rule
        self._file = path.open("rb")
        try:
            self._stat = os.fstat(self._file.fileno())
            self._path = path
            self._lines = read.lines
            self._size = 0
            self._digest = blake2b(digest_size=DIGEST_BYTES)
            self._pass_over(read)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def has_changed(self) -> bool:
        """Since it was opened."""
        try:
            now = self._path.stat()
        except OSError:
            return True
        return _signature(now) != _signature(self._stat)

    def next_part(self) -> Part:
        """Raises OSError."""
        seeds: list[Seed] = []
        first, until = self._lines, self._size + BYTES_AT_ONCE
        refused, first_refusal = 0, ""
        is_end = False
        while self._lines - first < LINES_AT_ONCE and self._size < until:
            line = self._next_line()
            if not line:
                is_end = True
                break
            self._lines += 1
            try:
                if seed := _seed_of(line, self._rule):
                    seeds.append(seed)
            except InvalidUrl:
                refused += 1
                first_refusal = first_refusal or f"line {self._lines:,} is no URL to be fetched"
        return Part(
            *(seeds, self._lines - first, refused, self._size, self._digest.digest()),
            *(is_end, first_refusal),
        )

    def _next_line(self) -> bytes:
        """Empty at the end; only the beginning of one that is too long."""
        line = rest = self._taken(MAX_LINE_BYTES)
        while len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = self._taken(MAX_LINE_BYTES)
        return line

    def _taken(self, limit: int) -> bytes:
        line = self._file.readline(limit)
        self._size += len(line)
        self._digest.update(line)
        return line

    def _pass_over(self, read: SeedFile) -> None:
        while left := read.size - self._size:
            some = self._file.read(min(left, BYTES_AT_ONCE))
            if not some:
                break
            self._size += len(some)
            self._digest.update(some)
        if read.size and self._digest.digest() != read.digest:
            raise FileHasChanged(
                f"{read.lines:,} lines were read, and it does not begin with them any more"
            )


def _signature(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _seed_of(line: bytes, rule: AddressRule) -> Seed | None:
    """None: there is none in this line. Raises InvalidUrl."""
    text = line.decode(errors="replace").strip()
    return read_seed(text, rule) if text and not text.startswith("#") else None

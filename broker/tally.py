"""How much was committed, kept beside the database in a small file.

SQLite reads its log up to the first frame that is not whole, and says nothing of what came after:
that is right after a kill, where nobody was told of it, and wrong when the log was cut or removed.
So each commit is counted in the database and, before anybody is told of it, in this file. The file
is not synced: after a loss of power it may be behind the database, which means nothing.
"""

import os
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

TALLY_FILE = "tally"
# In the table of counters, where they outlive a FLUSH.
TALLY_NAMES = ("commits", "stored", "settled")
_LINE = b"commits %019d stored %019d settled %019d"


class Tally(NamedTuple):
    """Since the database was made: transactions, jobs that were pushed, jobs that were done."""

    commits: int = 0
    stored: int = 0
    settled: int = 0

    def __add__(self, other: tuple[int, ...]) -> "Tally":  # type: ignore[override]
        return Tally(*(mine + more for mine, more in zip(self, other, strict=True)))


class TallyFile:
    """State: the open file. It always has the same length, so a full disk does not matter."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / TALLY_FILE, os.O_RDWR | os.O_CREAT, 0o600)

    def write(self, tally: Tally) -> None:
        line = _LINE % tally
        os.pwrite(self._file, b"%b %08x\n" % (line, crc32(line)), 0)

    def close(self) -> None:
        os.close(self._file)


def read_tally(directory: Path) -> Tally | None:
    """None: there is none, or it cannot be made out."""
    try:
        line, _, checksum = (directory / TALLY_FILE).read_bytes().rstrip().rpartition(b" ")
        if int(checksum, 16) != crc32(line):
            return None
        return Tally(*map(int, line.split()[1::2]))
    except (OSError, ValueError, TypeError):
        return None


def what_is_lost(answered: Tally | None, found: Tally) -> str | None:
    """A sentence when the database does not have all that was answered."""
    if answered is None or answered.commits <= found.commits:
        return None
    return (
        f"it ends at commit {found.commits}, but {answered.commits} were answered: its log was cut"
        f" or removed, or an older file was put in its place. Up to"
        f" {max(0, answered.stored - found.stored)} stored jobs are missing, and up to"
        f" {max(0, answered.settled - found.settled)} that were done will run again"
    )

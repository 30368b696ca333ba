"""The committed content of a place: the size of each segment, and the ids of the records in it.

One SQLite file per place, shared by all processes of the machine that write there. Whatever a
segment holds beyond its size here belongs to a batch that was never confirmed, and is cut off. A
commit is on disk before it returns.

All changes go through SQLite's write lock: so two processes can neither take the same record, nor
make or take over the same segment.
"""

import errno
import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from manyhands.shared.crawl.store.errors import StateBusy, StateError
from manyhands.shared.crawl.store.sqlite.database import Database, open_file
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import (
    IS_UNFINISHED,
    PAGE_SCHEMA,
    SCHEMA,
    SET_STATE,
    Segment,
    SegmentState,
)
from manyhands.worker.sinks.files.segment_file import sync_directory

# Others hold the lock for milliseconds; on a disk that is very slow, for seconds.
BUSY_MS = 30_000
# 32 MiB of them.
CHECKPOINT_PAGES = 8192
# Of 2^64 records, two would share one.
DIGEST_BYTES = 16
# SQLite takes 32,766 parameters.
_AT_ONCE = 10_000
_PERMANENT_CODES = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
)
_PERMANENT_ERRORS = (
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
)


_COLUMNS = "name, state, size, records, created_at"


def digest(record_id: str) -> bytes:
    return hashlib.blake2b(
        record_id.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def is_permanent(error: OSError) -> bool:
    """Whether a setting or a permission has to be changed."""
    return error.errno in _PERMANENT_ERRORS


class Manifest:
    """For one thread at a time. State: the connection alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises ConfigError when it can never be used."""
        try:
            database = open_file(path, SCHEMA)
        except StateError as error:
            if _is_hopeless(error):
                raise ConfigError(f"SINKS: {error}") from error
            raise
        database.run("PRAGMA synchronous = FULL")
        # Ids are scattered over the whole table: the less often their pages are written from the
        # log into the file, the better.
        database.run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        database.run(f"PRAGMA busy_timeout = {BUSY_MS}")
        sync_directory(path.parent)
        return cls(database)

    def close(self) -> None:
        self._database.close()

    def page_schema(self, version: int) -> int:
        """That of the pages here: `version` from now on if there were none."""
        with self.transaction():
            self._database.run("INSERT OR IGNORE INTO facts VALUES (?, ?)", (PAGE_SCHEMA, version))
            found: int = self._database.value(
                "SELECT value FROM facts WHERE name = ?", (PAGE_SCHEMA,)
            )
        return found

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, and nobody else writes meanwhile. If the commit raises, only the next
        transaction shows whether it took effect."""
        return self._database.transaction()

    def known(self, digests: Collection[bytes]) -> set[bytes]:
        return self._digests("SELECT digest FROM ids WHERE digest IN ({})", "?", digests)

    def add_ids(self, digests: Collection[bytes]) -> set[bytes]:
        """Those that nobody had added before. Only in a transaction."""
        sql = "INSERT OR IGNORE INTO ids VALUES {} RETURNING digest"
        return self._digests(sql, "(?)", digests)

    def _digests(self, sql: str, mark: str, digests: Collection[bytes]) -> set[bytes]:
        """What the statement returns, with a mark for each digest in place of its braces."""
        return {
            digest
            for some in _portions(digests)
            for (digest,) in self._database.rows(sql.format(",".join([mark] * len(some))), some)
        }

    def segment(self, name: str) -> Segment | None:
        row = self._database.row(f"SELECT {_COLUMNS} FROM segments WHERE name = ?", (name,))
        return None if row is None else _segment(*row)

    def unfinished(self) -> list[Segment]:
        """Those that are open or sealed, the oldest first."""
        rows = self._database.rows(
            f"SELECT {_COLUMNS} FROM segments WHERE {IS_UNFINISHED} ORDER BY created_at, name"
        )
        return [_segment(*row) for row in rows]

    def backlog(self) -> tuple[int, int]:
        """How many segments are sealed and not published yet, and their bytes."""
        count, size = self._database.row(
            "SELECT count(*), coalesce(sum(size), 0) FROM segments"
            f" WHERE {IS_UNFINISHED} AND state = {SegmentState.SEALED:d}"
        )
        return count, size

    def create(self, name: str, created_at: float, size: int = 0) -> None:
        self._database.run(
            "INSERT INTO segments (name, size, created_at) VALUES (?, ?, ?)",
            (name, size, created_at),
        )

    def claim(self, name: str) -> None:
        """Change something, so that what is known of the segment after this commit stays true.

        A process killed during a commit may have written all of it to the log. Others do not see
        it, but once all of them have died, SQLite finds it in the log and applies it. The next
        commit of any process overwrites it. So nothing behind a segment's end may be cut off before
        there was such a commit."""
        self._database.run("UPDATE segments SET claims = claims + 1 WHERE name = ?", (name,))

    def grow(self, name: str, size: int, records: int, state: SegmentState) -> None:
        """Add `records` records; the segment's size is now `size`."""
        self._database.run(
            "UPDATE segments SET size = ?, records = records + ?, state = ? WHERE name = ?",
            (size, records, state, name),
        )

    def set_state(self, name: str, state: SegmentState) -> None:
        self._database.run(SET_STATE, (state, name))

    def resize(self, name: str, size: int) -> None:
        """After the file was changed from outside."""
        self._database.run("UPDATE segments SET size = ? WHERE name = ?", (size, name))

    def forget(self, name: str) -> None:
        self._database.run("DELETE FROM segments WHERE name = ?", (name,))


def _segment(name: str, state: int, size: int, records: int, created_at: float) -> Segment:
    return Segment(name, SegmentState(state), size, records, created_at)


def _portions(digests: Collection[bytes]) -> Iterator[tuple[bytes, ...]]:
    """In the order of the table, so that neighbours are in the same page."""
    ordered = sorted(digests)
    for start in range(0, len(ordered), _AT_ONCE):
        yield tuple(ordered[start : start + _AT_ONCE])


def _is_hopeless(error: StateError) -> bool:
    cause = error.__cause__
    if isinstance(cause, OSError):
        return is_permanent(cause)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _PERMANENT_CODES
    return not isinstance(error, StateBusy)

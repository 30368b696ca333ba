"""One SQLite file of the state: how it is opened, and its errors as ours.

In WAL mode with synchronous=NORMAL a commit survives the death of the process. A power failure may
lose the last commits of a file, never a part of one; their pages are then fetched again. It may
lose them from one file and not from another: links are lost if the file of the shard they were
admitted to goes back further than the file of their page.

Queries that find many rows return them as one row of JSON: for each row fetched, Python contends
with the event loop's thread for the interpreter's lock.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import orjson

from manyhands.shared.closing import closed_on_error
from manyhands.shared.crawl.store.errors import StateBusy, StateDamaged, StateError
from manyhands.shared.crawl.store.sqlite.schema import Schema

PAGE_BYTES = 4096
# One process may have all shards open.
CACHE_BYTES = 2 * 1024 * 1024
CHECKPOINT_PAGES = 2048
WAL_LIMIT_BYTES = 2 * CHECKPOINT_PAGES * PAGE_BYTES
# How long to wait for another process's transaction. They take milliseconds, unless the process was
# stopped in the middle of one.
BUSY_S = 5.0
_RETRY_S = 0.01
# A sector that cannot be read, or a file that was cut.
_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)
_FAULTS_OF_OURS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISUSE)


class Database:
    """A connection for one thread at a time. State: the connection alone."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def run(self, sql: str, parameters: tuple[Any, ...] = ()) -> int:
        """Run a statement; how many rows it changed."""
        try:
            return self._connection.execute(sql, parameters).rowcount
        except sqlite3.DatabaseError as error:
            _raise_ours(self.path, error)

    def run_many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.DatabaseError as error:
            _raise_ours(self.path, error)

    def row(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        """The first row, or None."""
        try:
            return self._connection.execute(sql, parameters).fetchone()
        except sqlite3.DatabaseError as error:
            _raise_ours(self.path, error)

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            _raise_ours(self.path, error)

    def value(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, parameters)
        return None if row is None else row[0]

    def listed(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """What the statement's one value lists: it must be a json_group_array."""
        found: list[Any] = orjson.loads(self.value(sql, parameters))
        return found

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. From its begin on, nobody else can write."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def look_through(self) -> None:
        """Look at all pages. Raises StateDamaged."""
        found = str(self.value("PRAGMA integrity_check(1)"))
        if found != "ok":
            raise StateDamaged(f"{self.path} is damaged: {' '.join(found.split())}")

    def close(self) -> None:
        self._connection.close()


def to_json(values: object) -> str:
    """As SQLite wants it for json_each."""
    return orjson.dumps(values).decode()


def open_file(path: Path, schema: Schema) -> Database:
    """Open a file for writing; it is made or brought to the present version where needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{path.parent} cannot be made: {error.strerror}") from error
    return _connected(path, schema, is_reader=False)


def open_for_reading(path: Path, schema: Schema) -> Database | None:
    """Open a file beside its owner; None when there is none, or nothing in it yet."""
    if not path.is_file():
        return None
    database = _connected(path, schema, is_reader=True)
    if _version(database, schema) == 0:
        database.close()
        return None
    return database


def make_file(path: Path, schema: Schema, cache_bytes: int) -> Database:
    """Create a file that is discarded unless it is completed: fast, without a log or rollback."""
    with _opening(path) as database:
        database.run(f"PRAGMA page_size = {PAGE_BYTES}")
        database.value("PRAGMA journal_mode = OFF")
        database.run("PRAGMA synchronous = OFF")
        database.run(f"PRAGMA cache_size = {-cache_bytes // 1024}")
        _migrate(database, schema)
    return database


def _connected(path: Path, schema: Schema, *, is_reader: bool) -> Database:
    with _opening(path) as database:
        version = _version(database, schema)
        database.run(f"PRAGMA cache_size = {-CACHE_BYTES // 1024}")
        if is_reader:
            database.run("PRAGMA query_only = 1")
            return database
        if version == 0:
            database.run(f"PRAGMA page_size = {PAGE_BYTES}")
        _use_log(database)
        database.run("PRAGMA synchronous = NORMAL")
        database.run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        database.run(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
        if version < schema.version:
            _migrate(database, schema)
    return database


@contextlib.contextmanager
def _opening(path: Path) -> Iterator[Database]:
    """A connection that is closed again if it cannot be made ready."""
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
    except sqlite3.DatabaseError as error:
        _raise_ours(path, error)
    with closed_on_error(connection):
        yield Database(path, connection)


def _version(database: Database, schema: Schema) -> int:
    """The version of a file that is ours; 0 if it is empty. Writes nothing."""
    version = int(database.value("PRAGMA user_version"))
    is_empty = database.value("SELECT count(*) FROM sqlite_schema") == 0
    if not is_empty and database.value("PRAGMA application_id") != schema.application_id:
        raise StateError(f"{database.path} is a file of some other program")
    if version > schema.version:
        raise StateError(
            f"{database.path} was written by a later release (version {version} of its tables, "
            f"this one knows {schema.version})"
        )
    return version


def _use_log(database: Database) -> None:
    """SQLite's time-out does not cover two processes that do this to a new file at once."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            database.value("PRAGMA journal_mode = WAL")
            return
        except StateBusy:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)


def _migrate(database: Database, schema: Schema) -> None:
    with database.transaction():
        # Another process may have been here first.
        for step in range(_version(database, schema), schema.version):
            for statement in schema.migrations[step]:
                database.run(statement)
        database.run(f"PRAGMA application_id = {schema.application_id}")
        database.run(f"PRAGMA user_version = {schema.version}")


def _raise_ours(path: Path, error: sqlite3.DatabaseError) -> NoReturn:
    # The primary code is in the low byte.
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    code = extended & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        reason = f"another process has been writing it for {BUSY_S:g} s and longer"
        raise StateBusy(f"{path} cannot be used: {reason}") from error
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or extended in _UNREADABLE:
        raise StateDamaged(f"{path} is damaged: {error}") from error
    if code in _FAULTS_OF_OURS:
        raise error
    raise StateError(f"{path} cannot be used: {error}") from error

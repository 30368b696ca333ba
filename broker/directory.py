"""The data directory: one process holds it, and what is in it is looked at before it is used."""

import contextlib
import fcntl
import sqlite3
from pathlib import Path

from broker.schema import UnusableDatabase, check, prepare
from shared.errors import ConfigError

DATABASE = "broker.db"
LOCK = "lock"
CHECKPOINT_PAGES = 4096
WAL_LIMIT_BYTES = 64 * 1024 * 1024
# Up to this size, a database that was not closed is looked through at start.
CHECKED_BYTES = 256 * 1024 * 1024


class DirectoryLock:
    """Holds a data directory for this process. Released by the system when the process dies."""

    def __init__(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = (directory / LOCK).open("a")
        except OSError as error:
            raise ConfigError(f"BROKER_DATA: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise ConfigError(f"{directory} is in use by another broker") from None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "DirectoryLock":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def backup(directory: Path, target: Path) -> None:
    """Copy the database of a broker that may be running, as it is at one moment."""
    if target.exists():
        raise ConfigError(f"{target} exists already")
    source = directory / DATABASE
    if not source.exists():
        raise ConfigError(f"{source} does not exist")
    with (
        contextlib.closing(sqlite3.connect(source)) as reader,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        reader.backup(copy)


def restore(directory: Path, source: Path) -> None:
    """Put a backup into a data directory that has no database."""
    if not source.exists():
        raise ConfigError(f"{source} does not exist")
    with DirectoryLock(directory):
        if (directory / DATABASE).exists():
            raise ConfigError(f"{directory / DATABASE} exists already: restore into an empty place")
        part = directory / (DATABASE + ".part")
        with (
            contextlib.closing(sqlite3.connect(source)) as reader,
            contextlib.closing(sqlite3.connect(part)) as copy,
        ):
            try:
                if check(reader) == 0:
                    raise UnusableDatabase("it is empty")
            except UnusableDatabase as error:
                raise ConfigError(f"{source} cannot be used: {error}") from error
            reader.backup(copy)
        part.rename(directory / DATABASE)


def look_through(path: Path) -> None:
    """See whether a database that was not closed is sound. Read-only: even to close a connection
    that may write would change a damaged file."""
    if not path.exists() or path.stat().st_size > CHECKED_BYTES:
        return
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        if check(db) == 0:
            return
        try:
            closed = db.execute("SELECT value FROM counters WHERE name = 'closed'").fetchone()
            if closed is None or closed[0]:
                return
            result = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise UnusableDatabase(f"it is damaged: {error}") from error
    if result != "ok":
        raise UnusableDatabase(f"it is damaged: {' '.join(result.split())}")


def connect(path: Path, *, is_full_sync: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        prepare(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if is_full_sync else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise UnusableDatabase(f"it is damaged: {error}") from error
    except UnusableDatabase:
        connection.close()
        raise
    return connection

"""The data directory: one process holds it, and what is in it is looked at before it is used."""

import contextlib
import fcntl
import re
import shutil
import sqlite3
from pathlib import Path

from manyhands.broker.damage import Damage, is_damage
from manyhands.broker.reading import read_tally_of
from manyhands.broker.schema import APPLICATION_ID, PAGE_BYTES, UnusableDatabase, check, prepare
from manyhands.broker.tally import TALLY_FILE, Tally, read_tally, what_is_lost
from manyhands.shared.errors import ConfigError

DATABASE = "broker.db"
LOG = DATABASE + "-wal"
LOCK = "lock"
CHECKPOINT_PAGES = 4096
WAL_LIMIT_BYTES = 64 * 1024 * 1024
# Up to this size a database is looked through at start, which takes some 2 s for each gigabyte.
CHECKED_BYTES = 256 * 1024 * 1024
MOST_FINDINGS = 100
# Of SQLite's findings, those by which a write could destroy what is sound.
_SPREADING = re.compile("freelist|2nd reference", re.IGNORECASE)


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
        # It was about the database that was here before.
        (directory / TALLY_FILE).unlink(missing_ok=True)
        part.rename(directory / DATABASE)


def look_through(directory: Path) -> Damage:
    """See whether a database is sound, and whether all is there that was answered. Read-only: even
    to close a connection that may write would change a damaged file. Raises UnusableDatabase when
    nothing can be done with it."""
    path = directory / DATABASE
    damage = Damage(path)
    found = Tally()
    if path.exists():
        _check_length(path)
        with contextlib.closing(open_read_only(path)) as database:
            if check(database):
                found = _look_into(database, damage)
    damage.lost = what_is_lost(read_tally(directory), found)
    if damage.lost is not None:
        damage.lost += _keep_log(directory, found)
    return damage


def open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _check_length(path: Path) -> None:
    """A file without a log has as many pages as it says."""
    with path.open("rb") as file:
        header = file.read(100)
    is_ours = header[68:72] == APPLICATION_ID.to_bytes(4)
    pages, has = int.from_bytes(header[28:32]), path.stat().st_size // PAGE_BYTES
    if is_ours and has < pages and not _log_bytes(path.parent):
        raise UnusableDatabase(f"it is damaged: it was cut to {has} of its {pages} pages")


def _look_into(database: sqlite3.Connection, damage: Damage) -> Tally:
    try:
        tally = read_tally_of(database)
        database.execute("SELECT id, name, is_paused, rows FROM queues").fetchall()
        database.execute("SELECT name FROM sqlite_sequence").fetchall()
    except sqlite3.DatabaseError as error:
        raise UnusableDatabase(f"it is damaged: {error}") from error
    for table, column in (("jobs", "key"), ("sets", "id")):
        if not any(_can_read(database, f"SELECT {way}({column}) FROM {table}") for way in _ENDS):
            raise UnusableDatabase(f"it is damaged: nothing of its table {table} can be read")
    if damage.path.stat().st_size <= CHECKED_BYTES:
        for finding in findings(database, "quick_check"):
            if _SPREADING.search(finding):
                text = f"it is damaged: pages in use may be taken for free ones ({finding})"
                raise UnusableDatabase(text)
            damage.found(finding, "the look at all pages at start found it")
    return tally


_ENDS = ("min", "max")


def _can_read(database: sqlite3.Connection, query: str) -> bool:
    try:
        database.execute(query).fetchall()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False
    return True


def findings(database: sqlite3.Connection, pragma: str) -> list[str]:
    """What SQLite says is wrong, by its quick or its whole check."""
    try:
        rows = database.execute(f"PRAGMA {pragma}({MOST_FINDINGS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    lines = [line.strip() for (text,) in rows for line in text.splitlines()]
    return [line for line in lines if line and line != "ok" and not line.startswith("***")]


def _log_bytes(directory: Path) -> int:
    log = directory / LOG
    return log.stat().st_size if log.exists() else 0


def _keep_log(directory: Path, found: Tally) -> str:
    """A copy of what is left of the log, which is used up from now on."""
    if not _log_bytes(directory):
        return ""
    kept = directory / f"{LOG}.at-{found.commits}"
    try:
        shutil.copyfile(directory / LOG, kept)
    except OSError as error:
        kept.unlink(missing_ok=True)
        return f"; what is left of the log could not be kept: {error.strerror}"
    return f"; what is left of the log is kept as {kept.name}"


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

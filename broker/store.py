"""What survives: SQLite with one writer thread, and one transaction for what many clients sent.

The loop's thread collects changes in a `Batch`; the writer commits one batch while the next one
fills. Each kind of change is a single statement over a JSON list: the interpreter's lock is free
while SQLite works, where a statement per row would fight the loop for it twice per row.
"""

import contextlib
import fcntl
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from broker.schema import PAGE_BYTES, SEQUENCE_BITS, UnusableDatabase, check, prepare
from shared.errors import ConfigError
from shared.logs import get_logger

DATABASE = "broker.db"
LOCK = "lock"
CHECKPOINT_PAGES = 4096
# Given up when the disk is full, so that what is stored can still be acknowledged: for that, all
# that the log holds must fit into the database, which empties the log.
BALLAST = "ballast"
BALLAST_BYTES = CHECKPOINT_PAGES * PAGE_BYTES * 3 // 2
WAL_LIMIT_BYTES = 64 * 1024 * 1024
RETRY_WRITE_S = 0.5
# Pushes that are not written yet; above this, those who push are not read any more.
UNWRITTEN_BYTES = 64 * 1024 * 1024
# A commit costs a sync whatever is in it, so results gather for a moment before they are written:
# nobody waits for their answer. A push is written at once.
GATHER_S = 0.003
# Pages that a drain left unused go back to the file system above this, in steps that take
# milliseconds.
FREE_PAGES_KEPT = 8192
VACUUM_PAGES = 512
# SQLite refuses a value of a gigabyte: so much is written or read as one at most, or one job.
STATEMENT_BYTES = 128 * 1024 * 1024
# Up to this size, a database that was not closed is looked through at start.
CHECKED_BYTES = 256 * 1024 * 1024

SET_NAMES = ("scheduled", "retries", "dead")


class Loop(Protocol):
    """What the store needs of the event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


@dataclass(slots=True)
class SetRow:
    """A job in the scheduled, retry or dead set; `at` is when it is due or, dead, forgotten."""

    kind: str
    at: float
    jid: str
    jobtype: str
    payload: bytes
    id: int = 0


@dataclass(slots=True, eq=False)
class Push:
    """One PUSH or PUSHB: stored as a whole, or refused as a whole."""

    rows: list[tuple[int, bytes]]
    set_rows: list[SetRow]
    stored: Callable[[], None]
    refused: Callable[[str], None]
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        payloads = (*(payload for _, payload in self.rows), *(row.payload for row in self.set_rows))
        self.size_bytes = sum(map(len, payloads))


@dataclass(slots=True)
class Batch:
    """Changes that are committed together."""

    pushes: list[Push] = field(default_factory=list)
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    reservations: list[tuple[object, ...]] = field(default_factory=list)
    unreserved: list[int] = field(default_factory=list)
    set_rows: list[SetRow] = field(default_factory=list)
    removed_set_ids: list[int] = field(default_factory=list)
    queues: list[tuple[int, str, bool]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    statements: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    when_stored: list[Callable[[], None]] = field(default_factory=list)
    is_vacuum_due: bool = False

    @property
    def is_empty(self) -> bool:
        return self == Batch()

    def count(self, name: str, change: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + change


@dataclass(slots=True)
class Reservation:
    key: int
    is_held: bool
    owner: str | None
    wid: str
    since: float
    reserved_until: float
    given_back: int
    payload: bytes


@dataclass(slots=True)
class Snapshot:
    """What is stored at start, without the jobs themselves."""

    queues: list[tuple[int, str, bool, int]]
    reservations: list[Reservation]
    counters: dict[str, int]
    was_closed: bool


class Store:
    """State: the batches that wait (the last one is being filled), whether one is being written,
    and whether the disk is full."""

    def __init__(self, directory: Path, *, is_full_sync: bool, loop: Loop) -> None:
        self.is_disk_full = False
        self.on_broken: Callable[[Exception], None] = _raise
        self.commits = 0
        self._directory = directory
        self._loop = loop
        self._log = get_logger("store")
        self._batches: deque[Batch] = deque([Batch()])
        self._is_writing = False
        self._is_scheduled = False
        self._is_urgent = False
        self._unwritten_bytes = 0
        self._sent_at = 0.0
        self._is_closing = False
        self._is_broken = False
        self._work: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._lock = DirectoryLock(directory)
        try:
            _look_through(directory / DATABASE)
            self._writer = _connect(directory / DATABASE, is_full_sync=is_full_sync)
            self._reader = _connect(directory / DATABASE, is_full_sync=is_full_sync)
        except UnusableDatabase as error:
            self._lock.close()
            raise ConfigError(f"{directory / DATABASE} cannot be used: {error}") from error
        self._reader.execute("PRAGMA query_only = 1")
        # One step gives a whole page of jobs, joined; it must not be decoded to text first.
        self._reader.text_factory = bytes
        self._thread = threading.Thread(target=self._write, name="store-writer", daemon=True)

    # Start and stop

    def load(self) -> Snapshot:
        """Read the state and mark the database as in use."""
        read = self._writer.execute
        counters = dict(read("SELECT name, value FROM counters"))
        was_closed = bool(counters.pop("closed", 1))
        # Of jobs that are gone (QUEUE REMOVE). Their keys may be given out again from now on.
        read("DELETE FROM reservations WHERE key NOT IN (SELECT key FROM jobs)")
        snapshot = Snapshot(
            queues=[
                (int(number), name, bool(is_paused), int(rows))
                for number, name, is_paused, rows in read(
                    "SELECT id, name, is_paused, rows FROM queues ORDER BY id"
                )
            ],
            reservations=[
                Reservation(key, bool(is_held), *rest)
                for key, is_held, *rest in read(
                    "SELECT key, is_held, owner, wid, since, reserved_until, given_back, payload"
                    " FROM reservations JOIN jobs USING (key) ORDER BY since"
                )
            ],
            counters=counters,
            was_closed=was_closed,
        )
        self._set_closed(False)
        self._hold_ballast()
        self._thread.start()
        return snapshot

    def close(self) -> None:
        """Wait for what is being written. Only if that was everything, the next start need not
        reckon with results that nobody stored."""
        self._is_closing = True
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()
        if not self._is_broken and len(self._batches) == 1 and self._batches[0].is_empty:
            self._set_closed(True)
        self._reader.close()
        self._writer.close()
        self._lock.close()

    # Changes

    @property
    def batch(self) -> Batch:
        """The batch that is being filled; it is written soon."""
        if not self._is_scheduled and not self._is_writing:
            self._send_soon()
        return self._batches[-1]

    def push(self, push: Push) -> None:
        """New jobs are written after this turn of the loop."""
        self._batches[-1].pushes.append(push)
        self._unwritten_bytes += push.size_bytes
        # Among the others: what comes into a queue becomes visible in the order of its keys.
        self._batches[-1].when_stored.append(push.stored)
        if not self._is_urgent:
            self._is_urgent = True
            if not self._is_writing:
                self._loop.call_soon(self._send)

    def run_alone(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Statements that come after all that was asked before them, and before what follows."""
        self._batches.extend((Batch(statements=list(statements)), Batch()))
        _ = self.batch

    def _send_soon(self) -> None:
        self._is_scheduled = True
        self._loop.call_at(self._sent_at + GATHER_S, self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        if self._is_writing:
            return
        while self._batches[0].is_empty:
            if len(self._batches) == 1:
                return
            self._batches.popleft()
        self._is_writing = True
        self._is_urgent = False
        self._sent_at = self._loop.time()
        self._work.put(self._batches.popleft())
        if not self._batches:
            self._batches.append(Batch())

    def _written(self, batch: Batch) -> None:
        self._is_writing = False
        self.commits += 1
        self._unwritten_bytes -= sum(push.size_bytes for push in batch.pushes)
        for callback in batch.when_stored:
            callback()
        if len(self._batches) > 1 or self._is_urgent:
            self._send()
        elif not self._batches[0].is_empty:
            self._send_soon()

    @property
    def is_backed_up(self) -> bool:
        """More is pushed than can be written: take no more until some of it is."""
        return self._unwritten_bytes > UNWRITTEN_BYTES

    def _refused(self, pushes: list[Push], reason: str) -> None:
        for push in pushes:
            self._unwritten_bytes -= push.size_bytes
            push.refused(reason)

    # The writer's thread

    def _write(self) -> None:
        while (batch := self._work.get()) is not None:
            try:
                self._write_until_done(batch)
            except Exception as error:
                self._is_broken = True
                self._loop.call_soon_threadsafe(self.on_broken, error)
                return
            self._loop.call_soon_threadsafe(self._written, batch)
            if batch.is_vacuum_due:
                self._vacuum()

    def _write_until_done(self, batch: Batch) -> None:
        """A full disk refuses the pushes; the rest stays until there is room, for an
        acknowledgement that is answered must not be forgotten."""
        while True:
            try:
                self._commit(batch)
                return
            except sqlite3.OperationalError as error:
                if self._writer.in_transaction:
                    self._writer.rollback()
                if not _is_out_of_space(error) or (self._is_closing and not batch.pushes):
                    raise
                if not self.is_disk_full:
                    self._log.error("the disk is full: refusing new jobs", reason=str(error))
                self.is_disk_full = True
                self._give_up_ballast()
                pushes, batch.pushes = batch.pushes, []
                stored = {push.stored for push in pushes}
                batch.when_stored = [call for call in batch.when_stored if call not in stored]
                self._loop.call_soon_threadsafe(self._refused, pushes, "the disk is full")
                if not pushes:
                    time.sleep(RETRY_WRITE_S)

    def _give_up_ballast(self) -> None:
        (self._directory / BALLAST).unlink(missing_ok=True)
        # What the log has grown to is room as well, once it is empty.
        with contextlib.suppress(sqlite3.OperationalError):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _commit(self, batch: Batch) -> None:
        write = self._writer.execute
        write("BEGIN IMMEDIATE")
        for sql, parameters in batch.statements:
            write(sql, parameters).fetchall()
        if batch.queues:
            self._writer.executemany(
                "INSERT INTO queues (id, name, is_paused, rows) VALUES (?, ?, ?, 0)"
                " ON CONFLICT (id) DO UPDATE SET is_paused = excluded.is_paused",
                batch.queues,
            )
        self._insert_jobs([*batch.rows, *(row for push in batch.pushes for row in push.rows)])
        self._insert_set_rows(
            [*batch.set_rows, *(row for push in batch.pushes for row in push.set_rows)]
        )
        if batch.settled:
            keys = orjson.dumps(batch.settled).decode()
            write("DELETE FROM jobs WHERE key IN (SELECT value FROM json_each(?))", (keys,))
            self._change_row_counts("-", "value", keys)
        if batch.reservations:
            write(
                "INSERT OR REPLACE INTO reservations SELECT value->>0, value->>1, value->>2,"
                " value->>3, value->>4, value->>5, value->>6 FROM json_each(?)",
                (orjson.dumps(batch.reservations).decode(),),
            )
        if batch.unreserved:
            write(
                "DELETE FROM reservations WHERE key IN (SELECT value FROM json_each(?))",
                (orjson.dumps(batch.unreserved).decode(),),
            )
        if batch.removed_set_ids:
            write(
                "DELETE FROM sets WHERE id IN (SELECT value FROM json_each(?))",
                (orjson.dumps(batch.removed_set_ids).decode(),),
            )
        scheduled = sum(len(push.set_rows) for push in batch.pushes)
        for name, change in (*batch.counters.items(), ("scheduled", scheduled)):
            write(
                "INSERT INTO counters VALUES (?1, ?2)"
                " ON CONFLICT (name) DO UPDATE SET value = value + ?2",
                (name, change),
            )
        write("COMMIT")

    def _insert_jobs(self, rows: list[tuple[int, bytes]]) -> None:
        if not rows:
            return
        places, at = [], 1
        for key, payload in rows:
            places.append((key, at, len(payload)))
            at += len(payload)
        if at > STATEMENT_BYTES and len(rows) > 1:
            self._insert_jobs(rows[: len(rows) // 2])
            self._insert_jobs(rows[len(rows) // 2 :])
            return
        listed = orjson.dumps(places).decode()
        self._writer.execute(
            "INSERT INTO jobs (key, payload)"
            " SELECT value->>0, substr(?2, value->>1, value->>2) FROM json_each(?1)",
            (listed, b"".join([payload for _, payload in rows])),
        )
        self._change_row_counts("+", "value->>0", listed)

    def _change_row_counts(self, sign: str, key: str, listed: str) -> None:
        self._writer.execute(
            f"UPDATE queues SET rows = rows {sign} changed.number FROM"
            f" (SELECT ({key}) >> {SEQUENCE_BITS} AS queue, count(*) AS number FROM json_each(?)"
            " GROUP BY 1) AS changed WHERE id = changed.queue",
            (listed,),
        )

    def _insert_set_rows(self, rows: list[SetRow]) -> None:
        if len(rows) > 1 and sum(len(row.payload) for row in rows) > STATEMENT_BYTES:
            self._insert_set_rows(rows[: len(rows) // 2])
            self._insert_set_rows(rows[len(rows) // 2 :])
        elif rows:
            listed = [(r.kind, r.at, r.jid, r.jobtype, r.payload.decode()) for r in rows]
            self._writer.execute(
                "INSERT INTO sets (kind, at, jid, jobtype, payload) SELECT value->>0, value->>1,"
                " value->>2, value->>3, CAST(value->>4 AS BLOB) FROM json_each(?)",
                (orjson.dumps(listed).decode(),),
            )

    def _set_closed(self, is_closed: bool) -> None:
        self._writer.execute(
            "INSERT OR REPLACE INTO counters VALUES ('closed', ?)", (int(is_closed),)
        )

    # Space. Called by the loop from time to time, run by the writer.

    def look_after_space(self) -> None:
        """Return what a drain left unused, and see whether a full disk has room again."""
        free = int(self._reader.execute("PRAGMA freelist_count").fetchone()[0])
        if self.is_disk_full and not self._is_writing and self._has_room(free):
            self.is_disk_full = not self._hold_ballast()
            if not self.is_disk_full:
                self._log.info("there is room on the disk again: taking new jobs")
        if free > FREE_PAGES_KEPT:
            self.batch.is_vacuum_due = True

    def _vacuum(self) -> None:
        # As a script: of a single statement, Python takes one step, and that is one page.
        with contextlib.suppress(sqlite3.OperationalError):
            self._writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")

    def _has_room(self, free_pages: int) -> bool:
        """More than what was given up: else the disk would be full again with the next job."""
        disk = os.statvfs(self._directory)
        room = disk.f_bavail * disk.f_frsize + free_pages * PAGE_BYTES
        return room >= 2 * BALLAST_BYTES

    def _hold_ballast(self) -> bool:
        path = self._directory / BALLAST
        try:
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
        except OSError:
            path.unlink(missing_ok=True)
            return False
        return True

    # Reading, in the loop's thread: a page of jobs takes about a millisecond

    def read_jobs(self, after: int, upto: int, limit: int) -> list[tuple[int, bytes]]:
        """The next jobs with keys in (after, upto]."""
        while limit > 1 and self._page_bytes(after, upto, limit) > STATEMENT_BYTES:
            limit //= 2
        keys, payloads = self._reader.execute(
            "SELECT group_concat(key), group_concat(payload, char(10)) FROM (SELECT key, payload"
            " FROM jobs WHERE key > ? AND key <= ? ORDER BY key LIMIT ?)",
            (after, upto, limit),
        ).fetchone()
        if keys is None:
            return []
        return list(zip(map(int, keys.split(b",")), payloads.split(b"\n"), strict=True))

    def _page_bytes(self, after: int, upto: int, limit: int) -> int:
        (size,) = self._reader.execute(
            "SELECT total(length(payload)) FROM (SELECT payload FROM jobs"
            " WHERE key > ? AND key <= ? ORDER BY key LIMIT ?)",
            (after, upto, limit),
        ).fetchone()
        return int(size)

    def last_key(self, queue_id: int) -> int:
        """The highest key of a queue, or the one below its first."""
        first = queue_id << SEQUENCE_BITS
        upto = (queue_id + 1) << SEQUENCE_BITS
        (key,) = self._reader.execute(
            "SELECT max(key) FROM jobs WHERE key > ? AND key < ?", (first, upto)
        ).fetchone()
        return first if key is None else int(key)

    def newest_payloads(self, queue_id: int, limit: int) -> Iterator[bytes]:
        rows = self._reader.execute(
            "SELECT payload FROM jobs WHERE key > ? AND key < ? ORDER BY key DESC LIMIT ?",
            (queue_id << SEQUENCE_BITS, (queue_id + 1) << SEQUENCE_BITS, limit),
        )
        return (payload for (payload,) in rows)

    def newest_in_sets(self, limit: int) -> Iterator[str]:
        """Jids of jobs that are yet to be queued."""
        rows = self._reader.execute(
            "SELECT jid FROM sets WHERE kind != 'dead' ORDER BY id DESC LIMIT ?", (limit,)
        )
        return (jid.decode() for (jid,) in rows)

    def last_set_id(self) -> int:
        return int(self._reader.execute("SELECT ifnull(max(id), 0) FROM sets").fetchone()[0])

    def read_set(
        self, kind: str, where: str = "1", parameters: Iterable[Any] = (), *, limit: int
    ) -> list[SetRow]:
        """Jobs of a set, the one that is due first in front."""
        return self._set_rows(f"kind = ? AND ({where}) ORDER BY at, id", kind, *parameters, limit)

    def find(
        self, kind: str, where: str, parameters: Iterable[Any], *, after: int, limit: int
    ) -> list[SetRow]:
        """Jobs of a set with ids above `after`, in the order of their ids: to walk through all."""
        sql = f"kind = ? AND ({where}) AND id > ? ORDER BY id"
        return self._set_rows(sql, kind, *parameters, after, limit)

    def _set_rows(self, condition: str, *parameters: Any) -> list[SetRow]:
        rows = self._reader.execute(
            f"SELECT kind, at, jid, jobtype, payload, id FROM sets WHERE {condition} LIMIT ?",
            parameters,
        ).fetchall()
        return [
            SetRow(kind.decode(), at, jid.decode(), jobtype.decode(), payload, number)
            for kind, at, jid, jobtype, payload, number in rows
        ]


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


def _look_through(path: Path) -> None:
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


def _connect(path: Path, *, is_full_sync: bool) -> sqlite3.Connection:
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


def _is_out_of_space(error: sqlite3.OperationalError) -> bool:
    # The primary code is in the low byte; a disk that refuses to write is like a full one.
    return (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _raise(error: Exception) -> None:
    raise error

"""Reads, in the loop's thread: a page of jobs takes about a millisecond.

A page of the database that is damaged is passed over: what is behind it is read all the same. That
is slow, and done only where the quick way has failed.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from manyhands.broker.batches import STATEMENT_BYTES, SetRow
from manyhands.broker.checksums import of_job, of_set_row
from manyhands.broker.choices import EVERY_JOB, Choice
from manyhands.broker.damage import Damage, is_damage
from manyhands.broker.jobs import KEPT_IN_HAND_BYTES, from_row
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.broker.tally import TALLY_NAMES, Tally
from manyhands.broker.walking import Walk

# A page of a set, or one job: it is read and moved while others wait.
SET_PAGE_BYTES = 1024 * 1024
# A row of before there were checksums.
UNCHECKED = -1
_NO_JOB = (msgspec.DecodeError, UnicodeDecodeError, TypeError)
# A set without its index is gone through as a whole: so often at most, for this share of the time.
WALK_EVERY_S = 5.0
WALK_SHARE = 0.05
_SET_COLUMNS = "kind, at, jid, jobtype, payload, id, ifnull(checksum, -1)"


@dataclass(slots=True)
class Reservation:
    key: int
    is_held: bool
    owner: str | None
    wid: str
    since: float
    reserved_until: float
    given_back: int
    # Empty if it is a large one.
    payload: bytes


@dataclass(slots=True)
class Snapshot:
    """What is stored at start, without the jobs themselves."""

    queues: list[tuple[int, str, bool, int, int]]
    reservations: list[Reservation]
    counters: dict[str, int]
    # Keys of jobs that are done, and could not be deleted.
    gone: list[int]
    tally: Tally
    was_closed: bool


@dataclass(slots=True)
class SetPage:
    """`has_more`: there may be jobs behind its last one."""

    rows: list[SetRow]
    has_more: bool


def read_tally_of(connection: sqlite3.Connection) -> Tally:
    counters = dict(connection.execute("SELECT name, value FROM counters"))
    return Tally(*(int(counters.get(name, 0)) for name in TALLY_NAMES))


def read_snapshot(connection: sqlite3.Connection, damage: Damage) -> Snapshot:
    read = connection.execute
    counters = dict(read("SELECT name, value FROM counters"))
    tally = Tally(*(int(counters.pop(name, 0)) for name in TALLY_NAMES))
    was_closed = bool(counters.pop("closed", 1))
    queues = [
        (int(number), name, bool(is_paused), int(rows), int(last_key))
        for number, name, is_paused, rows, last_key in read(
            "SELECT id, name, is_paused, rows, last_key FROM queues ORDER BY id"
        )
    ]
    try:
        # Of jobs that are gone (QUEUE REMOVE). Their keys may be given out again from now on.
        read("DELETE FROM reservations WHERE key NOT IN (SELECT key FROM jobs)")
        reservations = _read_reservations(connection)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        # The jobs are queued then, and go out once more if somebody has them still.
        damage.found("table reservations", f"{error}; jobs in hand may run twice")
        reservations = []
    gone = [int(key) for (key,) in read("SELECT key FROM gone WHERE is_set = 0")]
    return Snapshot(queues, reservations, counters, gone, tally, was_closed)


def _read_reservations(connection: sqlite3.Connection) -> list[Reservation]:
    """Of jobs that are whole; the others are found when their queue is read."""
    found = []
    for row in connection.execute(
        "SELECT key, is_held, owner, wid, since, reserved_until, given_back, payload,"
        f" ifnull(checksum, {UNCHECKED}) FROM reservations JOIN jobs USING (key)"
    ):
        key, is_held, *rest, payload, checksum = row
        if _is_whole_job(key, payload, checksum):
            kept = payload if len(payload) <= KEPT_IN_HAND_BYTES else b""
            found.append(Reservation(key, bool(is_held), *[*rest, kept]))
    # Not by SQLite, which would hold all of the jobs to do so.
    return sorted(found, key=lambda row: (row.since, row.key))


def _is_whole_job(key: int, payload: object, checksum: object) -> bool:
    if not isinstance(payload, bytes):
        return False
    if checksum != UNCHECKED:
        return of_job(key, payload) == checksum
    try:
        from_row(key, payload)
    except _NO_JOB:
        return False
    return True


class Reader:
    """State: a connection of its own, that may not write, and what was found damaged."""

    def __init__(self, connection: sqlite3.Connection, damage: Damage) -> None:
        self._connection = connection
        self.damage = damage
        connection.execute("PRAGMA query_only = 1")
        # One step gives a whole page of jobs, joined; it must not be decoded to text first.
        connection.text_factory = bytes
        self._jobs = Walk(connection, damage, "jobs", "key")
        self._sets = Walk(connection, damage, "sets", "id")
        self._walks_again_at = 0.0
        # Rows of the sets that could not be deleted.
        self.gone: set[int] = {
            number for (number,) in connection.execute("SELECT key FROM gone WHERE is_set = 1")
        }

    def close(self) -> None:
        self._connection.close()

    def free_pages(self) -> int:
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    # Queues

    def read_jobs(
        self, after: int, upto: int, limit: int, max_bytes: int = STATEMENT_BYTES
    ) -> list[tuple[int, bytes]]:
        """The next jobs with keys in (after, upto], as far as they can be read. They have
        `max_bytes` at most, or there is only one."""
        try:
            while limit > 1 and self._page_bytes(after, upto, limit) > max_bytes:
                limit //= 2
            if limit == 1:
                return self._next_job(after, upto)
            return self._read_jobs(after, upto, limit)
        except (sqlite3.DatabaseError, ValueError, TypeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            return self._jobs.read(after, upto, limit, self._read_job)

    def _read_jobs(self, after: int, upto: int, limit: int) -> list[tuple[int, bytes]]:
        """Raises ValueError or TypeError when they are not what was stored."""
        found = self._connection.execute(
            f"SELECT key, payload, ifnull(checksum, {UNCHECKED}) FROM jobs"
            " WHERE key > ? AND key <= ? ORDER BY key LIMIT ?",
            (after, upto, limit),
        ).fetchall()
        rows = []
        last = after
        for key, payload, checksum in found:
            # Most often the first look is enough, and it is made for every job.
            is_whole = of_job(key, payload) == checksum
            if key <= last or not (is_whole or _is_whole_job(key, payload, checksum)):
                raise ValueError("a job is not as it was stored")
            last = key
            rows.append((key, payload))
        return rows

    def _next_job(self, after: int, upto: int) -> list[tuple[int, bytes]]:
        """As it is: a large one is not copied once more. Raises ValueError as _read_jobs."""
        row = self._connection.execute(
            f"SELECT key, payload, ifnull(checksum, {UNCHECKED}) FROM jobs"
            " WHERE key > ? AND key <= ? ORDER BY key LIMIT 1",
            (after, upto),
        ).fetchone()
        if row is None:
            return []
        key, payload, checksum = row
        if not after < key <= upto or not _is_whole_job(key, payload, checksum):
            raise ValueError("a job is not as it was stored")
        return [(key, payload)]

    def payload(self, key: int) -> bytes | None:
        """Of a job that was in memory once; None if it cannot be read any more."""
        try:
            found = self._read_job(key)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.damage.found_record("jobs", key, str(error))
            return None
        return found[1] if found else None

    def _read_job(self, key: int) -> tuple[int, bytes] | None:
        row = self._connection.execute(
            f"SELECT payload, ifnull(checksum, {UNCHECKED}) FROM jobs WHERE key = ?", (key,)
        ).fetchone()
        if row is None or not _is_whole_job(key, *row):
            self.damage.found_record("jobs", key, "the job is not as it was stored")
            return None
        return key, row[0]

    def _page_bytes(self, after: int, upto: int, limit: int) -> int:
        (size,) = self._connection.execute(
            "SELECT total(length(payload)) FROM (SELECT payload FROM jobs"
            " WHERE key > ? AND key <= ? ORDER BY key LIMIT ?)",
            (after, upto, limit),
        ).fetchone()
        return int(size)

    def newest_jids(self, queue_id: int, limit: int) -> Iterator[str]:
        """From the newest on, as far as they can be read."""
        for payload in self._as_far_as_readable(
            "jobs",
            "SELECT payload FROM jobs WHERE key > ? AND key < ? ORDER BY key DESC LIMIT ?",
            (queue_id << SEQUENCE_BITS, (queue_id + 1) << SEQUENCE_BITS, limit),
        ):
            # One that is not as it was stored is told of when its turn comes.
            with contextlib.suppress(*_NO_JOB):
                yield from_row(0, payload).jid

    # Sets

    def newest_in_sets(self, limit: int) -> Iterator[str]:
        """Jids of jobs that are yet to be queued, as far as they can be read."""
        for jid in self._as_far_as_readable(
            "sets", "SELECT jid FROM sets WHERE kind != 'dead' ORDER BY id DESC LIMIT ?", (limit,)
        ):
            with contextlib.suppress(AttributeError, *_NO_JOB):
                yield jid.decode()

    def _as_far_as_readable(
        self, table: str, query: str, parameters: tuple[int, ...]
    ) -> Iterator[Any]:
        try:
            for (value,) in self._connection.execute(query, parameters):
                yield value
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.damage.found(f"table {table}", f"{error}; met while its newest jobs were read")

    def last_set_id(self) -> int:
        """None is higher."""
        row = self._connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'sets'"
        ).fetchone()
        return int(row[0]) if row else 0

    def read_set(self, kind: str, choice: Choice = EVERY_JOB, *, limit: int) -> list[SetRow]:
        """Jobs of a set, the one that is due first in front: no more than a page has bytes."""
        # Those that are damaged or gone stay at the front, where they were.
        limit += self.damage.bad_records("sets") + len(self.gone)
        where, parameters = _in_set(kind, choice)
        return self._set_rows(where, parameters, "at, id", 0, limit)

    def read_set_ids(self, kind: str, choice: Choice = EVERY_JOB, *, limit: int) -> list[SetRow]:
        """As read_set, for those who only want to be rid of them: without the jobs themselves."""
        where, parameters = _in_set(kind, choice)
        try:
            rows = self._connection.execute(
                f"SELECT at, jid, id FROM sets WHERE {where} ORDER BY at, id LIMIT ?",
                (*parameters, limit + len(self.gone)),
            ).fetchall()
            return [
                SetRow(kind, at, jid.decode(), "", b"", number)
                for at, jid, number in rows
                if number not in self.gone
            ]
        except (sqlite3.DatabaseError, AttributeError, UnicodeDecodeError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            return self.read_set(kind, choice, limit=limit)

    def find_ids(self, kind: str, choice: Choice, *, after: int, limit: int) -> list[int]:
        """Ids above `after`, in their order. A pattern may take long: not in the loop's thread."""
        where, parameters = _in_set(kind, choice)
        rows = self._connection.execute(
            f"SELECT id FROM sets WHERE {where} AND id > ? ORDER BY id LIMIT ?",
            (*parameters, after, limit),
        )
        return [number for (number,) in rows]

    def find(self, kind: str, choice: Choice, *, after: int, limit: int, max_bytes: int) -> SetPage:
        """Jobs of a set with ids above `after`, in the order of their ids: to walk through all.
        Together they have `max_bytes` at most, or there is only one; others are not read."""
        condition, values = _in_set(kind, choice)
        try:
            rows = self._connection.execute(
                "WITH sized AS MATERIALIZED (SELECT id, length(payload) AS size FROM sets"
                f" WHERE {condition} AND id > ? ORDER BY id LIMIT ?),"
                " summed AS (SELECT id, size, sum(size) OVER (ORDER BY id) AS total FROM sized)"
                f" SELECT {_SET_COLUMNS}, (SELECT count(*) FROM sized) FROM sets"
                " WHERE id IN (SELECT id FROM summed WHERE total <= ? OR total = size) ORDER BY id",
                (*values, after, limit, max_bytes),
            ).fetchall()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.damage.found("table sets, or an index of it", str(error))
            walked = self._walk_sets(condition, values, "id", after, limit)
            kept = _within(walked, max_bytes)
            return SetPage(kept, len(walked) == limit or len(kept) < len(walked))
        found = rows[0][-1] if rows else 0
        has_more = found == limit or found > len(rows)
        whole = self._whole_set_rows(row[:-1] for row in rows)
        if has_more and not whole:
            # An empty page would end a walk; what is behind these may be whole.
            last = rows[-1][5]
            return self.find(kind, choice, after=last, limit=limit, max_bytes=max_bytes)
        return SetPage(whole, has_more)

    def find_jid(self, jid: str) -> list[SetRow]:
        return self._set_rows("jid = ?", (jid,), "id", 0, 10)

    def _set_rows(
        self, where: str, parameters: tuple[Any, ...], order: str, after: int, limit: int
    ) -> list[SetRow]:
        try:
            rows = self._connection.execute(
                f"SELECT {_SET_COLUMNS} FROM sets WHERE {where} AND id > ?"
                f" ORDER BY {order} LIMIT ?",
                (*parameters, after, limit),
            )
            with contextlib.closing(rows):
                return self._page_of(rows)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.damage.found("table sets, or an index of it", str(error))
            walked = self._walk_sets(where, parameters, order, after, limit)
            return _within(walked, SET_PAGE_BYTES)

    def _page_of(self, rows: Iterable[tuple[Any, ...]]) -> list[SetRow]:
        """Those that are whole, until they have the bytes of a page; the others are not read."""
        page: list[SetRow] = []
        size = 0
        for row in rows:
            whole = self._whole_set_row(row)
            if whole is not None:
                size += len(whole.payload)
                if page and size > SET_PAGE_BYTES:
                    break
                page.append(whole)
        return page

    def _walk_sets(
        self, where: str, parameters: tuple[Any, ...], order: str, after: int, limit: int
    ) -> list[SetRow]:
        """Without any index, row by row."""

        def read(number: int) -> SetRow | None:
            row = self._connection.execute(
                f"SELECT {_SET_COLUMNS} FROM sets NOT INDEXED WHERE {where} AND id = ?",
                (*parameters, number),
            ).fetchone()
            return self._whole_set_row(row) if row is not None else None

        started_at, last = time.monotonic(), self.last_set_id()
        if order == "id":
            return self._sets.read(after, last, limit, read)
        # All must be looked at to find the first.
        if started_at < self._walks_again_at:
            return []
        found = sorted(self._sets.read(after, last, last, read), key=lambda row: row.at)
        took_s = time.monotonic() - started_at
        self._walks_again_at = started_at + max(WALK_EVERY_S, took_s / WALK_SHARE)
        return found[:limit]

    def _whole_set_rows(self, rows: Iterable[tuple[Any, ...]]) -> list[SetRow]:
        return [row for row in map(self._whole_set_row, rows) if row is not None]

    def _whole_set_row(self, row: tuple[Any, ...]) -> SetRow | None:
        kind, at, jid, jobtype, payload, number, checksum = row
        if number in self.gone:
            return None
        try:
            found = SetRow(kind.decode(), at, jid.decode(), jobtype.decode(), payload, number)
            if checksum == UNCHECKED:
                from_row(0, payload)
                return found
            if of_set_row(found.kind, found.jid, found.jobtype, payload) == checksum:
                return found
        except (AttributeError, *_NO_JOB):
            pass
        self.damage.found_record("sets", number, "the job is not as it was stored")
        return None


def _in_set(kind: str, choice: Choice) -> tuple[str, tuple[Any, ...]]:
    return f"kind = ? AND ({choice.where})", (kind, *choice.parameters)


def _within(rows: list[SetRow], max_bytes: int) -> list[SetRow]:
    """As many from the first on as have so many bytes together; at least one."""
    total = 0
    for place, row in enumerate(rows):
        total += len(row.payload)
        if place and total > max_bytes:
            return rows[:place]
    return rows

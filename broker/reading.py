"""Reads, in the loop's thread: a page of jobs takes about a millisecond."""

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from broker.batches import STATEMENT_BYTES, SetRow
from broker.schema import SEQUENCE_BITS


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


def read_snapshot(connection: sqlite3.Connection) -> Snapshot:
    read = connection.execute
    counters = dict(read("SELECT name, value FROM counters"))
    was_closed = bool(counters.pop("closed", 1))
    # Of jobs that are gone (QUEUE REMOVE). Their keys may be given out again from now on.
    read("DELETE FROM reservations WHERE key NOT IN (SELECT key FROM jobs)")
    return Snapshot(
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


class Reader:
    """State: a connection of its own, that may not write."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("PRAGMA query_only = 1")
        # One step gives a whole page of jobs, joined; it must not be decoded to text first.
        connection.text_factory = bytes

    def close(self) -> None:
        self._connection.close()

    def free_pages(self) -> int:
        return int(self._connection.execute("PRAGMA freelist_count").fetchone()[0])

    def read_jobs(self, after: int, upto: int, limit: int) -> list[tuple[int, bytes]]:
        """The next jobs with keys in (after, upto]."""
        while limit > 1 and self._page_bytes(after, upto, limit) > STATEMENT_BYTES:
            limit //= 2
        keys, payloads = self._connection.execute(
            "SELECT group_concat(key), group_concat(payload, char(10)) FROM (SELECT key, payload"
            " FROM jobs WHERE key > ? AND key <= ? ORDER BY key LIMIT ?)",
            (after, upto, limit),
        ).fetchone()
        if keys is None:
            return []
        return list(zip(map(int, keys.split(b",")), payloads.split(b"\n"), strict=True))

    def _page_bytes(self, after: int, upto: int, limit: int) -> int:
        (size,) = self._connection.execute(
            "SELECT total(length(payload)) FROM (SELECT payload FROM jobs"
            " WHERE key > ? AND key <= ? ORDER BY key LIMIT ?)",
            (after, upto, limit),
        ).fetchone()
        return int(size)

    def last_key(self, queue_id: int) -> int:
        """The highest key of a queue, or the one below its first."""
        first = queue_id << SEQUENCE_BITS
        upto = (queue_id + 1) << SEQUENCE_BITS
        (key,) = self._connection.execute(
            "SELECT max(key) FROM jobs WHERE key > ? AND key < ?", (first, upto)
        ).fetchone()
        return first if key is None else int(key)

    def newest_payloads(self, queue_id: int, limit: int) -> Iterator[bytes]:
        rows = self._connection.execute(
            "SELECT payload FROM jobs WHERE key > ? AND key < ? ORDER BY key DESC LIMIT ?",
            (queue_id << SEQUENCE_BITS, (queue_id + 1) << SEQUENCE_BITS, limit),
        )
        return (payload for (payload,) in rows)

    def newest_in_sets(self, limit: int) -> Iterator[str]:
        """Jids of jobs that are yet to be queued."""
        rows = self._connection.execute(
            "SELECT jid FROM sets WHERE kind != 'dead' ORDER BY id DESC LIMIT ?", (limit,)
        )
        return (jid.decode() for (jid,) in rows)

    def last_set_id(self) -> int:
        return int(self._connection.execute("SELECT ifnull(max(id), 0) FROM sets").fetchone()[0])

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

    def find_jid(self, jid: str) -> list[SetRow]:
        return self._set_rows("jid = ? ORDER BY id", jid, 10)

    def _set_rows(self, condition: str, *parameters: Any) -> list[SetRow]:
        rows = self._connection.execute(
            f"SELECT kind, at, jid, jobtype, payload, id FROM sets WHERE {condition} LIMIT ?",
            parameters,
        ).fetchall()
        return [
            SetRow(kind.decode(), at, jid.decode(), jobtype.decode(), payload, number)
            for kind, at, jid, jobtype, payload, number in rows
        ]

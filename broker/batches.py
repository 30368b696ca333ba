"""What is committed together, and how it is written.

Each kind of change is a single statement over a JSON list: the interpreter's lock is free while
SQLite works, where a statement per row would fight the loop for it twice per row.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from broker.schema import SEQUENCE_BITS

# SQLite refuses a value of a gigabyte: so much is written or read as one at most, or one job.
STATEMENT_BYTES = 128 * 1024 * 1024

SET_NAMES = ("scheduled", "retries", "dead")


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


def commit(writer: sqlite3.Connection, batch: Batch) -> None:
    write = writer.execute
    write("BEGIN IMMEDIATE")
    for sql, parameters in batch.statements:
        write(sql, parameters).fetchall()
    if batch.queues:
        writer.executemany(
            "INSERT INTO queues (id, name, is_paused, rows) VALUES (?, ?, ?, 0)"
            " ON CONFLICT (id) DO UPDATE SET is_paused = excluded.is_paused",
            batch.queues,
        )
    _insert_jobs(writer, [*batch.rows, *(row for push in batch.pushes for row in push.rows)])
    _insert_set_rows(
        writer, [*batch.set_rows, *(row for push in batch.pushes for row in push.set_rows)]
    )
    if batch.settled:
        keys = orjson.dumps(batch.settled).decode()
        write("DELETE FROM jobs WHERE key IN (SELECT value FROM json_each(?))", (keys,))
        _change_row_counts(writer, "-", "value", keys)
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


def _insert_jobs(writer: sqlite3.Connection, rows: list[tuple[int, bytes]]) -> None:
    if not rows:
        return
    places, at = [], 1
    for key, payload in rows:
        places.append((key, at, len(payload)))
        at += len(payload)
    if at > STATEMENT_BYTES and len(rows) > 1:
        _insert_jobs(writer, rows[: len(rows) // 2])
        _insert_jobs(writer, rows[len(rows) // 2 :])
        return
    listed = orjson.dumps(places).decode()
    writer.execute(
        "INSERT INTO jobs (key, payload)"
        " SELECT value->>0, substr(?2, value->>1, value->>2) FROM json_each(?1)",
        (listed, b"".join([payload for _, payload in rows])),
    )
    _change_row_counts(writer, "+", "value->>0", listed)


def _change_row_counts(writer: sqlite3.Connection, sign: str, key: str, listed: str) -> None:
    writer.execute(
        f"UPDATE queues SET rows = rows {sign} changed.number FROM"
        f" (SELECT ({key}) >> {SEQUENCE_BITS} AS queue, count(*) AS number FROM json_each(?)"
        " GROUP BY 1) AS changed WHERE id = changed.queue",
        (listed,),
    )


def _insert_set_rows(writer: sqlite3.Connection, rows: list[SetRow]) -> None:
    if len(rows) > 1 and sum(len(row.payload) for row in rows) > STATEMENT_BYTES:
        _insert_set_rows(writer, rows[: len(rows) // 2])
        _insert_set_rows(writer, rows[len(rows) // 2 :])
    elif rows:
        listed = [(r.kind, r.at, r.jid, r.jobtype, r.payload.decode()) for r in rows]
        writer.execute(
            "INSERT INTO sets (kind, at, jid, jobtype, payload) SELECT value->>0, value->>1,"
            " value->>2, value->>3, CAST(value->>4 AS BLOB) FROM json_each(?)",
            (orjson.dumps(listed).decode(),),
        )

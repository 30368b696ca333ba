"""What is committed together, and how it is written.

Each kind of change is a single statement over a JSON list, or over many rows: the interpreter's
lock is free while SQLite works, where a statement per row would fight the loop for it twice per
row.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from manyhands.broker.checksums import of_job, of_set_row
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.broker.tally import TALLY_NAMES, Tally

# So much is written by one statement at most, or one job: SQLite copies it several times over.
STATEMENT_BYTES = 8 * 1024 * 1024
# Jobs of one statement. A list of rows costs half of what a JSON list of them does, which SQLite
# would parse again for each value; powers of two, so that few statements serve every number.
STATEMENT_ROWS = 256

SET_NAMES = ("scheduled", "retries", "dead")
_DELETE_JOBS = "DELETE FROM jobs WHERE key IN (SELECT value FROM json_each(?))"
_DELETE_SET_ROWS = "DELETE FROM sets WHERE id IN (SELECT value FROM json_each(?))"
_INSERT_JOBS = {
    1 << power: "INSERT INTO jobs (key, payload, checksum) VALUES "
    + ", ".join(["(?, ?, ?)"] * (1 << power))
    for power in range(STATEMENT_ROWS.bit_length())
}
_NOTE = "INSERT OR IGNORE INTO gone SELECT {is_set}, value FROM json_each(?)"


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
        self.size_bytes = sum([len(payload) for _, payload in self.rows])
        if self.set_rows:
            self.size_bytes += sum([len(row.payload) for row in self.set_rows])


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
    # Of what is done: where the pages are damaged, it is only noted.
    is_noted_only: bool = False
    # Of all its jobs together.
    size_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        return self == _EMPTY

    def tally(self) -> Tally:
        """What its commit adds."""
        pushed = sum([len(push.rows) + len(push.set_rows) for push in self.pushes])
        return Tally(1, pushed, len(self.settled))

    def count(self, name: str, change: int) -> None:
        self.counters[name] = self.counters.get(name, 0) + change


_EMPTY = Batch()


def commit(writer: sqlite3.Connection, batch: Batch) -> Tally:
    """Returns what it adds to the tally."""
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
        write(_NOTE.format(is_set=0) if batch.is_noted_only else _DELETE_JOBS, (keys,))
        counts = Counter([key >> SEQUENCE_BITS for key in batch.settled])
        writer.executemany(
            "UPDATE queues SET rows = rows - ? WHERE id = ?",
            [(number, queue) for queue, number in counts.items()],
        )
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
        ids = orjson.dumps(batch.removed_set_ids).decode()
        write(_NOTE.format(is_set=1) if batch.is_noted_only else _DELETE_SET_ROWS, (ids,))
    scheduled = sum([len(push.set_rows) for push in batch.pushes])
    tally = batch.tally()
    changes = [*batch.counters.items(), *zip(TALLY_NAMES, tally, strict=True)]
    if scheduled:
        changes.append(("scheduled", scheduled))
    writer.executemany(
        "INSERT INTO counters (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
        changes,
    )
    write("COMMIT")
    return tally


def _insert_jobs(writer: sqlite3.Connection, rows: list[tuple[int, bytes]]) -> None:
    if not rows:
        return
    at = 0
    while at < len(rows):
        part = _statement_rows(rows, at)
        at += len(part)
        values: list[int | bytes] = []
        for key, payload in part:
            values += (key, payload, of_job(key, payload))
        writer.execute(_INSERT_JOBS[len(part)], values)
    # Keys of a queue come in their order, so the last one wins.
    last = {key >> SEQUENCE_BITS: key for key, _ in rows}
    counts = Counter([key >> SEQUENCE_BITS for key, _ in rows])
    writer.executemany(
        "UPDATE queues SET rows = rows + ?, last_key = max(last_key, ?) WHERE id = ?",
        [(number, last[queue], queue) for queue, number in counts.items()],
    )


def _statement_rows(rows: list[tuple[int, bytes]], at: int) -> list[tuple[int, bytes]]:
    """Those from there on that go into one statement."""
    number = min(STATEMENT_ROWS, 1 << (len(rows) - at).bit_length() - 1)
    part = rows[at : at + number]
    while len(part) > 1 and sum([len(payload) for _, payload in part]) > STATEMENT_BYTES:
        part = part[: len(part) // 2]
    return part


def _insert_set_rows(writer: sqlite3.Connection, rows: list[SetRow]) -> None:
    if len(rows) > 1 and sum(len(row.payload) for row in rows) > STATEMENT_BYTES:
        _insert_set_rows(writer, rows[: len(rows) // 2])
        _insert_set_rows(writer, rows[len(rows) // 2 :])
    elif len(rows) == 1:
        row = rows[0]
        writer.execute(
            "INSERT INTO sets (kind, at, jid, jobtype, payload, checksum)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(row.kind, row.at, row.jid, row.jobtype, row.payload),
                of_set_row(row.kind, row.jid, row.jobtype, row.payload),
            ),
        )
    elif rows:
        listed = [
            (
                r.kind,
                r.at,
                r.jid,
                r.jobtype,
                r.payload.decode(),
                of_set_row(r.kind, r.jid, r.jobtype, r.payload),
            )
            for r in rows
        ]
        writer.execute(
            "INSERT INTO sets (kind, at, jid, jobtype, payload, checksum) SELECT value->>0,"
            " value->>1, value->>2, value->>3, CAST(value->>4 AS BLOB), value->>5"
            " FROM json_each(?)",
            (orjson.dumps(listed).decode(),),
        )

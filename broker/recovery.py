"""`manyhands broker recover`: all that can be read of a damaged database, in a new directory."""

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from manyhands.broker.batches import SET_NAMES, SetRow
from manyhands.broker.checksums import of_job, of_set_row
from manyhands.broker.directory import DATABASE, DirectoryLock, connect, open_read_only
from manyhands.broker.jobs import decode_one
from manyhands.broker.pages import Pages, Record
from manyhands.broker.progress import Progress
from manyhands.broker.schema import PAGE_BYTES, SEQUENCE_BITS, VERSION, UnusableDatabase, check
from manyhands.shared.errors import ConfigError
from manyhands.shared.jobs import DEFAULT_QUEUE

WRITTEN_AT_ONCE = 5_000


class Recovered:
    """State: what was found so far, as numbers; the queues of a number, by what its jobs say."""

    def __init__(self, target: sqlite3.Connection, gone: set[tuple[int, int]]) -> None:
        self._target = target
        self._gone = gone
        self.unreadable = 0
        self.rows: Counter[tuple[int, str]] = Counter()
        self.sets: Counter[str] = Counter()
        self._jobs: list[tuple[int, bytes, int]] = []
        self._set_rows: list[tuple[Any, ...]] = []

    def add(self, record: Record | None) -> None:
        """One of any table; which, its shape tells."""
        if record is None:
            self.unreadable += 1
            return
        match record.values:
            case [None, bytes(payload)]:
                self._add_job(record.key, payload, None)
            case [None, bytes(payload), int() | None as checksum]:
                self._add_job(record.key, payload, checksum)
            case [None, str(kind), int() | float() as at, str(jid), str(jobtype), bytes(payload)]:
                self._add_set_row(SetRow(kind, at, jid, jobtype, payload, record.key), None)
            case [
                None,
                str(kind),
                int() | float() as at,
                str(jid),
                str(jobtype),
                bytes(payload),
                int() | None as checksum,
            ]:
                self._add_set_row(SetRow(kind, at, jid, jobtype, payload, record.key), checksum)
            case _:
                return
        if len(self._jobs) + len(self._set_rows) >= WRITTEN_AT_ONCE:
            self.write()

    def _add_job(self, key: int, payload: bytes, checksum: int | None) -> None:
        right = of_job(key, payload)
        try:
            if checksum not in (None, right):
                raise ValueError
            queue = decode_one(payload).queue
        except (ValueError, msgspec.DecodeError):
            self.unreadable += 1
            return
        if (0, key) in self._gone:
            return
        self.rows[key >> SEQUENCE_BITS, queue or DEFAULT_QUEUE] += 1
        self._jobs.append((key, payload, right))

    def _add_set_row(self, row: SetRow, checksum: int | None) -> None:
        right = of_set_row(row.kind, row.jid, row.jobtype, row.payload)
        try:
            if checksum not in (None, right) or row.kind not in SET_NAMES:
                raise ValueError
            decode_one(row.payload)
        except (ValueError, msgspec.DecodeError):
            self.unreadable += 1
            return
        if (1, row.id) in self._gone:
            return
        self.sets[row.kind] += 1
        self._set_rows.append((row.id, row.kind, row.at, row.jid, row.jobtype, row.payload, right))

    def write(self) -> None:
        self._target.executemany("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?)", self._jobs)
        self._target.executemany(
            "INSERT OR IGNORE INTO sets VALUES (?, ?, ?, ?, ?, ?, ?)", self._set_rows
        )
        self._jobs.clear()
        self._set_rows.clear()

    def finish(self, paused: set[str], counters: dict[str, int]) -> None:
        """The queues and the counts, which follow from what was found."""
        self.write()
        names = names_by_most(self.rows)
        for number, name in [pair for pair in self.rows if names.get(pair[0]) != pair[1]]:
            self._drop(number, name)
        self._target.executemany(
            "INSERT INTO queues (id, name, is_paused, rows, last_key)"
            " SELECT ?1, ?2, ?3, count(*), max(key) FROM jobs WHERE key > ?4 AND key < ?5",
            [(number, name, name in paused, *_keys_of(number)) for number, name in names.items()],
        )
        self._target.executemany(
            "INSERT OR REPLACE INTO counters VALUES (?, ?)",
            [*counters.items(), *self.sets.items(), ("closed", 0)],
        )

    def _drop(self, number: int, name: str) -> None:
        """Jobs under a key of another queue: the checksum covers the key's lower half alone."""
        kept = self._target.execute(
            "SELECT key, payload FROM jobs WHERE key > ? AND key < ?", _keys_of(number)
        )
        wrong = [
            (key,)
            for key, payload in kept.fetchall()
            if (decode_one(payload).queue or DEFAULT_QUEUE) == name
        ]
        self._target.executemany("DELETE FROM jobs WHERE key = ?", wrong)
        self.unreadable += self.rows.pop((number, name))


def names_by_most(rows: Mapping[tuple[int, str], int]) -> dict[int, str]:
    """Which queue each number means, if damaged keys or names claim more than one: what most jobs
    say. A number has one name, and a name one number."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    for number, name in sorted(rows, key=lambda pair: rows[pair], reverse=True):
        if number not in names and name not in taken:
            names[number] = name
            taken.add(name)
    return names


def _keys_of(number: int) -> tuple[int, int]:
    """Both ends excluded."""
    return number << SEQUENCE_BITS, (number + 1) << SEQUENCE_BITS


def recover(directory: Path, target: Path, progress: Progress) -> list[str]:
    """Copy; returns what there is to say."""
    source = directory / DATABASE
    if not source.exists():
        raise ConfigError(f"{source} does not exist")
    with DirectoryLock(directory), DirectoryLock(target):
        if (target / DATABASE).exists():
            raise ConfigError(f"{target / DATABASE} exists already: recover into an empty place")
        part = target / (DATABASE + ".part")
        part.unlink(missing_ok=True)
        small = _small_tables(source)
        with contextlib.closing(connect(part, is_full_sync=True)) as database:
            database.execute("BEGIN")
            found = Recovered(database, small.gone)
            with contextlib.closing(Pages(source, PAGE_BYTES)) as pages:
                for number in progress.over(range(1, pages.count + 1), "pages"):
                    for record in pages.records(number):
                        found.add(record)
            found.finish(small.paused, small.counters)
            database.execute("COMMIT")
            # Alone it must have everything: it is renamed.
            database.execute("PRAGMA journal_mode = DELETE").fetchall()
        part.rename(target / DATABASE)
    return _told(found, small.expected, target)


class SmallTables(NamedTuple):
    """The paused queues, what is done and could not be deleted, how many jobs there are said to be,
    and the counts."""

    paused: set[str]
    gone: set[tuple[int, int]]
    expected: int | None
    counters: dict[str, int]


def _small_tables(source: Path) -> SmallTables:
    """Where they cannot be read, jobs know their queue, and the counts begin anew."""
    try:
        with contextlib.closing(open_read_only(source)) as database:
            queues = database.execute("SELECT name, is_paused, rows FROM queues").fetchall()
            counters = dict(database.execute("SELECT name, value FROM counters"))
            is_older = check(database) < VERSION
            gone = [] if is_older else database.execute("SELECT is_set, key FROM gone").fetchall()
    except (sqlite3.DatabaseError, UnusableDatabase):
        return SmallTables(set(), set(), None, {})
    expected = sum(rows for *_, rows in queues)
    expected += sum(counters.pop(name, 0) for name in SET_NAMES)
    paused = {name for name, is_paused, _ in queues if is_paused}
    return SmallTables(paused, set(gone), expected, counters)


def _told(found: Recovered, expected: int | None, target: Path) -> list[str]:
    jobs, in_sets = sum(found.rows.values()), sum(found.sets.values())
    lines = [f"{jobs} queued jobs and {in_sets} of the sets were copied to {target / DATABASE}"]
    if expected is None:
        lines.append("how many there were cannot be told: the tables that count them are damaged")
    elif (missing := expected - jobs - in_sets) > 0:
        lines.append(f"{missing} jobs of {expected} could not be read")
    if found.unreadable:
        lines.append(f"{found.unreadable} records were there and are not as they were stored")
    lines.append("jobs that were in hand are queued again; the damaged files were left as they are")
    return lines

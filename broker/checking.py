"""`manyhands broker check`: every page, every job and every count of a database.

Beside a running broker too: it sees one moment of it. Its log cannot be emptied meanwhile.
"""

import contextlib
import sqlite3
from pathlib import Path

from manyhands.broker.batches import SET_NAMES
from manyhands.broker.choices import EVERY_JOB
from manyhands.broker.damage import Damage
from manyhands.broker.directory import DATABASE, findings, open_read_only
from manyhands.broker.progress import Progress
from manyhands.broker.reading import Reader, read_tally_of
from manyhands.broker.schema import SEQUENCE_BITS, VERSION, UnusableDatabase, check
from manyhands.broker.tally import read_tally, what_is_lost
from manyhands.shared.errors import ConfigError

JOBS_AT_ONCE = 1000
MOST_BYTES = 16 * 1024 * 1024


def check_all(directory: Path, progress: Progress) -> list[str]:
    """What is wrong, as sentences."""
    path = directory / DATABASE
    if not path.exists():
        raise ConfigError(f"{path} does not exist")
    # Before the database is looked at: it may only be ahead.
    answered = read_tally(directory)
    with contextlib.closing(open_read_only(path)) as database:
        try:
            if check(database) != VERSION:
                raise ConfigError(f"{path} is of an earlier release: start the broker once")
            database.execute("BEGIN")
            lost = what_is_lost(answered, read_tally_of(database))
        except (UnusableDatabase, sqlite3.DatabaseError) as error:
            return [f"{path} cannot be used: {error}"]
        problems = [f"{path}: {finding}" for finding in findings(database, "integrity_check")]
        if lost is not None:
            problems.append(f"{path}: {lost}")
        return problems + _check_records(database, path, progress)


def _check_records(database: sqlite3.Connection, path: Path, progress: Progress) -> list[str]:
    try:
        queues = database.execute("SELECT id, name, rows, last_key FROM queues").fetchall()
        counters = dict(database.execute("SELECT name, value FROM counters"))
    except sqlite3.DatabaseError as error:
        return [f"{path}: the tables that count the jobs cannot be read: {error}"]
    damage = Damage(path)
    reader = Reader(database, damage)
    total = sum(rows for _, _, rows, _ in queues) + sum(counters.get(n, 0) for n in SET_NAMES)
    problems: list[str] = []
    done = 0
    for number, name, rows, last_key in queues:
        found, after = 0, number << SEQUENCE_BITS
        while page := reader.read_jobs(after, last_key, JOBS_AT_ONCE):
            found, done, after = found + len(page), done + len(page), page[-1][0]
            progress.tell(done, total, "jobs")
        if found != rows:
            problems.append(f"{path}: queue {name}: {found} jobs can be read of {rows}")
    for kind in SET_NAMES:
        found, after = 0, 0
        while set_rows := reader.find(
            kind, EVERY_JOB, after=after, limit=JOBS_AT_ONCE, max_bytes=MOST_BYTES
        ).rows:
            found, done, after = found + len(set_rows), done + len(set_rows), set_rows[-1].id
            progress.tell(done, total, "jobs")
        if found != counters.get(kind, 0):
            said = counters.get(kind, 0)
            problems.append(f"{path}: set {kind}: {found} jobs can be read of {said}")
    return [f"{path}: {place}" for place in damage.places] + problems

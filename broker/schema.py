"""The database: its tables, its version, and how an older one becomes the present one."""

import sqlite3

APPLICATION_ID = 0x4D48_4252  # "MHBR": tells our files from other people's
PAGE_BYTES = 8192

# A job's key is its queue's number and a sequence that only grows, so a queue is a range of keys:
# pushes append, FETCH reads forward, and no second index has to be kept.
SEQUENCE_BITS = 40

_FIRST = """
CREATE TABLE queues (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    is_paused INTEGER NOT NULL, rows INTEGER NOT NULL
);
CREATE TABLE jobs (key INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE reservations (
    key INTEGER PRIMARY KEY, is_held INTEGER NOT NULL, owner TEXT, wid TEXT NOT NULL,
    since REAL NOT NULL, reserved_until REAL NOT NULL, given_back INTEGER NOT NULL
);
CREATE TABLE sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, at REAL NOT NULL,
    jid TEXT NOT NULL, jobtype TEXT NOT NULL, payload BLOB NOT NULL
);
CREATE INDEX sets_by_time ON sets (kind, at);
CREATE INDEX sets_by_jid ON sets (jid);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""

# Rows of before have no checksum, and are not checked. What cannot be deleted because a page beside
# it is damaged is listed as gone, and passed over. `last_key` only grows, so that no key has to
# be looked for in the jobs themselves, where a page may be damaged.
_CHECKSUMS = f"""
ALTER TABLE jobs ADD COLUMN checksum INTEGER;
ALTER TABLE sets ADD COLUMN checksum INTEGER;
ALTER TABLE queues ADD COLUMN last_key INTEGER NOT NULL DEFAULT 0;
CREATE TABLE gone (
    is_set INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (is_set, key)
) WITHOUT ROWID;
UPDATE queues SET last_key = (
    SELECT ifnull(max(key), 0) FROM jobs
    WHERE key > queues.id << {SEQUENCE_BITS} AND key < (queues.id + 1) << {SEQUENCE_BITS}
);
"""

# The n-th script brings a database from version n to n + 1. Never change one that was released.
MIGRATIONS = (_FIRST, _CHECKSUMS)
VERSION = len(MIGRATIONS)


def key_ranges(chosen: set[int], others: set[int]) -> list[tuple[int, int]]:
    """As few ranges of keys (both ends excluded) as cover the chosen queues and no other."""
    runs: list[list[int]] = []
    is_open = False
    for number in sorted(chosen | others):
        if number not in chosen:
            is_open = False
        elif is_open:
            runs[-1][1] = number
        else:
            runs.append([number, number])
            is_open = True
    return [(first << SEQUENCE_BITS, (last + 1) << SEQUENCE_BITS) for first, last in runs]


class UnusableDatabase(Exception):
    """The file cannot be used; the message says why, and nothing was written to it."""


def check(connection: sqlite3.Connection) -> int:
    """The version of a file that is ours; 0 if it is empty. Writes nothing."""
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise UnusableDatabase(f"it is damaged: {error}") from error
    if not is_empty and application != APPLICATION_ID:
        raise UnusableDatabase("it is a database of some other program")
    if version > VERSION:
        raise UnusableDatabase(f"it was written by a later release (version {version})")
    return version


def prepare(connection: sqlite3.Connection) -> None:
    """Bring a file that is ours to the present version."""
    version = check(connection)
    if version == 0:
        # Before the first table, or not at all; and never in somebody else's file.
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    for step in range(version, VERSION):
        connection.executescript(
            f"BEGIN; {MIGRATIONS[step]}; PRAGMA application_id = {APPLICATION_ID};"
            f" PRAGMA user_version = {step + 1}; COMMIT;"
        )

"""The tables of the state's files, their version, and how an older file becomes a present one.

Lists of statements, not scripts: a migration is one transaction, and a script would end it.
"""

from dataclasses import dataclass

from manyhands.shared.crawl.store.schema_words import (
    IS_ENDED_JOB,
    IS_LISTED,
    IS_QUEUED,
    IS_UNTOLD,
    UNKNOWN_DELAY_S,
)

_CONTROL_FIRST = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO facts VALUES ('version', 0)",
    # `until` is on the monotonic clock of the boot that is named beside it.
    "CREATE TABLE members ("
    " name TEXT PRIMARY KEY, slots INTEGER NOT NULL, figures TEXT NOT NULL,"
    " boot TEXT NOT NULL, until REAL NOT NULL"
    ") WITHOUT ROWID",
    "CREATE TABLE leases ("
    " shard INTEGER PRIMARY KEY, owner TEXT NOT NULL, epoch INTEGER NOT NULL,"
    " boot TEXT NOT NULL, until REAL NOT NULL)",
    "CREATE TABLE leader ("
    " id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL,"
    " boot TEXT NOT NULL, until REAL NOT NULL)",
    "CREATE TABLE crawls ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, spec TEXT NOT NULL, state TEXT NOT NULL,"
    " ends_as TEXT, reason TEXT NOT NULL DEFAULT '', created_at REAL NOT NULL,"
    " started_at REAL, ended_at REAL, has_all_seeds INTEGER NOT NULL DEFAULT 0,"
    " seed_file_lines INTEGER NOT NULL DEFAULT 0,"
    " idempotency_key TEXT UNIQUE, fingerprint BLOB NOT NULL)",
    "CREATE INDEX crawls_by_state ON crawls (state)",
    # `urls` is a JSON list.
    "CREATE TABLE seeds ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, shard INTEGER NOT NULL, crawl INTEGER NOT NULL,"
    " urls BLOB NOT NULL)",
    "CREATE INDEX seeds_by_shard ON seeds (shard)",
    "CREATE INDEX seeds_by_crawl ON seeds (crawl)",
    # `crawl` 0 is for all crawls.
    "CREATE TABLE rules ("
    " crawl INTEGER NOT NULL, domain TEXT NOT NULL, delay_s REAL, is_blocked INTEGER NOT NULL,"
    " PRIMARY KEY (crawl, domain)) WITHOUT ROWID",
    "CREATE TABLE purges ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, shard INTEGER NOT NULL, crawl INTEGER NOT NULL,"
    " domain TEXT NOT NULL)",
    "CREATE INDEX purges_by_shard ON purges (shard)",
    "CREATE TABLE grants ("
    " crawl INTEGER NOT NULL, member TEXT NOT NULL, pages INTEGER NOT NULL,"
    " PRIMARY KEY (crawl, member)) WITHOUT ROWID",
    "CREATE TABLE notes ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, crawl INTEGER NOT NULL, at REAL NOT NULL,"
    " text TEXT NOT NULL)",
    "CREATE INDEX notes_by_crawl ON notes (crawl)",
)

_SHARD_FIRST = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO facts VALUES ('epoch', 0)",
    "CREATE TABLE counters ("
    " crawl INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,"
    " PRIMARY KEY (crawl, name)) WITHOUT ROWID",
    "CREATE TABLE seen ("
    " crawl INTEGER NOT NULL, key BLOB NOT NULL, url INTEGER NOT NULL,"
    " PRIMARY KEY (crawl, key)) WITHOUT ROWID",
    # `epoch` is that of the claim, as long as its owner owes an answer; else 0. What changes
    # comes before the long text.
    "CREATE TABLE urls ("
    " id INTEGER PRIMARY KEY, crawl INTEGER NOT NULL, origin INTEGER NOT NULL,"
    " state INTEGER NOT NULL DEFAULT 0, epoch INTEGER NOT NULL DEFAULT 0,"
    " attempts INTEGER NOT NULL DEFAULT 0, not_before REAL NOT NULL DEFAULT 0,"
    " status INTEGER NOT NULL DEFAULT 0, updated_at REAL NOT NULL,"
    " depth INTEGER NOT NULL, redirects INTEGER NOT NULL, key BLOB NOT NULL, url TEXT NOT NULL,"
    " reason TEXT NOT NULL DEFAULT '')",
    f"CREATE INDEX urls_queued ON urls (crawl, origin, not_before) WHERE {IS_QUEUED}",
    f"CREATE INDEX urls_listed ON urls (crawl, state) WHERE {IS_LISTED}",
    # `taken` is the epoch of the owner that has it in memory; else 0.
    "CREATE TABLE domains ("
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, queued INTEGER NOT NULL DEFAULT 0,"
    " next_at REAL NOT NULL DEFAULT 0,"
    f" delay_s REAL NOT NULL DEFAULT {UNKNOWN_DELAY_S}, taken INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX domains_due ON domains (next_at) WHERE queued > 0 AND taken = 0",
    "CREATE INDEX domains_taken ON domains (taken) WHERE taken <> 0",
    "CREATE TABLE origins ("
    " id INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE, domain INTEGER NOT NULL,"
    " queued INTEGER NOT NULL DEFAULT 0, ready_at REAL NOT NULL DEFAULT 0,"
    " notes BLOB NOT NULL DEFAULT x'')",
    "CREATE INDEX origins_waiting ON origins (domain, ready_at) WHERE queued > 0",
    "CREATE INDEX origins_of_domain ON origins (domain)",
    # Ever admitted: what the limit of a host is held against.
    "CREATE TABLE hosts ("
    " crawl INTEGER NOT NULL, origin INTEGER NOT NULL, admitted INTEGER NOT NULL,"
    " PRIMARY KEY (crawl, origin)) WITHOUT ROWID",
    # Hosts and domains of the seeds; `domain` says which shard a name belongs to.
    "CREATE TABLE seed_names ("
    " crawl INTEGER NOT NULL, name TEXT NOT NULL, domain TEXT NOT NULL,"
    " PRIMARY KEY (crawl, name)) WITHOUT ROWID",
    "CREATE TABLE errors ("
    " crawl INTEGER NOT NULL, reason TEXT NOT NULL, count INTEGER NOT NULL,"
    " sample_url TEXT NOT NULL, first_at REAL NOT NULL, last_at REAL NOT NULL,"
    " PRIMARY KEY (crawl, reason)) WITHOUT ROWID",
    "CREATE TABLE robots ("
    " origin TEXT PRIMARY KEY, kind TEXT NOT NULL, fetched_at REAL NOT NULL,"
    " expires_at REAL NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE INDEX robots_by_age ON robots (fetched_at, expires_at, size)",
    # A batch's key is its target and its sequence in one number.
    "CREATE TABLE outgoing ("
    " key INTEGER PRIMARY KEY, crawl INTEGER NOT NULL, payload BLOB NOT NULL)",
    "CREATE TABLE sent (target INTEGER PRIMARY KEY, last INTEGER NOT NULL)",
    # All up to `up_to` have arrived, and those of `received_ahead` beyond it.
    "CREATE TABLE received (source INTEGER PRIMARY KEY, up_to INTEGER NOT NULL)",
    "CREATE TABLE received_ahead ("
    " source INTEGER NOT NULL, sequence INTEGER NOT NULL,"
    " PRIMARY KEY (source, sequence)) WITHOUT ROWID",
)


# Those that are left alone. Few ever are, so an origin that is no trouble never touches it.
_SHARD_PUT_OFF = ("CREATE INDEX origins_put_off ON origins (ready_at) WHERE ready_at > 0",)

# `job` is what a fetch job was; NULL for a URL of a crawl, and for a job whose failure was told.
_SHARD_JOBS = (
    "ALTER TABLE urls ADD COLUMN job TEXT",
    f"CREATE INDEX urls_untold ON urls (id) WHERE {IS_UNTOLD}",
    f"CREATE INDEX urls_ended_jobs ON urls (updated_at) WHERE {IS_ENDED_JOB}",
)

# Of unique fetch jobs: the last one of each URL that is fetched.
_SHARD_FIRST_JOBS = (
    "CREATE TABLE first_jobs ("
    " url_key TEXT PRIMARY KEY, domain TEXT NOT NULL, job TEXT NOT NULL, turn INTEGER NOT NULL,"
    " admitted_at REAL NOT NULL, until REAL NOT NULL) WITHOUT ROWID",
    "CREATE INDEX first_jobs_by_end ON first_jobs (until)",
)


# What a URL was followed with: JSON, for the page function that gets its page.
_SHARD_NOTES = ("ALTER TABLE urls ADD COLUMN note TEXT",)


@dataclass(frozen=True)
class Schema:
    """A kind of file: the n-th migration brings it from version n to n + 1. Never change one that
    was released."""

    application_id: int
    migrations: tuple[tuple[str, ...], ...]

    @property
    def version(self) -> int:
        return len(self.migrations)


# Tells the crawls of this directory from those of all others, whose numbers begin with 1, too.
_CONTROL_TAG = ("INSERT INTO facts VALUES ('tag', abs(random()) % (1 << 40))",)

# What crawls have of the files that they name. A text has its parts under the digest of the whole.
_CONTROL_FILES = (
    "CREATE TABLE texts ("
    " key BLOB NOT NULL, part INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (key, part))",
    "ALTER TABLE crawls ADD COLUMN exclusions_key BLOB",
    "CREATE TABLE seed_files ("
    " crawl INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER NOT NULL DEFAULT 0,"
    " digest BLOB NOT NULL, refused INTEGER NOT NULL DEFAULT 0, is_read INTEGER NOT NULL DEFAULT 0,"
    " trouble TEXT NOT NULL DEFAULT '', reader TEXT NOT NULL DEFAULT '',"
    " until REAL NOT NULL DEFAULT 0)",
)

# Unlike a block, a pause is meant to end.
_CONTROL_PAUSES = ("ALTER TABLE rules ADD COLUMN is_paused INTEGER NOT NULL DEFAULT 0",)

CONTROL = Schema(  # "MHCT"
    0x4D48_4354, (_CONTROL_FIRST, _CONTROL_TAG, _CONTROL_FILES, _CONTROL_PAUSES)
)
SHARD = Schema(  # "MHSH"
    0x4D48_5348, (_SHARD_FIRST, _SHARD_PUT_OFF, _SHARD_JOBS, _SHARD_FIRST_JOBS, _SHARD_NOTES)
)

"""The tables, and the version that they are brought to.

Each shard of each generation has tables of its own: `g1_s0007_urls`. So a generation goes as
quickly as its tables are dropped, autovacuum has many small tables to do instead of a few that it
never gets through, and an index holds the keys of one shard. In the statements of a shard, @ stands
before the name of such a table; in those of the control tables, before theirs.

Only `urls`, `domains`, `origins` and `counters` are updated. Their pages keep room for new versions
of their rows, and autovacuum comes soon. A row of `urls` is updated two or three times in its life;
`seen`, which has as many rows and a random order, never.

An update leaves the indexes alone as long as no value changes that one of them is about, in its
columns or its condition. So what is counted all the time (`queued`) is in none: `is_waiting` and
`due_at` are, which mostly stay what they are.
"""

from dataclasses import dataclass

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.schema_words import (
    IS_ENDED_JOB,
    IS_LISTED,
    IS_QUEUED,
    IS_UNTOLD,
    UNKNOWN_DELAY_S,
)

# The n-th migration brings a database from version n to n + 1. Never change one that was released.
_CONTROL_FIRST = (
    "CREATE TABLE @facts (name text PRIMARY KEY, value bigint NOT NULL)",
    "INSERT INTO @facts VALUES ('version', 0)",
    # `until` is on the clock of this database, in seconds since 1970.
    "CREATE TABLE @members ("
    " name text PRIMARY KEY, slots integer NOT NULL, figures text NOT NULL,"
    " until double precision NOT NULL)",
    "CREATE TABLE @leases ("
    " shard integer PRIMARY KEY, owner text NOT NULL, epoch bigint NOT NULL,"
    " until double precision NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE @leader ("
    " id integer PRIMARY KEY CHECK (id = 1), name text NOT NULL, until double precision NOT NULL)",
    "CREATE TABLE @crawls ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, spec text NOT NULL, state text NOT NULL,"
    " ends_as text, reason text NOT NULL DEFAULT '', created_at double precision NOT NULL,"
    " started_at double precision, ended_at double precision,"
    " has_all_seeds boolean NOT NULL DEFAULT false, seed_file_lines bigint NOT NULL DEFAULT 0,"
    " idempotency_key text UNIQUE, fingerprint bytea NOT NULL, exclusions text)",
    "CREATE INDEX ON @crawls (state)",
    # `urls` is a JSON list.
    "CREATE TABLE @seeds ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL,"
    " crawl bigint NOT NULL, urls bytea NOT NULL)",
    "CREATE INDEX ON @seeds (shard)",
    "CREATE INDEX ON @seeds (crawl)",
    # `crawl` 0 is for all crawls.
    "CREATE TABLE @rules ("
    " crawl bigint NOT NULL, domain text NOT NULL, delay_s double precision,"
    " is_blocked boolean NOT NULL, PRIMARY KEY (crawl, domain))",
    "CREATE TABLE @purges ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard integer NOT NULL,"
    " crawl bigint NOT NULL, domain text NOT NULL)",
    "CREATE INDEX ON @purges (shard)",
    "CREATE TABLE @grants ("
    " crawl bigint NOT NULL, member text NOT NULL, pages bigint NOT NULL,"
    " PRIMARY KEY (crawl, member))",
    "CREATE TABLE @notes ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, crawl bigint NOT NULL,"
    " at double precision NOT NULL, text text NOT NULL)",
    "CREATE INDEX ON @notes (crawl)",
    # Of every shard that has had an owner: its epoch, the number of its last transaction that wrote
    # something, and the id of its next URL.
    "CREATE TABLE @shards ("
    " generation integer NOT NULL, shard integer NOT NULL, version integer NOT NULL,"
    " epoch bigint NOT NULL, batch bigint NOT NULL, next_url bigint NOT NULL,"
    " PRIMARY KEY (generation, shard)) WITH (fillfactor = 20)",
)
# Seconds that a request of the shard's last owner may last; NULL: it had none.
_CONTROL_LONGEST_FETCH = ("ALTER TABLE @shards ADD COLUMN longest_fetch_s double precision",)
# What crawls have of the files that they name. A text has its parts, which are packed, under the
# digest of the whole.
_CONTROL_FILES = (
    "CREATE TABLE @texts ("
    " key bytea NOT NULL, part integer NOT NULL, body bytea NOT NULL, PRIMARY KEY (key, part))",
    "ALTER TABLE @texts ALTER COLUMN body SET STORAGE EXTERNAL",
    "ALTER TABLE @crawls ADD COLUMN exclusions_key bytea",
    "CREATE TABLE @seed_files ("
    " crawl bigint PRIMARY KEY, name text NOT NULL, size bigint NOT NULL DEFAULT 0,"
    " digest bytea NOT NULL, refused bigint NOT NULL DEFAULT 0,"
    " is_read boolean NOT NULL DEFAULT false, trouble text NOT NULL DEFAULT '',"
    " reader text NOT NULL DEFAULT '', until double precision NOT NULL DEFAULT 0)",
)
# Unlike a block, a pause is meant to end.
_CONTROL_PAUSES = ("ALTER TABLE @rules ADD COLUMN is_paused boolean NOT NULL DEFAULT false",)
CONTROL = (_CONTROL_FIRST, _CONTROL_LONGEST_FETCH, _CONTROL_FILES, _CONTROL_PAUSES)

_UPDATED = "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05"
_UPDATED_OFTEN = "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05"
_SHARD_FIRST = (
    "CREATE TABLE @counters ("
    " crawl bigint NOT NULL, name text NOT NULL, value bigint NOT NULL,"
    f" PRIMARY KEY (crawl, name)) WITH ({_UPDATED_OFTEN})",
    "CREATE TABLE @seen ("
    " crawl bigint NOT NULL, url bigint NOT NULL, key uuid NOT NULL, PRIMARY KEY (crawl, key))",
    # `epoch` is that of the claim, as long as its owner owes an answer; else 0. Wide columns come
    # first, so that nothing is lost to alignment.
    "CREATE TABLE @urls ("
    " id bigint PRIMARY KEY, crawl bigint NOT NULL, origin bigint NOT NULL,"
    " epoch bigint NOT NULL DEFAULT 0, not_before double precision NOT NULL DEFAULT 0,"
    " updated_at double precision NOT NULL, depth integer NOT NULL, redirects integer NOT NULL,"
    " status integer NOT NULL DEFAULT 0, attempts integer NOT NULL DEFAULT 0,"
    f" state smallint NOT NULL DEFAULT {UrlState.QUEUED:d}, key uuid NOT NULL, url text NOT NULL,"
    f" reason text NOT NULL DEFAULT '') WITH ({_UPDATED})",
    f"CREATE INDEX @@urls_queued ON @urls (crawl, origin, not_before, id) WHERE {IS_QUEUED}",
    f"CREATE INDEX @@urls_listed ON @urls (crawl, state, id) WHERE {IS_LISTED}",
    # `taken` is the epoch of the owner that has it in memory; else 0.
    "CREATE TABLE @domains ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,"
    " queued bigint NOT NULL DEFAULT 0, next_at double precision NOT NULL DEFAULT 0,"
    f" delay_s double precision NOT NULL DEFAULT {UNKNOWN_DELAY_S},"
    " taken bigint NOT NULL DEFAULT 0, due_at double precision GENERATED ALWAYS AS"
    " (CASE WHEN queued > 0 AND taken = 0 THEN next_at END) STORED)"
    f" WITH ({_UPDATED_OFTEN})",
    "CREATE INDEX @@domains_due ON @domains (due_at, id) WHERE due_at IS NOT NULL",
    "CREATE INDEX @@domains_taken ON @domains (taken) WHERE taken <> 0",
    "CREATE TABLE @origins ("
    " id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, origin text NOT NULL UNIQUE,"
    " domain bigint NOT NULL, queued bigint NOT NULL DEFAULT 0,"
    " ready_at double precision NOT NULL DEFAULT 0, notes bytea NOT NULL DEFAULT '',"
    " is_waiting boolean GENERATED ALWAYS AS (queued > 0) STORED)"
    f" WITH ({_UPDATED_OFTEN})",
    "CREATE INDEX @@origins_waiting ON @origins (domain, ready_at, id) WHERE is_waiting",
    "CREATE INDEX @@origins_put_off ON @origins (ready_at) WHERE ready_at > 0",
    # Ever admitted: what the limit of a host is held against.
    "CREATE TABLE @hosts ("
    " crawl bigint NOT NULL, origin bigint NOT NULL, admitted bigint NOT NULL,"
    f" PRIMARY KEY (crawl, origin)) WITH ({_UPDATED_OFTEN})",
    # Hosts and domains of the seeds; `domain` says which shard a name belongs to.
    "CREATE TABLE @seed_names ("
    " crawl bigint NOT NULL, name text NOT NULL, domain text NOT NULL, PRIMARY KEY (crawl, name))",
    "CREATE TABLE @errors ("
    " crawl bigint NOT NULL, reason text NOT NULL, count bigint NOT NULL, sample_url text NOT NULL,"
    " first_at double precision NOT NULL, last_at double precision NOT NULL,"
    " PRIMARY KEY (crawl, reason))",
    "CREATE TABLE @robots ("
    " origin text PRIMARY KEY, kind text NOT NULL, fetched_at double precision NOT NULL,"
    " expires_at double precision NOT NULL, size bigint NOT NULL, body bytea NOT NULL)",
    "CREATE INDEX @@robots_by_age ON @robots (fetched_at DESC, origin) INCLUDE (size)",
    "CREATE INDEX @@robots_expired ON @robots (expires_at)",
    "CREATE TABLE @outgoing ("
    " target integer NOT NULL, sequence bigint NOT NULL, crawl bigint NOT NULL,"
    " payload bytea NOT NULL, PRIMARY KEY (target, sequence))",
    "CREATE TABLE @sent (target integer PRIMARY KEY, last bigint NOT NULL)",
    # All up to `up_to` have arrived, and those of `received_ahead` beyond it.
    "CREATE TABLE @received (source integer PRIMARY KEY, up_to bigint NOT NULL)",
    "CREATE TABLE @received_ahead ("
    " source integer NOT NULL, sequence bigint NOT NULL, PRIMARY KEY (source, sequence))",
)
# `job` is what a fetch job was; NULL for a URL of a crawl, and for a job whose failure was told.
_SHARD_JOBS = (
    "ALTER TABLE @urls ADD COLUMN job text",
    f"CREATE INDEX @@urls_untold ON @urls (id) WHERE {IS_UNTOLD}",
    f"CREATE INDEX @@urls_ended_jobs ON @urls (updated_at) WHERE {IS_ENDED_JOB}",
)
# Of unique fetch jobs: the last one of each URL that is fetched.
_SHARD_FIRST_JOBS = (
    "CREATE TABLE @first_jobs ("
    " url_key text PRIMARY KEY, domain text NOT NULL, job text NOT NULL, turn integer NOT NULL,"
    " admitted_at double precision NOT NULL, until double precision NOT NULL)",
    "CREATE INDEX @@first_jobs_by_end ON @first_jobs (until)",
)
# What a URL was followed with: JSON, for the page function that gets its page.
_SHARD_NOTES = ("ALTER TABLE @urls ADD COLUMN note text",)
SHARD = (_SHARD_FIRST, _SHARD_JOBS, _SHARD_FIRST_JOBS, _SHARD_NOTES)


@dataclass(frozen=True, slots=True)
class Names:
    """What stands before the name of a table in its schema."""

    schema: str
    prefix: str = ""

    def sql(self, text: str) -> str:
        """With tables by their full names. An index is named without its schema, which is that of
        its table."""
        return text.replace("@@", self.prefix).replace("@", f"{self.schema}.{self.prefix}")


def shard_names(schema: str, generation: int, shard: int) -> Names:
    return Names(schema, f"g{generation}_s{shard:04}_")

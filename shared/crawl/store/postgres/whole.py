"""A state in PostgreSQL as a whole, see `whole.protocol`."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import NO_FETCHES
from manyhands.shared.crawl.store.postgres.arrays import numbers, texts, uuids
from manyhands.shared.crawl.store.postgres.control import PostgresControl
from manyhands.shared.crawl.store.postgres.database import Database
from manyhands.shared.crawl.store.postgres.fence import Fence
from manyhands.shared.crawl.store.postgres.links import PostgresLinks
from manyhands.shared.crawl.store.postgres.migration import check_part
from manyhands.shared.crawl.store.postgres.schema import CONTROL, Names, shard_names
from manyhands.shared.crawl.store.postgres.store import PostgresStore
from manyhands.shared.crawl.store.postgres.tables import ShardTables
from manyhands.shared.crawl.store.postgres.tally_rows import PostgresTallyRows
from manyhands.shared.crawl.store.rows import TallyRows
from manyhands.shared.crawl.store.whole.new_shards import NewShards
from manyhands.shared.crawl.store.whole.protocol import facts_of
from manyhands.shared.crawl.store.whole.tables import Row

# Nothing of a new generation counts before it is complete: only its last commits are waited for.
_NEED_NOT_WAIT = "SELECT set_config('synchronous_commit', 'off', true)"
_OUTGOING = (
    "SELECT target, sequence, crawl, payload FROM @outgoing WHERE (target, sequence) > (%s, %s)"
    " ORDER BY target, sequence LIMIT %s"
)
# Origins are looked up one by one, whatever the planner knows of tables that are so new.
_ADD_URLS = (
    "INSERT INTO @urls (id, origin, crawl, state, attempts, not_before, status, updated_at, depth,"
    " redirects, key, url, reason, job, note) SELECT %s + place - 1, (SELECT id FROM"
    " @origins AS origins WHERE origins.origin = given.origin), crawl, state, attempts, not_before,"
    " status, updated_at, depth, redirects, key, url, reason, nullif(job, ''),"
    " nullif(note, '')"
    " FROM unnest(%s::text[], %s::bigint[], %s::smallint[], %s::integer[], %s::float8[],"
    " %s::integer[], %s::float8[], %s::integer[], %s::integer[], %s::uuid[], %s::text[],"
    " %s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS given (origin, crawl, state, attempts,"
    " not_before, status, updated_at, depth, redirects, key, url, reason, job, note, place)"
)
_ADD_SEEN = (
    "INSERT INTO @seen (crawl, key, url) SELECT crawl, key, %s + place - 1"
    " FROM unnest(%s::bigint[], %s::uuid[]) WITH ORDINALITY AS given (crawl, key, place)"
    " ORDER BY crawl, key"
)


class PostgresTables(ShardTables):
    """See `whole.tables`. State: the open transaction, if there is one."""

    _opening: tuple[tuple[str, Sequence[Any]], ...] = ()

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._rows(sql, parameters)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._database.transaction(*self._opening) as (session, _):
            self._session = session
            try:
                yield
            finally:
                self._session = None

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._send(sql, parameters)

    def run_many(self, sql: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self._send(sql, row)


class PostgresOldTables(PostgresTables):
    """Of a shard. State: as above."""

    key_column = "uuid_send(urls.key)"

    def outgoing(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int, bytes]]:
        rows = self._rows(_OUTGOING, (*after, limit))
        return [(target, sequence, crawl, payload) for target, sequence, crawl, payload in rows]


class PostgresControlTables(PostgresTables):
    """State: as above."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Names(database.place.schema))
        # That of all changes to the control tables.
        lock = database.place.lock_key("control")
        self._opening = (("SELECT pg_advisory_xact_lock(%s)", (lock,)),)

    def add_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        values = ", ".join("%s" for _ in columns)
        self.run_many(
            f"INSERT INTO @{table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE"
            f" VALUES ({values})",
            rows,
        )
        if columns[0] == "id":
            name = self._names.sql(f"@{table}")
            self._send(
                f"SELECT setval(pg_get_serial_sequence(%s, 'id'), max(id)) FROM @{table}", (name,)
            )


class PostgresNewShard(PostgresTallyRows, PostgresLinks, PostgresTables):
    """State: its tables, and the next id of a URL."""

    _opening = ((_NEED_NOT_WAIT, ()),)

    def __init__(self, fence: Fence) -> None:
        super().__init__(fence.database, fence.names)
        self._fence = fence
        self._next_url = 1
        # Makes its tables; the first owner has a higher epoch.
        with fence.taken_over(0, NO_FETCHES.longest_s):
            pass

    @property
    def tally_rows(self) -> TallyRows:
        return self

    def add_urls(self, rows: Sequence[Row]) -> None:
        origins, crawls, *figures, keys, urls, reasons, jobs, notes = zip(*rows, strict=True)
        of_keys = uuids(keys)
        self._send(
            _ADD_URLS,
            (
                *(self._next_url, texts(origins), numbers(crawls)),
                *(numbers(column) for column in figures),
                *(of_keys, texts(urls), texts(reasons)),
                *(texts([text or "" for text in column]) for column in (jobs, notes)),
            ),
        )
        self._send(_ADD_SEEN, (self._next_url, numbers(crawls), of_keys))
        self._next_url += len(rows)

    def finish(self) -> None:
        # Waited for, and with it all that came before.
        with self._database.transaction() as (session, _):
            self._fence.keep(session, 0, self._next_url)


class PostgresWhole:
    """State: the databases."""

    directory = None

    def __init__(self, urls: Sequence[str]) -> None:
        self._store = PostgresStore(urls, is_patient=True)
        self.shown = ", ".join(database.place.shown for database in self._store.databases)

    def look(self) -> PostgresTables | None:
        databases, tag = self._store.databases, None
        for part, database in enumerate(databases):
            schema = database.place.schema
            if database.value("SELECT to_regclass(%s)", (f"{schema}.facts",)) is None:
                return None
            tag = check_part(database, part, len(databases), tag)
        tables = self._control_tables
        version = facts_of(tables)["tables"]
        if version != len(CONTROL):
            raise StateError(
                f"{self.shown} has version {version} of its tables, this release has"
                f" {len(CONTROL)}: `manyhands state create` brings it up to date"
            )
        return tables

    def open_control(self) -> tuple[PostgresControl, PostgresControlTables]:
        return self._store.open_any_control(), self._control_tables

    def made_shards(self, generation: int) -> list[int]:
        return sorted(shard for one, shard, _ in self._made() if one == generation)

    @contextlib.contextmanager
    def opened_tables(self, generation: int, shard: int) -> Iterator[PostgresOldTables]:
        database = self._store.database_of(shard)
        yield PostgresOldTables(database, shard_names(database.place.schema, generation, shard))

    def take_over(self, generation: int, shard: int, epoch: int, now: float) -> None:
        self._store.open_shard(generation, shard, epoch, now).close()

    @contextlib.contextmanager
    def new_generation(self, generation: int, shards: int) -> Iterator[NewShards]:
        new = NewShards(
            [
                PostgresNewShard(Fence(self._store.database_of(shard), generation, shard))
                for shard in range(shards)
            ]
        )
        yield new
        new.finish()

    def clear(self, kept: int) -> None:
        """A shard at a time: a transaction can hold locks of only so many tables."""
        for generation, shard, database in self._made():
            if generation == kept:
                continue
            schema = database.place.schema
            names = shard_names(schema, generation, shard)
            with database.transaction() as (session, _):
                for (table,) in session.rows(
                    "SELECT tablename FROM pg_tables"
                    " WHERE schemaname = %s AND starts_with(tablename, %s)",
                    (schema, names.prefix),
                ):
                    session.send(f"DROP TABLE {schema}.{table}")
                session.send(
                    Names(schema).sql("DELETE FROM @shards WHERE generation = %s AND shard = %s"),
                    (generation, shard),
                )

    def damage(self, generation: int, shard: int) -> str:
        """A server that finds its files damaged says so by itself."""
        del generation, shard
        return ""

    def close(self) -> None:
        self._store.close()

    @cached_property
    def _control_tables(self) -> PostgresControlTables:
        return PostgresControlTables(self._store.databases[0])

    def _made(self) -> list[tuple[int, int, Database]]:
        return [
            (generation, shard, database)
            for database in self._store.databases
            for generation, shard in database.ask(
                Names(database.place.schema).sql("SELECT generation, shard FROM @shards")
            )
        ]

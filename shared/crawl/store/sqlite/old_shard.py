"""A shard's file that is read to its end, for a new generation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.sqlite.database import Database, open_for_reading
from manyhands.shared.crawl.store.sqlite.directory import shard_file
from manyhands.shared.crawl.store.sqlite.links import SEQUENCE_BITS, SEQUENCE_MASK
from manyhands.shared.crawl.store.sqlite.new_generation import NewGeneration
from manyhands.shared.crawl.store.sqlite.schema import SHARD

ROWS_AT_ONCE = 5000
# Of robots and links: with bodies.
BODIES_AT_ONCE = 200

_URLS = (
    "SELECT urls.id, domains.name, origins.origin, urls.crawl, urls.state, urls.attempts,"
    " urls.not_before, urls.status, urls.updated_at, urls.depth, urls.redirects, urls.key,"
    " urls.url, urls.reason FROM urls CROSS JOIN origins ON origins.id = urls.origin"
    " CROSS JOIN domains ON domains.id = origins.domain"
    " WHERE urls.id > ? ORDER BY urls.id LIMIT ?"
)
_ORIGINS = (
    "SELECT origins.id, domains.name, origins.origin, origins.ready_at, origins.notes"
    " FROM origins CROSS JOIN domains ON domains.id = origins.domain"
    " WHERE origins.id > ? ORDER BY origins.id LIMIT ?"
)


class OldShard:
    """State: none; a file is open only as long as it is read."""

    def __init__(self, directory: Path, generation: int, number: int) -> None:
        self._directory = directory
        self._generation = generation
        self._number = number

    def admitted(self) -> int:
        database = self._open(self._number)
        try:
            return int(
                database.value(
                    "SELECT coalesce(sum(value), 0) FROM counters WHERE name = 'admitted'"
                )
            )
        finally:
            database.close()

    def copy_to(self, new: NewGeneration) -> Iterator[int]:
        """Copy everything; reports the number of URLs after every part."""
        database = self._open(self._number)
        try:
            new.add_counters(database.rows("SELECT crawl, name, value FROM counters"))
            new.add_errors(
                database.rows(
                    "SELECT crawl, reason, count, sample_url, first_at, last_at FROM errors"
                )
            )
            for rows in _seed_names(database):
                new.add_seed_names(rows)
            for rows in _parts(
                database,
                "SELECT id, name, next_at, delay_s FROM domains WHERE id > ? ORDER BY id LIMIT ?",
                ROWS_AT_ONCE,
            ):
                new.add_domains(rows)
            for rows in _parts(database, _ORIGINS, ROWS_AT_ONCE):
                new.add_origins(rows)
            for rows in _parts(database, _URLS, ROWS_AT_ONCE):
                new.add_urls(rows)
                yield len(rows)
            for rows in _parts(
                database,
                "SELECT rowid, origin, kind, fetched_at, expires_at, size, body FROM robots"
                " WHERE rowid > ? ORDER BY rowid LIMIT ?",
                BODIES_AT_ONCE,
            ):
                new.add_robots(rows)
            self._copy_links(database, new)
        finally:
            database.close()

    def _copy_links(self, database: Database, new: NewGeneration) -> None:
        """Those that their shard does not have yet."""
        arrived: dict[int, tuple[int, set[int]]] = {}
        for rows in _parts(
            database,
            "SELECT key, crawl, payload FROM outgoing WHERE key > ? ORDER BY key LIMIT ?",
            BODIES_AT_ONCE,
        ):
            for key, crawl, payload in rows:
                target, sequence = key >> SEQUENCE_BITS, key & SEQUENCE_MASK
                if target not in arrived:
                    arrived[target] = self._arrived_at(target)
                up_to, ahead = arrived[target]
                if sequence > up_to and sequence not in ahead:
                    new.add_links(crawl, payload)

    def _arrived_at(self, target: int) -> tuple[int, set[int]]:
        path = shard_file(self._directory, self._generation, target)
        database = open_for_reading(path, SHARD)
        if database is None:
            return 0, set()
        try:
            up_to = database.value("SELECT up_to FROM received WHERE source = ?", (self._number,))
            ahead = database.listed(
                "SELECT json_group_array(sequence) FROM received_ahead WHERE source = ?",
                (self._number,),
            )
            return up_to or 0, set(ahead)
        finally:
            database.close()

    def _open(self, number: int) -> Database:
        path = shard_file(self._directory, self._generation, number)
        database = open_for_reading(path, SHARD)
        if database is None:
            raise StateError(f"{path} is gone")
        return database


def _parts(database: Database, sql: str, rows_at_once: int) -> Iterator[list[Any]]:
    """A table in the order of its first column, a part at a time."""
    last = 0
    while rows := database.rows(sql, (last, rows_at_once)):
        yield rows
        last = rows[-1][0]


def _seed_names(database: Database) -> Iterator[list[Any]]:
    last: tuple[int, str] = (0, "")
    while rows := database.rows(
        "SELECT crawl, name, domain FROM seed_names WHERE (crawl, name) > (?, ?)"
        " ORDER BY crawl, name LIMIT ?",
        (*last, ROWS_AT_ONCE),
    ):
        yield rows
        last = rows[-1][:2]

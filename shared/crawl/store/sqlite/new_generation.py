"""The files of a generation that is being built: rows arrive from one old shard at a time and go to
the new shard of their domain."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.sqlite import links as sqlite_links
from manyhands.shared.crawl.store.sqlite.database import make_file
from manyhands.shared.crawl.store.sqlite.schema import SHARD
from manyhands.shared.crawl.store.sqlite.tally_rows import SqliteTallyRows
from manyhands.shared.crawl.store.tally import Errors, add_errors
from manyhands.shared.urls import registrable_domain, shard_of_domain, shard_of_url

CACHES_BYTES = 128 * 1024 * 1024
LEAST_CACHE_BYTES = 256 * 1024
# Counted anew from the rows.
_RECOUNTED = frozenset({*STATE_COUNTERS, "admitted", "outgoing"})
# What belongs to no domain.
_FIRST = 0

_ADD_URL = (
    "INSERT INTO urls (id, origin, crawl, state, attempts, not_before, status, updated_at, depth,"
    " redirects, key, url, reason) VALUES (?, (SELECT id FROM origins WHERE origin = ?),"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_ORIGIN = (
    "INSERT INTO origins (domain, origin, ready_at, notes)"
    " VALUES ((SELECT id FROM domains WHERE name = ?), ?, ?, ?)"
)
_RECOUNT = (
    "UPDATE origins SET queued = waiting.number FROM (SELECT origin, count(*) AS number FROM urls"
    f" WHERE state = {UrlState.QUEUED:d} GROUP BY origin) AS waiting"
    " WHERE origins.id = waiting.origin",
    "UPDATE domains SET queued = waiting.number FROM (SELECT domain, sum(queued) AS number"
    " FROM origins GROUP BY domain) AS waiting WHERE domains.id = waiting.domain",
    "INSERT INTO hosts (crawl, origin, admitted)"
    " SELECT crawl, origin, count(*) FROM urls GROUP BY crawl, origin",
    "INSERT INTO counters (crawl, name, value)"
    " SELECT crawl, 'admitted', sum(admitted) FROM hosts GROUP BY crawl",
    "INSERT INTO counters (crawl, name, value)"
    " SELECT crawl, 'outgoing', count(*) FROM outgoing GROUP BY crawl",
)


def sync(path: Path) -> None:
    """Bring a file or a directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NewGeneration:
    """State: the files, the next id of a URL in each, and the counters that belong to no row."""

    def __init__(self, directory: Path, shards: int) -> None:
        directory.mkdir(parents=True)
        self._shards = shards
        cache_bytes = max(LEAST_CACHE_BYTES, CACHES_BYTES // shards)
        self._files = [
            make_file(directory / f"shard-{shard:02}.db", SHARD, cache_bytes)
            for shard in range(shards)
        ]
        self._next_ids = [1] * shards
        self._counters: Counter[tuple[int, str]] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add_counters(self, rows: list[tuple[int, str, int]]) -> None:
        for crawl, name, value in rows:
            if name not in _RECOUNTED:
                self._counters[crawl, name] += value

    def add_errors(self, rows: list[Any]) -> None:
        if rows:
            groups = {(crawl, reason): Errors(*rest) for crawl, reason, *rest in rows}
            add_errors(SqliteTallyRows(self._files[_FIRST]), groups)

    def add_seed_names(self, rows: list[tuple[int, str, str]]) -> None:
        self._add("INSERT INTO seed_names VALUES (?, ?, ?)", ((row[2], row) for row in rows))

    def add_domains(self, rows: list[Any]) -> None:
        self._add(
            "INSERT INTO domains (name, next_at, delay_s) VALUES (?, ?, ?)",
            ((row[1], row[1:]) for row in rows),
        )

    def add_origins(self, rows: list[Any]) -> None:
        self._add(_ADD_ORIGIN, ((row[1], row[1:]) for row in rows))

    def add_robots(self, rows: list[Any]) -> None:
        self._add(
            "INSERT INTO robots (origin, kind, fetched_at, expires_at, size, body)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            ((registrable_domain(urlsplit(row[1]).hostname or ""), row[1:]) for row in rows),
        )

    def add_urls(self, rows: list[Any]) -> None:
        by_shard: defaultdict[int, list[Any]] = defaultdict(list)
        for _, domain, *rest in rows:
            shard = shard_of_domain(domain, self._shards)
            by_shard[shard].append((self._next_ids[shard], *rest))
            self._next_ids[shard] += 1
        for shard, of_shard in by_shard.items():
            seen = sorted((row[2], row[10], row[0]) for row in of_shard)
            with self._files[shard].transaction():
                self._files[shard].run_many(_ADD_URL, of_shard)
                self._files[shard].run_many("INSERT INTO seen VALUES (?, ?, ?)", seen)

    def add_links(self, crawl: int, payload: bytes) -> None:
        """A batch for another shard becomes batches for the new ones, each kept by a neighbour of
        the shard that it is for."""
        by_shard: defaultdict[int, list[Any]] = defaultdict(list)
        for link in orjson.loads(payload):
            by_shard[shard_of_url(link[0], self._shards)].append(link)
        for target, links in by_shard.items():
            keeper = self._files[(target + 1) % self._shards]
            sqlite_links.send(keeper, target, crawl, orjson.dumps(links))

    def finish(self) -> None:
        """Count what has come, and bring it to the disk."""
        for file in self._files:
            with file.transaction():
                for statement in _RECOUNT:
                    file.run(statement)
                for state in UrlState:
                    file.run(
                        "INSERT INTO counters (crawl, name, value) SELECT crawl, ?, count(*)"
                        " FROM urls WHERE state = ? GROUP BY crawl",
                        (STATE_COUNTERS[state], int(state)),
                    )
        self._files[_FIRST].run_many(
            "INSERT INTO counters VALUES (?, ?, ?)",
            [(*place, value) for place, value in self._counters.items()],
        )
        for file in self._files:
            sync(file.path)

    def _add(self, sql: str, rows: Iterable[tuple[str, Any]]) -> None:
        """Rows with the domain that each belongs to."""
        by_shard: defaultdict[int, list[Any]] = defaultdict(list)
        for domain, row in rows:
            by_shard[shard_of_domain(domain, self._shards)].append(row)
        for shard, of_shard in by_shard.items():
            with self._files[shard].transaction():
                self._files[shard].run_many(sql, of_shard)

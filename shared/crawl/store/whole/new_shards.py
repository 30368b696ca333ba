"""Shards that are being filled: rows arrive from one old shard at a time and go to the new shard of
their domain."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.rows import TallyRows
from manyhands.shared.crawl.store.tally import Errors, add_errors
from manyhands.shared.crawl.store.whole.tables import Row, WritableTables
from manyhands.shared.urls import registrable_domain, shard_of_domain, shard_of_url

# Counted anew from the rows.
RECOUNTED = frozenset({*STATE_COUNTERS, "admitted", "outgoing"})
# What belongs to no domain.
_FIRST = 0

_ADD_DOMAIN = "INSERT INTO @domains (name, next_at, delay_s) VALUES (%s, %s, %s)"
_ADD_ORIGIN = (
    "INSERT INTO @origins (domain, origin, ready_at, notes)"
    " VALUES ((SELECT id FROM @domains WHERE name = %s), %s, %s, %s)"
)
_ADD_ROBOTS = (
    "INSERT INTO @robots (origin, kind, fetched_at, expires_at, size, body)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)
_ADD_FIRST_JOB = (
    "INSERT INTO @first_jobs (url_key, domain, job, turn, admitted_at, until)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)
_ADD_SEED_NAME = "INSERT INTO @seed_names (crawl, name, domain) VALUES (%s, %s, %s)"
_ADD_COUNTER = "INSERT INTO @counters (crawl, name, value) VALUES (%s, %s, %s)"
_RECOUNT = (
    "UPDATE @origins SET queued = waiting.number FROM (SELECT origin, count(*) AS number"
    f" FROM @urls WHERE state = {UrlState.QUEUED:d} GROUP BY origin) AS waiting"
    " WHERE @origins.id = waiting.origin",
    "UPDATE @domains SET queued = waiting.number FROM (SELECT domain, sum(queued) AS number"
    " FROM @origins GROUP BY domain) AS waiting WHERE @domains.id = waiting.domain",
    "INSERT INTO @hosts (crawl, origin, admitted)"
    " SELECT crawl, origin, count(*) FROM @urls GROUP BY crawl, origin",
    "INSERT INTO @counters (crawl, name, value)"
    " SELECT crawl, 'admitted', sum(admitted) FROM @hosts GROUP BY crawl",
    "INSERT INTO @counters (crawl, name, value)"
    " SELECT crawl, 'outgoing', count(*) FROM @outgoing GROUP BY crawl",
    *(
        "INSERT INTO @counters (crawl, name, value)"
        f" SELECT crawl, '{STATE_COUNTERS[state]}', count(*) FROM @urls WHERE state = {state:d}"
        " GROUP BY crawl"
        for state in UrlState
    ),
)


class NewShard(WritableTables, Protocol):
    """One of them, empty at first."""

    @property
    def tally_rows(self) -> TallyRows: ...

    def add_urls(self, rows: Sequence[Row]) -> None:
        """To `urls` and to `seen`. Origin, crawl, state, attempts, not_before, status, updated_at,
        depth, redirects, key, URL, reason, job or None, note or None; the ids go on in this
        order."""

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        """Keep batches of links, each with its target, until their shards have them."""

    def finish(self) -> None:
        """Bring all of it to the disk."""


class NewShards:
    """State: the shards, and the counters that belong to no row."""

    def __init__(self, shards: Sequence[NewShard]) -> None:
        self._shards = shards
        self._counters: Counter[tuple[int, str]] = Counter()

    def add_counters(self, rows: Iterable[Row]) -> None:
        for crawl, name, value in rows:
            if name not in RECOUNTED:
                self._counters[crawl, name] += value

    def add_errors(self, rows: Sequence[Row]) -> None:
        if rows:
            groups = {(crawl, reason): Errors(*rest) for crawl, reason, *rest in rows}
            first = self._shards[_FIRST]
            with first.transaction():
                add_errors(first.tally_rows, groups)

    def add_seed_names(self, rows: Sequence[Row]) -> None:
        self._add_rows(_ADD_SEED_NAME, rows, lambda row: str(row[2]))

    def add_domains(self, rows: Sequence[Row]) -> None:
        """Name, next_at, delay_s."""
        self._add_rows(_ADD_DOMAIN, rows, lambda row: str(row[0]))

    def add_origins(self, rows: Sequence[Row]) -> None:
        """Domain, origin, ready_at, notes."""
        self._add_rows(_ADD_ORIGIN, rows, lambda row: str(row[0]))

    def add_robots(self, rows: Sequence[Row]) -> None:
        """Origin, kind, fetched_at, expires_at, size, body."""
        self._add_rows(_ADD_ROBOTS, rows, lambda row: _domain_of(row[0]))

    def add_first_jobs(self, rows: Sequence[Row]) -> None:
        """URL key, domain, job, turn, admitted_at, until."""
        self._add_rows(_ADD_FIRST_JOB, rows, lambda row: str(row[1]))

    def add_urls(self, rows: Sequence[Row]) -> None:
        """The domain, and then as `NewShard.add_urls`."""
        for shard, of_shard in self._by_shard(rows, lambda row: str(row[0])):
            with shard.transaction():
                shard.add_urls([row[1:] for row in of_shard])

    def add_links(self, crawl: int, payload: bytes) -> None:
        """A batch for another shard becomes batches for the new ones, each kept by a neighbour of
        the shard that it is for."""
        number = len(self._shards)
        by_shard: defaultdict[int, list[Any]] = defaultdict(list)
        for link in orjson.loads(payload):
            by_shard[shard_of_url(link[0], number)].append(link)
        for target, links in by_shard.items():
            keeper = self._shards[(target + 1) % number]
            with keeper.transaction():
                keeper.send(crawl, [(target, orjson.dumps(links))])

    def finish(self) -> None:
        """Count what has come, and bring it to the disk."""
        for shard in self._shards:
            with shard.transaction():
                for statement in _RECOUNT:
                    shard.run(statement)
        first = self._shards[_FIRST]
        with first.transaction():
            first.run_many(_ADD_COUNTER, [(*place, n) for place, n in self._counters.items()])
        for shard in self._shards:
            shard.finish()

    def _add_rows(self, sql: str, rows: Sequence[Row], domain_of: Callable[[Row], str]) -> None:
        for shard, of_shard in self._by_shard(rows, domain_of):
            with shard.transaction():
                shard.run_many(sql, of_shard)

    def _by_shard(
        self, rows: Iterable[Row], domain_of: Callable[[Row], str]
    ) -> Iterable[tuple[NewShard, list[Row]]]:
        by_shard: defaultdict[int, list[Row]] = defaultdict(list)
        for row in rows:
            by_shard[shard_of_domain(domain_of(row), len(self._shards))].append(row)
        return [(self._shards[number], of_shard) for number, of_shard in by_shard.items()]


def _domain_of(origin: str) -> str:
    return registrable_domain(urlsplit(origin).hostname or "")

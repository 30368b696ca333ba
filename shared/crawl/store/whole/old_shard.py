"""A shard that is read to its end, for new shards."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager

from manyhands.shared.crawl.store.whole.new_shards import NewShards
from manyhands.shared.crawl.store.whole.tables import OldTables, Row, Tables

ROWS_AT_ONCE = 5000
# Of robots and links: with bodies.
BODIES_AT_ONCE = 200

_URLS = (
    "SELECT urls.id, domains.name, origins.origin, urls.crawl, urls.state, urls.attempts,"
    " urls.not_before, urls.status, urls.updated_at, urls.depth, urls.redirects, {key},"
    " urls.url, urls.reason, urls.job, urls.note"
    " FROM (SELECT * FROM @urls WHERE id > %s ORDER BY id LIMIT %s) AS urls"
    " JOIN @origins AS origins ON origins.id = urls.origin"
    " JOIN @domains AS domains ON domains.id = origins.domain ORDER BY urls.id"
)
_ORIGINS = (
    "SELECT origins.id, domains.name, origins.origin, origins.ready_at, origins.notes"
    " FROM @origins AS origins JOIN @domains AS domains ON domains.id = origins.domain"
    " WHERE origins.id > %s ORDER BY origins.id LIMIT %s"
)
_DOMAINS = "SELECT id, name, next_at, delay_s FROM @domains WHERE id > %s ORDER BY id LIMIT %s"
_SEED_NAMES = (
    "SELECT crawl, name, domain FROM @seed_names WHERE (crawl, name) > (%s, %s)"
    " ORDER BY crawl, name LIMIT %s"
)
_ROBOTS = (
    "SELECT origin, kind, fetched_at, expires_at, size, body FROM @robots"
    " WHERE origin > %s ORDER BY origin LIMIT %s"
)

_FIRST_JOBS = (
    "SELECT url_key, domain, job, turn, admitted_at, until FROM @first_jobs"
    " WHERE url_key > %s ORDER BY url_key LIMIT %s"
)

# The places of times in these rows, without the id: next_at; ready_at; not_before and updated_at;
# admitted_at and until.
_DOMAIN_TIMES = (1,)
_ORIGIN_TIMES = (2,)
_URL_TIMES = (5, 7)
_FIRST_JOB_TIMES = (4, 5)

# The tables of a shard of the old layout, open as long as they are read.
OpenOld = Callable[[int], AbstractContextManager[OldTables]]


class OldShard:
    """`others` are all shards of its layout that have had an owner; `later_s` is by how much the
    clock of the new shards is ahead of its own. State: none; its tables are open only as long as
    they are read."""

    def __init__(
        self, number: int, others: Collection[int], open_old: OpenOld, later_s: float = 0.0
    ) -> None:
        self._number = number
        self._others = others
        self._open = open_old
        self._later_s = later_s

    def admitted(self) -> int:
        with self._open(self._number) as tables:
            rows = tables.ask("SELECT value FROM @counters WHERE name = 'admitted'")
        return sum(value for (value,) in rows)

    def copy_to(self, new: NewShards) -> Iterator[int]:
        """Copy everything; reports the number of URLs after every part."""
        with self._open(self._number) as tables:
            new.add_counters(tables.ask("SELECT crawl, name, value FROM @counters"))
            new.add_errors(
                tables.ask(
                    "SELECT crawl, reason, count, sample_url, first_at, last_at FROM @errors"
                )
            )
            for rows in parts(tables, _SEED_NAMES, (0, ""), ROWS_AT_ONCE):
                new.add_seed_names(rows)
            for rows in parts(tables, _DOMAINS, (0,), ROWS_AT_ONCE):
                new.add_domains(self._in_time([row[1:] for row in rows], _DOMAIN_TIMES))
            for rows in parts(tables, _ORIGINS, (0,), ROWS_AT_ONCE):
                new.add_origins(self._in_time([row[1:] for row in rows], _ORIGIN_TIMES))
            urls = _URLS.format(key=tables.key_column)
            for rows in parts(tables, urls, (0,), ROWS_AT_ONCE):
                new.add_urls(self._in_time([row[1:] for row in rows], _URL_TIMES))
                yield len(rows)
            for rows in parts(tables, _FIRST_JOBS, ("",), ROWS_AT_ONCE):
                new.add_first_jobs(self._in_time(rows, _FIRST_JOB_TIMES))
            for rows in parts(tables, _ROBOTS, ("",), BODIES_AT_ONCE):
                new.add_robots(rows)
            self._copy_links(tables, new)

    def _in_time(self, rows: list[Row], times: Collection[int]) -> list[Row]:
        """On the clock of the new shards; 0 is no time."""
        if not self._later_s:
            return rows
        return [
            tuple(
                value + self._later_s if place in times and value else value
                for place, value in enumerate(row)
            )
            for row in rows
        ]

    def _copy_links(self, tables: OldTables, new: NewShards) -> None:
        """Those that their shard does not have yet."""
        arrived: dict[int, tuple[int, set[int]]] = {}
        last = (0, 0)
        while rows := tables.outgoing(last, BODIES_AT_ONCE):
            for target, sequence, crawl, payload in rows:
                if target not in arrived:
                    arrived[target] = self._arrived_at(target)
                up_to, ahead = arrived[target]
                if sequence > up_to and sequence not in ahead:
                    new.add_links(crawl, payload)
            last = rows[-1][:2]

    def _arrived_at(self, target: int) -> tuple[int, set[int]]:
        if target not in self._others:
            return 0, set()
        with self._open(target) as tables:
            up_to = tables.ask("SELECT up_to FROM @received WHERE source = %s", (self._number,))
            ahead = tables.ask(
                "SELECT sequence FROM @received_ahead WHERE source = %s", (self._number,)
            )
        return up_to[0][0] if up_to else 0, {sequence for (sequence,) in ahead}


def copy_all(
    shards: Sequence[OldShard], new: NewShards, on_part: Callable[[int, int], None]
) -> int:
    """All URLs that there are; `on_part` is called with these, after what was copied so far."""
    in_all = sum(shard.admitted() for shard in shards)
    on_part(0, in_all)
    done = 0
    for shard in shards:
        for copied in shard.copy_to(new):
            done += copied
            on_part(done, in_all)
    return in_all


def parts(tables: Tables, sql: str, first: Row, rows_at_once: int) -> Iterator[list[Row]]:
    """A table in the order of its first columns, as many as `first` has, a part at a time."""
    last = first
    while rows := tables.ask(sql, (*last, rows_at_once)):
        yield rows
        last = rows[-1][: len(first)]

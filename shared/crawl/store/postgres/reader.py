"""Reading a shard, beside its owner or as its owner."""

from collections.abc import Sequence

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import (
    STATE_COUNTERS,
    Due,
    ErrorGroup,
    JobRow,
    StoredDomain,
    StoredOrigin,
    UrlRow,
)
from manyhands.shared.crawl.store.postgres.arrays import numbers, uuids
from manyhands.shared.crawl.store.postgres.database import Row
from manyhands.shared.crawl.store.postgres.tables import ShardTables
from manyhands.shared.crawl.store.reader_words import (
    counters_of_rows,
    error_of_row,
    job_of_row,
    url_of_row,
)
from manyhands.shared.crawl.store.schema_words import (
    IS_LISTED,
    IS_QUEUED,
    MOST_DUE,
    MOST_DUE_ORIGINS,
    MOST_ORIGINS,
)

_URLS = (
    "SELECT id, url, state, depth, status, reason, attempts, updated_at FROM @urls"
    " WHERE crawl = %s AND state = %s AND id > %s AND {which} ORDER BY id LIMIT %s"
)
_URLS_LISTED = _URLS.format(which=IS_LISTED)
# Queued and done ones go through the table in the order of its rows, as with SQLite.
_URLS_ALL = _URLS.format(which="true")
_ORIGINS = (
    "SELECT wanted.domain, found.id, found.origin, found.queued, found.ready_at, found.notes"
    " FROM unnest(%s::bigint[]) AS wanted (domain) CROSS JOIN LATERAL"
    " (SELECT id, origin, queued, ready_at, notes FROM @origins"
    " WHERE domain = wanted.domain AND is_waiting"
    f" ORDER BY ready_at, id LIMIT {MOST_ORIGINS}) AS found ORDER BY found.ready_at, found.id"
)
_PUT_OFF = (
    "SELECT id, origin, queued, ready_at, notes FROM @origins AS origins"
    " WHERE ready_at > 0 AND ready_at > %s AND is_waiting"
)
_OF_CRAWL = (
    f" AND EXISTS (SELECT 1 FROM @urls WHERE crawl = %s AND origin = origins.id AND {IS_QUEUED})"
)
PUT_OFF_OF_CRAWL = f"{_PUT_OFF}{_OF_CRAWL} ORDER BY ready_at LIMIT %s"
COUNTERS = "SELECT name, value FROM @counters WHERE crawl = %s"
ERRORS = (
    "SELECT reason, count, sample_url, first_at, last_at FROM @errors WHERE crawl = %s"
    " ORDER BY count DESC, reason"
)
JOBS = (
    "SELECT wanted.place - 1, urls.url, urls.state, urls.status, urls.reason, urls.attempts,"
    " urls.updated_at, greatest(urls.not_before, origins.ready_at, domains.next_at)"
    " FROM unnest(%s::uuid[]) WITH ORDINALITY AS wanted (key, place) CROSS JOIN LATERAL"
    " (SELECT url FROM @seen WHERE crawl = 0 AND key = wanted.key LIMIT 1) AS seen"
    " JOIN @urls AS urls ON urls.id = seen.url JOIN @origins AS origins ON origins.id = urls.origin"
    " JOIN @domains AS domains ON domains.id = origins.domain"
)
# Of a shard that has any of them.
HAS_JOBS = "SELECT 1 FROM @seen WHERE crawl = 0 AND key = ANY(%s::uuid[]) LIMIT 1"
RECEIVED = "SELECT source, up_to FROM @received"
SEED_NAMES = "SELECT name FROM @seed_names WHERE crawl = %s LIMIT %s"
DOMAINS = "SELECT id, name, next_at, delay_s FROM @domains WHERE queued > 0"
_WAITING_IN = (
    "SELECT name, queued FROM @domains AS domains WHERE name = ANY(%s::text[]) AND queued > 0"
    " AND EXISTS (SELECT 1 FROM @origins AS origins JOIN @urls AS urls"
    f" ON urls.crawl = %s AND urls.origin = origins.id AND urls.{IS_QUEUED}"
    " WHERE origins.domain = domains.id AND origins.is_waiting)"
)

# Parameters: now; whether the shard has an owner, now; crawls; now; now.
DUE = (
    "SELECT wanted.crawl, count(*), min(found.since) FROM"
    " ((SELECT id, next_at FROM @domains WHERE due_at <= %s"
    f" ORDER BY due_at, id LIMIT {MOST_DUE}) UNION ALL (SELECT id, next_at FROM @domains"
    " WHERE taken <> 0 AND NOT %s AND queued > 0 AND next_at <= %s"
    f" LIMIT {MOST_DUE})) AS due CROSS JOIN unnest(%s::bigint[]) AS wanted (crawl)"
    " CROSS JOIN LATERAL (SELECT"
    " min(greatest(due.next_at, origins.ready_at, urls.not_before, urls.updated_at)) AS since"
    " FROM (SELECT id, ready_at FROM @origins WHERE domain = due.id AND is_waiting"
    f" AND ready_at <= %s ORDER BY ready_at, id LIMIT {MOST_DUE_ORIGINS}) AS origins"
    " CROSS JOIN LATERAL (SELECT not_before, updated_at FROM @urls WHERE crawl = wanted.crawl"
    f" AND origin = origins.id AND not_before <= %s AND {IS_QUEUED}"
    " ORDER BY not_before, id LIMIT 1) AS urls) AS found"
    " WHERE found.since IS NOT NULL GROUP BY wanted.crawl"
)


def due_parameters(crawls: Sequence[int], now: float, *, is_owned: bool) -> tuple[object, ...]:
    return now, is_owned, now, numbers(crawls), now, now


class PostgresReader(ShardTables):
    """A `protocol.ShardReader`."""

    def counters(self, crawl: int) -> dict[str, int]:
        return counters_of_rows(self._rows(COUNTERS, (crawl,)))

    def urls(self, crawl: int, state: UrlState, after_id: int, limit: int) -> list[UrlRow]:
        # Nothing is found at once, where it would be looked for among millions.
        if self.counters(crawl)[STATE_COUNTERS[state]] == 0:
            return []
        is_listed = state not in (UrlState.QUEUED, UrlState.DONE)
        query = _URLS_LISTED if is_listed else _URLS_ALL
        rows = self._rows(query, (crawl, int(state), after_id, limit))
        return [url_of_row(row) for row in rows]

    def errors(self, crawl: int) -> list[ErrorGroup]:
        return [error_of_row(row) for row in self._rows(ERRORS, (crawl,))]

    def seed_names(self, crawl: int, limit: int) -> list[str]:
        return self._listed(SEED_NAMES, (crawl, limit))

    def received_from(self, source: int) -> int:
        return int(self._value("SELECT up_to FROM @received WHERE source = %s", (source,)) or 0)

    def waiting_domains(self, limit: int) -> list[StoredDomain]:
        return self._with_origins(
            self._rows(f"{DOMAINS} ORDER BY queued DESC, id LIMIT %s", (limit,))
        )

    def waiting_in(self, crawl: int, domains: Sequence[str]) -> dict[str, int]:
        return dict(self._rows(_WAITING_IN, (list(domains), crawl)))

    def put_off(self, after: float, limit: int) -> list[StoredOrigin]:
        rows = self._rows(f"{_PUT_OFF} ORDER BY ready_at LIMIT %s", (after, limit))
        return [StoredOrigin(*row) for row in rows]

    def put_off_of(self, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        rows = self._rows(PUT_OFF_OF_CRAWL, (now, crawl, limit))
        return [StoredOrigin(*row) for row in rows]

    def jobs(self, keys: Sequence[bytes]) -> list[JobRow]:
        return [job_of_row(row) for row in self._rows(JOBS, (uuids(keys),))]

    def due(self, crawls: Sequence[int], now: float, *, is_owned: bool) -> list[Due]:
        return [
            Due(*row) for row in self._rows(DUE, due_parameters(crawls, now, is_owned=is_owned))
        ]

    def close(self) -> None:
        """Connections are the database's."""

    def _with_origins(self, rows: list[Row]) -> list[StoredDomain]:
        domains = {
            number: StoredDomain(number, name, next_at, delay_s=delay_s)
            for number, name, next_at, delay_s in rows
        }
        if domains:
            for domain, *origin in self._rows(_ORIGINS, (numbers(domains),)):
                domains[domain].origins.append(StoredOrigin(*origin))
        return list(domains.values())

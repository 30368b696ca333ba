"""Reading a shard's file, beside its owner or as its owner."""

from collections.abc import Sequence

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import (
    KEY_BYTES,
    STATE_COUNTERS,
    Due,
    ErrorGroup,
    JobRow,
    StoredDomain,
    StoredOrigin,
    UrlRow,
)
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
from manyhands.shared.crawl.store.sqlite.database import Database, to_json

_URLS = (
    "SELECT id, url, state, depth, status, reason, attempts, updated_at FROM urls"
    " WHERE crawl = ? AND state = ? AND id > ? AND {which} ORDER BY id LIMIT ?"
)
_URLS_LISTED = _URLS.format(which=IS_LISTED)
# Queued and done ones go through the file in the order of its rows: the frontier's index has them
# in another order, and of the done ones there are too many for an index.
_URLS_ALL = _URLS.format(which="true")
_ORIGINS = (
    "SELECT origins.domain, origins.id, origins.origin, origins.queued, origins.ready_at,"
    " origins.notes FROM json_each(?) AS wanted JOIN origins ON origins.id IN"
    " (SELECT id FROM origins WHERE domain = wanted.value AND queued > 0"
    f" ORDER BY ready_at, id LIMIT {MOST_ORIGINS}) ORDER BY origins.ready_at, origins.id"
)
_JOBS = (
    "SELECT wanted.value, urls.url, urls.state, urls.status, urls.reason, urls.attempts,"
    " urls.updated_at, max(urls.not_before, origins.ready_at, domains.next_at)"
    " FROM json_each(?1) AS wanted CROSS JOIN seen CROSS JOIN urls"
    " CROSS JOIN origins CROSS JOIN domains"
    f" WHERE seen.crawl = 0 AND seen.key = substr(?2, wanted.value * {KEY_BYTES} + 1, {KEY_BYTES})"
    " AND urls.id = seen.url AND origins.id = urls.origin AND domains.id = origins.domain"
)
_PUT_OFF = (
    "SELECT id, origin, queued, ready_at, notes FROM origins"
    " WHERE ready_at > 0 AND ready_at > ? AND queued > 0 ORDER BY ready_at LIMIT ?"
)
_PUT_OFF_OF = (
    "SELECT id, origin, queued, ready_at, notes FROM origins"
    " WHERE ready_at > 0 AND ready_at > ? AND queued > 0 AND EXISTS"
    f" (SELECT 1 FROM urls WHERE crawl = ? AND urls.origin = origins.id AND {IS_QUEUED})"
    " ORDER BY ready_at LIMIT ?"
)
_WAITING_IN = (
    "SELECT name, queued FROM domains WHERE name IN (SELECT value FROM json_each(?)) AND queued > 0"
    " AND EXISTS (SELECT 1 FROM origins CROSS JOIN urls"
    f" ON urls.crawl = ? AND urls.origin = origins.id AND urls.{IS_QUEUED}"
    " WHERE origins.domain = domains.id AND origins.queued > 0)"
)

# ?1: crawls, ?2: now, ?3: whether the shard has an owner. The parts of each SELECT are asked in the
# order in which they stand: CROSS JOIN.
_DUE = (
    "WITH due AS MATERIALIZED (SELECT * FROM (SELECT id, next_at FROM domains"
    " WHERE queued > 0 AND taken = 0 AND next_at <= ?2 ORDER BY next_at"
    f" LIMIT {MOST_DUE}) UNION ALL SELECT * FROM (SELECT id, next_at FROM domains"
    " WHERE taken <> 0 AND NOT ?3 AND queued > 0 AND next_at <= ?2"
    f" LIMIT {MOST_DUE})),"
    " found AS (SELECT wanted.value AS crawl,"
    " (SELECT min(max(due.next_at, origins.ready_at, urls.not_before, urls.updated_at))"
    " FROM (SELECT id, ready_at FROM origins WHERE domain = due.id AND queued > 0"
    f" AND ready_at <= ?2 ORDER BY ready_at LIMIT {MOST_DUE_ORIGINS}) AS origins"
    " CROSS JOIN urls ON urls.id = (SELECT id FROM urls WHERE crawl = wanted.value"
    f" AND origin = origins.id AND not_before <= ?2 AND {IS_QUEUED}"
    " ORDER BY not_before, id LIMIT 1)) AS since"
    " FROM due CROSS JOIN json_each(?1) AS wanted)"
    " SELECT crawl, count(*), min(since) FROM found WHERE since IS NOT NULL GROUP BY crawl"
)


class SqliteReader:
    """State: the connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counters(self, crawl: int) -> dict[str, int]:
        return counters_of_rows(
            self._database.rows("SELECT name, value FROM counters WHERE crawl = ?", (crawl,))
        )

    def urls(self, crawl: int, state: UrlState, after_id: int, limit: int) -> list[UrlRow]:
        # Nothing is found at once, where it would be looked for among millions.
        if self.counters(crawl)[STATE_COUNTERS[state]] == 0:
            return []
        is_listed = state not in (UrlState.QUEUED, UrlState.DONE)
        query = _URLS_LISTED if is_listed else _URLS_ALL
        rows = self._database.rows(query, (crawl, int(state), after_id, limit))
        return [url_of_row(row) for row in rows]

    def errors(self, crawl: int) -> list[ErrorGroup]:
        return [
            error_of_row(row)
            for row in self._database.rows(
                "SELECT reason, count, sample_url, first_at, last_at FROM errors WHERE crawl = ?"
                " ORDER BY count DESC, reason",
                (crawl,),
            )
        ]

    def seed_names(self, crawl: int, limit: int) -> list[str]:
        return self._database.listed(
            "SELECT json_group_array(name) FROM"
            " (SELECT name FROM seed_names WHERE crawl = ? LIMIT ?)",
            (crawl, limit),
        )

    def received_from(self, source: int) -> int:
        up_to = self._database.value("SELECT up_to FROM received WHERE source = ?", (source,))
        return int(up_to or 0)

    def waiting_domains(self, limit: int) -> list[StoredDomain]:
        return self._with_origins(
            self._database.rows(
                "SELECT id, name, next_at, delay_s FROM domains WHERE queued > 0"
                " ORDER BY queued DESC, id LIMIT ?",
                (limit,),
            )
        )

    def waiting_in(self, crawl: int, domains: Sequence[str]) -> dict[str, int]:
        return dict(self._database.rows(_WAITING_IN, (to_json(list(domains)), crawl)))

    def put_off(self, after: float, limit: int) -> list[StoredOrigin]:
        return [StoredOrigin(*row) for row in self._database.rows(_PUT_OFF, (after, limit))]

    def put_off_of(self, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        rows = self._database.rows(_PUT_OFF_OF, (now, crawl, limit))
        return [StoredOrigin(*row) for row in rows]

    def jobs(self, keys: Sequence[bytes]) -> list[JobRow]:
        places = to_json(list(range(len(keys))))
        return [job_of_row(row) for row in self._database.rows(_JOBS, (places, b"".join(keys)))]

    def due(self, crawls: Sequence[int], now: float, *, is_owned: bool) -> list[Due]:
        rows = self._database.rows(_DUE, (to_json(list(crawls)), now, is_owned))
        return [Due(*row) for row in rows]

    def close(self) -> None:
        self._database.close()

    def _with_origins(self, rows: list[tuple[int, str, float, float]]) -> list[StoredDomain]:
        domains = {
            number: StoredDomain(number, name, next_at, delay_s=delay_s)
            for number, name, next_at, delay_s in rows
        }
        if domains:
            listed = to_json(list(domains))
            for domain, *origin in self._database.rows(_ORIGINS, (listed,)):
                domains[domain].origins.append(StoredOrigin(*origin))
        return list(domains.values())

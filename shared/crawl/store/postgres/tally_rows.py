"""What a transaction has added up, written to the tables, see `rows.TallyRows`."""

from collections.abc import Sequence

from manyhands.shared.crawl.store.postgres.arrays import numbers, texts
from manyhands.shared.crawl.store.postgres.tables import ShardTables

_ADD_COUNTERS = (
    "INSERT INTO @counters AS old (crawl, name, value)"
    " SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[])"
    " ON CONFLICT (crawl, name) DO UPDATE SET value = old.value + excluded.value"
)
_ADD_TO_QUEUED = (
    "WITH changed AS (UPDATE @origins AS origins SET queued = queued + given.number"
    " FROM unnest(%s::bigint[], %s::bigint[]) AS given (id, number) WHERE origins.id = given.id"
    " RETURNING origins.domain, given.number)"
    " UPDATE @domains AS domains SET queued = queued + summed.number"
    " FROM (SELECT domain, sum(number)::bigint AS number FROM changed GROUP BY domain"
    " HAVING sum(number) <> 0) AS summed WHERE domains.id = summed.domain"
)
_ADD_TO_HOSTS = (
    "INSERT INTO @hosts AS old (crawl, origin, admitted)"
    " SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[])"
    " ON CONFLICT (crawl, origin) DO UPDATE SET admitted = old.admitted + excluded.admitted"
)
_ADD_ERRORS = (
    "INSERT INTO @errors AS old (crawl, reason, count, sample_url, first_at, last_at)"
    " SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::text[],"
    " %s::float8[], %s::float8[])"
    " ON CONFLICT (crawl, reason) DO UPDATE SET count = old.count + excluded.count,"
    " first_at = least(old.first_at, excluded.first_at),"
    " last_at = greatest(old.last_at, excluded.last_at)"
)
_KEEP_DOMAINS = (
    "UPDATE @domains AS domains SET next_at = kept.next_at, delay_s = kept.delay_s,"
    " taken = CASE WHEN kept.is_taken THEN taken ELSE 0 END"
    " FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::boolean[])"
    " AS kept (id, next_at, delay_s, is_taken) WHERE domains.id = kept.id"
)
_KEEP_ORIGINS = (
    "UPDATE @origins AS origins SET ready_at = kept.ready_at, notes = kept.notes"
    " FROM unnest(%s::bigint[], %s::float8[], %s::bytea[]) AS kept (id, ready_at, notes)"
    " WHERE origins.id = kept.id"
)


class PostgresTallyRows(ShardTables):
    """All of it is sent, and not waited for."""

    def add_to_counters(self, rows: Sequence[tuple[int, str, int]]) -> None:
        crawls, names, by = zip(*rows, strict=True)
        self._send(_ADD_COUNTERS, (numbers(crawls), texts(names), numbers(by)))

    def add_to_queued(self, rows: Sequence[tuple[int, int]]) -> None:
        self._send(_ADD_TO_QUEUED, [numbers(column) for column in zip(*rows, strict=True)])

    def add_to_hosts(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self._send(_ADD_TO_HOSTS, [numbers(column) for column in zip(*rows, strict=True)])

    def reasons(self, crawl: int) -> list[str]:
        return self._listed("SELECT reason FROM @errors WHERE crawl = %s", (crawl,))

    def add_to_errors(self, rows: Sequence[tuple[int, str, int, str, float, float]]) -> None:
        crawls, reasons, counts, samples, first, last = zip(*rows, strict=True)
        self._send(
            _ADD_ERRORS,
            (
                *(numbers(crawls), texts(reasons), numbers(counts), texts(samples)),
                *(numbers(first), numbers(last)),
            ),
        )

    def keep_domains(self, rows: Sequence[tuple[int, float, float, bool]]) -> None:
        ids, next_at, delays_s, are_taken = zip(*rows, strict=True)
        self._send(
            _KEEP_DOMAINS,
            (numbers(ids), numbers(next_at), numbers(delays_s), list(are_taken)),
        )

    def keep_origins(self, rows: Sequence[tuple[int, float, bytes]]) -> None:
        ids, ready_at, notes = zip(*rows, strict=True)
        self._send(_KEEP_ORIGINS, (numbers(ids), numbers(ready_at), list(notes)))

"""The statements of a shard's owner, see `rows.ShardRows`; each of its transactions is fenced, and
has a number."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.errors import Undone
from manyhands.shared.crawl.store.model import (
    ClaimedUrl,
    FirstJob,
    LastOwner,
    NewUrl,
    StoredDomain,
)
from manyhands.shared.crawl.store.postgres.arrays import numbers, texts, uuids
from manyhands.shared.crawl.store.postgres.database import CommitInDoubt
from manyhands.shared.crawl.store.postgres.fence import Fence
from manyhands.shared.crawl.store.postgres.links import PostgresLinks
from manyhands.shared.crawl.store.postgres.reader import DOMAINS, PostgresReader
from manyhands.shared.crawl.store.postgres.tally_rows import PostgresTallyRows
from manyhands.shared.crawl.store.rows import EndedJobRow, SettledRow, WaitingRow
from manyhands.shared.crawl.store.schema_words import (
    IS_FORGETTABLE,
    IS_LISTED,
    IS_QUEUED,
    IS_UNTOLD,
)

# A question for each of many keys is a subquery or LATERAL with a limit, not a join: of a join the
# planner may make one pass through all that a crawl has.
_KNOWN = (
    "SELECT wanted.place FROM unnest(%s::uuid[]) WITH ORDINALITY AS wanted (key, place)"
    " WHERE (SELECT true FROM @seen WHERE crawl = %s AND key = wanted.key)"
)
_ADD_SEED_NAMES = (
    "INSERT INTO @seed_names (crawl, name, domain)"
    " SELECT %s, name, domain FROM unnest(%s::text[], %s::text[]) AS given (name, domain)"
    " ON CONFLICT DO NOTHING"
)
_OF_HOSTS = (
    "SELECT coalesce((SELECT admitted FROM @hosts WHERE crawl = %s AND origin ="
    " (SELECT id FROM @origins WHERE origin = wanted.origin)), 0)"
    " FROM unnest(%s::text[]) WITH ORDINALITY AS wanted (origin, place) ORDER BY wanted.place"
)
_ADD_DOMAINS = (
    "INSERT INTO @domains (name) SELECT DISTINCT unnest(%s::text[]) ON CONFLICT DO NOTHING"
)
_ADD_ORIGINS = (
    "INSERT INTO @origins (origin, domain) SELECT given.origin, domains.id"
    " FROM unnest(%s::text[], %s::text[]) AS given (origin, domain)"
    " JOIN @domains AS domains ON domains.name = given.domain ON CONFLICT DO NOTHING"
)
_ORIGIN_IDS = (
    "SELECT origins.id FROM unnest(%s::text[]) WITH ORDINALITY AS given (origin, place)"
    " JOIN @origins AS origins ON origins.origin = given.origin ORDER BY given.place"
)
# `seen` in the order of the keys, so that each page of its index is touched once.
_ADD_URLS = (
    "WITH given AS MATERIALIZED (SELECT %s::bigint + place - 1 AS id, %s::bigint AS crawl, origin,"
    " depth, redirects, key, url, nullif(job, '') AS job, nullif(note, '') AS note"
    " FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::uuid[], %s::text[], %s::text[],"
    " %s::text[])"
    " WITH ORDINALITY AS listed (origin, depth, redirects, key, url, job, note, place)),"
    " seen AS (INSERT INTO @seen (crawl, key, url) SELECT crawl, key, id FROM given ORDER BY key)"
    " INSERT INTO @urls (id, crawl, updated_at, origin, depth, redirects, key, url, job, note)"
    " SELECT id, crawl, %s, origin, depth, redirects, key, url, job, note FROM given"
)
_NEXT_URLS = (
    "SELECT wanted.origin, found.not_before, found.id, running.crawl, uuid_send(found.key),"
    " found.url, found.depth, found.redirects, found.attempts, coalesce(found.job, ''),"
    " coalesce(found.note, '')"
    " FROM unnest(%s::bigint[], %s::integer[]) AS wanted (origin, most)"
    " CROSS JOIN unnest(%s::bigint[]) AS running (crawl) CROSS JOIN LATERAL"
    " (SELECT * FROM @urls WHERE crawl = running.crawl AND origin = wanted.origin"
    f" AND {IS_QUEUED} ORDER BY not_before, id LIMIT wanted.most) AS found"
    " ORDER BY found.not_before, found.id"
)
_CLAIM = (
    f"UPDATE @urls SET state = {UrlState.CLAIMED:d}, epoch = %s, updated_at = %s"
    " WHERE id = ANY(%s::bigint[])"
)
_OWED = (
    "SELECT id, crawl, origin, state, url FROM @urls WHERE id = ANY(%s::bigint[]) AND epoch = %s"
)
_SETTLE = (
    "UPDATE @urls AS urls SET state = settled.state, epoch = 0, status = settled.status,"
    " reason = settled.reason, attempts = greatest(urls.attempts, settled.attempts),"
    " not_before = settled.not_before, updated_at = %s"
    " FROM unnest(%s::bigint[], %s::smallint[], %s::integer[], %s::text[], %s::integer[],"
    " %s::float8[]) AS settled (id, state, status, reason, attempts, not_before)"
    " WHERE urls.id = settled.id"
)
_OF_KEYS = (
    "SELECT wanted.place - 1, urls.id, urls.state, urls.origin, urls.epoch, urls.reason"
    " FROM unnest(%s::uuid[]) WITH ORDINALITY AS wanted (key, place)"
    " CROSS JOIN LATERAL"
    " (SELECT url FROM @seen WHERE crawl = %s AND key = wanted.key LIMIT 1) AS seen"
    " JOIN @urls AS urls ON urls.id = seen.url ORDER BY wanted.place"
)
_DONE = (
    f"UPDATE @urls SET state = {UrlState.DONE:d}, reason = '', updated_at = %s"
    " WHERE id = ANY(%s::bigint[])"
)
_PARSING_SINCE = (
    f"SELECT id, origin, attempts, url FROM @urls WHERE crawl = %s"
    f" AND state = {UrlState.PARSING:d} AND {IS_LISTED} AND updated_at < %s LIMIT %s"
)
_QUEUED = f"SELECT id, origin, url FROM @urls WHERE crawl = %s AND {IS_QUEUED}"
_QUEUED_OF_DOMAIN = (
    "SELECT urls.id, urls.origin, urls.url FROM @origins AS origins"
    f" JOIN @urls AS urls ON urls.crawl = %s AND urls.origin = origins.id AND urls.{IS_QUEUED}"
    " WHERE origins.domain = (SELECT id FROM @domains WHERE name = %s) AND origins.is_waiting"
    " LIMIT %s"
)
_END = "UPDATE @urls SET state = %s, reason = %s, updated_at = %s WHERE id = ANY(%s::bigint[])"
_UNTOLD = f"SELECT id, state, reason, job FROM @urls WHERE {IS_UNTOLD} ORDER BY id LIMIT %s"
_TOLD = "UPDATE @urls SET job = NULL WHERE id = ANY(%s::bigint[])"
_ENDED_JOBS = (
    f"SELECT id, origin, state, uuid_send(key) FROM @urls WHERE {IS_FORGETTABLE}"
    " AND updated_at < %s ORDER BY updated_at LIMIT %s"
)
_FIRST_JOBS = (
    "SELECT url_key, domain, job, turn, admitted_at, until FROM @first_jobs"
    " WHERE url_key = ANY(%s::text[])"
)
_KEEP_FIRST_JOBS = (
    "INSERT INTO @first_jobs (url_key, domain, job, turn, admitted_at, until)"
    " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[], %s::float8[],"
    " %s::float8[]) ON CONFLICT (url_key) DO UPDATE SET job = excluded.job, turn = excluded.turn,"
    " admitted_at = excluded.admitted_at, until = excluded.until"
)
_FORGET_FIRST_JOBS = (
    "DELETE FROM @first_jobs WHERE url_key IN"
    " (SELECT url_key FROM @first_jobs WHERE until <= %s LIMIT %s) RETURNING 1"
)
_HOLD_BACK = (
    "UPDATE @domains SET next_at = greatest(next_at, %s + delay_s)"
    " WHERE id IN (SELECT domain FROM @origins WHERE id = ANY(%s::bigint[]))"
)
_QUEUE_CLAIMED = (
    f"WITH again AS (UPDATE @urls SET state = {UrlState.QUEUED:d}, epoch = 0"
    f" WHERE crawl = %s AND state = {UrlState.CLAIMED:d} AND {IS_LISTED} RETURNING origin)"
    " SELECT origin, count(*) FROM again GROUP BY origin"
)


class PostgresRows(PostgresTallyRows, PostgresLinks, PostgresReader):
    """A `rows.ShardRows`. State: in a transaction, the id of the next URL."""

    def __init__(self, fence: Fence) -> None:
        super().__init__(fence.database, fence.names)
        self._fence = fence
        self._next_url = 1

    @contextlib.contextmanager
    def transaction(self, epoch: int) -> Iterator[None]:
        number = 0
        try:
            with self._fence.passed(epoch) as (session, kept):
                self._session, self._next_url = session, kept.next_url
                try:
                    yield
                    if session.has_written:
                        number = kept.batch + 1
                        self._fence.keep(session, number, self._next_url)
                finally:
                    self._session = None
        except CommitInDoubt as error:
            if number and not self._fence.has_happened(epoch, number):
                raise Undone(str(error)) from error

    @contextlib.contextmanager
    def takeover(self, epoch: int, longest_fetch_s: float) -> Iterator[LastOwner]:
        with self._fence.taken_over(epoch, longest_fetch_s) as (session, last):
            self._session = session
            try:
                yield last
            finally:
                self._session = None

    # Admission

    def known(self, crawl: int, keys: Sequence[bytes]) -> list[int]:
        places = self._listed(_KNOWN, (uuids(keys), crawl))
        return [place - 1 for place in places]

    def seed_names_among(self, crawl: int, names: Sequence[str]) -> list[str]:
        return self._listed(
            "SELECT name FROM @seed_names WHERE crawl = %s AND name = ANY(%s::text[])",
            (crawl, texts(names)),
        )

    def add_seed_names(self, crawl: int, names: Sequence[tuple[str, str]]) -> None:
        if names:
            listed, domains = zip(*names, strict=True)
            self._send(_ADD_SEED_NAMES, (crawl, texts(listed), texts(domains)))

    def admitted_of_hosts(self, crawl: int, origins: Sequence[str]) -> list[int]:
        return self._listed(_OF_HOSTS, (crawl, texts(origins)))

    def origin_ids(self, origins: Sequence[tuple[str, str]]) -> list[int]:
        names, domains = map(texts, zip(*origins, strict=True))
        self._send(_ADD_DOMAINS, (domains,))
        self._send(_ADD_ORIGINS, (names, domains))
        return self._listed(_ORIGIN_IDS, (names,))

    def next_url_id(self) -> int:
        return self._next_url

    def add_urls(
        self, first: int, crawl: int, now: float, urls: Sequence[NewUrl], origins: Sequence[int]
    ) -> None:
        self._next_url = first + len(urls)
        self._send(
            _ADD_URLS,
            (
                *(first, crawl, numbers(origins)),
                numbers([url.depth for url in urls]),
                numbers([url.redirects for url in urls]),
                uuids([url.key for url in urls]),
                texts([url.url for url in urls]),
                texts([url.job for url in urls]),
                texts([url.note for url in urls]),
                now,
            ),
        )

    # Domains

    def due_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        return self._with_origins(
            self._rows(
                f"{DOMAINS} AND due_at <= %s ORDER BY due_at, id LIMIT %s",
                (due_by, limit),
            )
        )

    def domains_named(self, names: Collection[str]) -> list[StoredDomain]:
        return self._with_origins(
            self._rows(f"{DOMAINS} AND name = ANY(%s::text[])", (texts(list(names)),))
        )

    def taken(self) -> list[StoredDomain]:
        return self._with_origins(self._rows(f"{DOMAINS} AND taken <> 0"))

    def take(self, domains: Sequence[int], epoch: int) -> None:
        self._send(
            "UPDATE @domains SET taken = %s WHERE id = ANY(%s::bigint[])", (epoch, numbers(domains))
        )

    def give_all_up(self, now: float) -> None:
        self._send(
            "UPDATE @domains SET next_at = greatest(next_at, %s + delay_s), taken = 0"
            " WHERE taken <> 0",
            (now,),
        )

    def hold_back(self, origins: Sequence[int], until: float) -> None:
        self._send(_HOLD_BACK, (until, numbers(origins)))

    # URLs

    def next_urls(
        self, wanted: Mapping[int, int], crawls: Sequence[int]
    ) -> list[tuple[int, float, ClaimedUrl]]:
        rows = self._rows(_NEXT_URLS, (numbers(wanted), numbers(wanted.values()), numbers(crawls)))
        return [(origin, not_before, ClaimedUrl(*url)) for origin, not_before, *url in rows]

    def mark_claimed(self, ids: Sequence[int], epoch: int, now: float) -> None:
        self._send(_CLAIM, (epoch, now, numbers(ids)))

    def owed(self, ids: Sequence[int], epoch: int) -> list[tuple[int, int, int, int, str]]:
        rows = self._rows(_OWED, (numbers(ids), epoch))
        return [(number, crawl, origin, state, url) for number, crawl, origin, state, url in rows]

    def write_settled(self, rows: Sequence[SettledRow], now: float) -> None:
        ids, states, statuses, reasons, attempts, not_before = zip(*rows, strict=True)
        self._send(
            _SETTLE,
            (
                *(now, numbers(ids), numbers(map(int, states)), numbers(statuses)),
                *(texts(reasons), numbers(attempts), numbers(not_before)),
            ),
        )

    def of_keys(
        self, crawl: int, keys: Sequence[bytes]
    ) -> list[tuple[int, int, int, int, int, str]]:
        rows = self._rows(_OF_KEYS, (uuids(keys), crawl))
        return [
            (place, number, state, origin, epoch, reason)
            for place, number, state, origin, epoch, reason in rows
        ]

    def mark_done(self, ids: Sequence[int], now: float) -> None:
        self._send(_DONE, (now, numbers(ids)))

    def parsing_since(
        self, crawl: int, before: float, limit: int
    ) -> list[tuple[int, int, int, str]]:
        rows = self._rows(_PARSING_SINCE, (crawl, before, limit))
        return [(number, origin, attempts, url) for number, origin, attempts, url in rows]

    def queued_of_crawl(self, crawl: int, limit: int) -> list[WaitingRow]:
        return _waiting(self._rows(f"{_QUEUED} LIMIT %s", (crawl, limit)))

    def queued_of_origin(self, crawl: int, origin: int, limit: int) -> list[WaitingRow]:
        return _waiting(self._rows(f"{_QUEUED} AND origin = %s LIMIT %s", (crawl, origin, limit)))

    def queued_of_domain(self, crawl: int, domain: str, limit: int) -> list[WaitingRow]:
        return _waiting(self._rows(_QUEUED_OF_DOMAIN, (crawl, domain, limit)))

    def end(self, ids: Sequence[int], state: UrlState, reason: str, now: float) -> None:
        self._send(_END, (int(state), reason, now, numbers(ids)))

    def crawls_with(self, counter: str) -> list[int]:
        return self._listed("SELECT crawl FROM @counters WHERE name = %s AND value > 0", (counter,))

    def queue_claimed(self, crawl: int) -> list[tuple[int, int]]:
        return [(origin, number) for origin, number in self._changed(_QUEUE_CLAIMED, (crawl,))]

    # Fetch jobs

    def untold(self, limit: int) -> list[tuple[int, int, str, str]]:
        rows = self._rows(_UNTOLD, (limit,))
        return [(number, state, reason, job) for number, state, reason, job in rows]

    def told(self, ids: Sequence[int]) -> None:
        self._send(_TOLD, (numbers(ids),))

    def ended_jobs(self, before: float, limit: int) -> list[EndedJobRow]:
        rows = self._rows(_ENDED_JOBS, (before, limit))
        return [(number, origin, state, key) for number, origin, state, key in rows]

    def forget_jobs(self, rows: Sequence[EndedJobRow]) -> None:
        self._send(
            "DELETE FROM @urls WHERE id = ANY(%s::bigint[])", (numbers(row[0] for row in rows),)
        )
        self._send(
            "DELETE FROM @seen WHERE crawl = 0 AND key = ANY(%s::uuid[])",
            (uuids(row[3] for row in rows),),
        )

    def first_jobs(self, url_keys: Sequence[str]) -> list[FirstJob]:
        return [FirstJob(*row) for row in self._rows(_FIRST_JOBS, (texts(url_keys),))]

    def keep_first_jobs(self, firsts: Sequence[FirstJob]) -> None:
        url_keys, domains, jobs, turns, admitted, until = zip(*firsts, strict=True)
        self._send(
            _KEEP_FIRST_JOBS,
            (
                *(texts(url_keys), texts(domains), texts(jobs)),
                *(numbers(turns), numbers(admitted), numbers(until)),
            ),
        )

    def forget_first_job(self, url_key: str) -> None:
        self._send("DELETE FROM @first_jobs WHERE url_key = %s", (url_key,))

    def forget_first_jobs(self, now: float, limit: int) -> int:
        return len(self._changed(_FORGET_FIRST_JOBS, (now, limit)))


def _waiting(rows: Sequence[tuple[object, ...]]) -> list[WaitingRow]:
    return [(number, origin, url) for number, origin, url in rows]  # type: ignore[misc]

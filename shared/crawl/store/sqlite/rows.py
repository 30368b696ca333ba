"""The statements of a shard's owner, see `rows.ShardRows`."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.admission import MOST_AT_ONCE
from manyhands.shared.crawl.store.model import (
    KEY_BYTES,
    ClaimedUrl,
    FirstJob,
    LastOwner,
    LeaseLost,
    NewUrl,
    Outgoing,
    StoredDomain,
    StoredRobots,
)
from manyhands.shared.crawl.store.rows import EndedJobRow, SettledRow, WaitingRow
from manyhands.shared.crawl.store.schema_words import (
    IS_FORGETTABLE,
    IS_LISTED,
    IS_QUEUED,
    IS_UNTOLD,
)
from manyhands.shared.crawl.store.sqlite import links as sqlite_links
from manyhands.shared.crawl.store.sqlite import robots as sqlite_robots
from manyhands.shared.crawl.store.sqlite.database import to_json
from manyhands.shared.crawl.store.sqlite.reader import SqliteReader
from manyhands.shared.crawl.store.sqlite.tally_rows import SqliteTallyRows

# Keys cannot stand in JSON: they come as one long value, and the list says which of them.
_KNOWN = (
    "SELECT json_group_array(value) FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM seen"
    f" WHERE crawl = ?2 AND key = substr(?3, value * {KEY_BYTES} + 1, {KEY_BYTES}))"
)
_SEED_NAMES = (
    "SELECT json_group_array(name) FROM seed_names"
    " WHERE crawl = ? AND name IN (SELECT value FROM json_each(?))"
)
_ADD_SEED_NAMES = (
    "INSERT OR IGNORE INTO seed_names (crawl, name, domain)"
    " SELECT ?, value->>0, value->>1 FROM json_each(?)"
)
_OF_HOSTS = (
    "SELECT json_group_array(coalesce((SELECT admitted FROM hosts WHERE crawl = ?1 AND origin ="
    " (SELECT id FROM origins WHERE origin = value)), 0)) FROM json_each(?2)"
)
_ADD_DOMAINS = "INSERT OR IGNORE INTO domains (name) SELECT value->>1 FROM json_each(?)"
_ADD_ORIGINS = (
    "INSERT OR IGNORE INTO origins (origin, domain) SELECT value->>0,"
    " (SELECT id FROM domains WHERE name = value->>1) FROM json_each(?)"
)
_ORIGIN_IDS = (
    "SELECT json_group_array((SELECT id FROM origins WHERE origin = value->>0)) FROM json_each(?)"
)
_ADD_URLS = (
    "INSERT INTO urls (id, crawl, origin, updated_at, depth, redirects, key, url, job, note)"
    " SELECT ?1 + key, ?2, value->>0, ?3, value->>1, value->>2,"
    f" substr(?4, key * {KEY_BYTES} + 1, {KEY_BYTES}), value->>3, value->>4, value->>5"
    " FROM json_each(?5)"
)
_ADD_SEEN = (
    "INSERT INTO seen (crawl, key, url)"
    f" SELECT ?1, substr(?2, value * {KEY_BYTES} + 1, {KEY_BYTES}), ?3 + value FROM json_each(?4)"
)
_NEXT_URLS = (
    "SELECT json_group_array(json_array("
    "not_before, id, hex(key), url, depth, redirects, attempts, coalesce(job, ''),"
    " coalesce(note, ''))) FROM"
    " (SELECT not_before, id, key, url, depth, redirects, attempts, job, note FROM urls"
    f" WHERE crawl = ? AND origin = ? AND {IS_QUEUED} ORDER BY not_before, id LIMIT ?)"
)
_CLAIM = (
    f"UPDATE urls SET state = {UrlState.CLAIMED:d}, epoch = ?, updated_at = ?"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_OWED = (
    "SELECT json_group_array(json_array(id, crawl, origin, state, url)) FROM urls"
    " WHERE id IN (SELECT value FROM json_each(?)) AND epoch = ?"
)
_SETTLE = (
    "UPDATE urls SET state = settled.value->>1, epoch = 0, status = settled.value->>2,"
    " reason = settled.value->>3, attempts = max(attempts, settled.value->>4),"
    " not_before = settled.value->>5, updated_at = ?2"
    " FROM json_each(?1) AS settled WHERE urls.id = settled.value->>0"
)
_OF_KEYS = (
    "SELECT json_group_array(json_array("
    " wanted.value, urls.id, urls.state, urls.origin, urls.epoch, urls.reason))"
    " FROM json_each(?1) AS wanted CROSS JOIN seen CROSS JOIN urls"
    f" WHERE seen.crawl = ?2 AND seen.key = substr(?3, wanted.value * {KEY_BYTES} + 1, {KEY_BYTES})"
    " AND urls.id = seen.url"
)
_DONE = (
    f"UPDATE urls SET state = {UrlState.DONE:d}, reason = '', updated_at = ?"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_PARSING_SINCE = (
    "SELECT json_group_array(json_array(id, origin, attempts, url)) FROM"
    " (SELECT id, origin, attempts, url FROM urls WHERE crawl = ?"
    f" AND state = {UrlState.PARSING:d} AND {IS_LISTED} AND updated_at < ? LIMIT ?)"
)
_QUEUED_OF_CRAWL = (
    "SELECT json_group_array(json_array(id, origin, url)) FROM"
    f" (SELECT id, origin, url FROM urls WHERE crawl = ? AND {IS_QUEUED} LIMIT ?)"
)
_QUEUED_OF_ORIGIN = (
    "SELECT json_group_array(json_array(id, origin, url)) FROM"
    f" (SELECT id, origin, url FROM urls WHERE crawl = ? AND origin = ? AND {IS_QUEUED} LIMIT ?)"
)
_QUEUED_OF_DOMAIN = (
    "SELECT json_group_array(json_array(urls.id, urls.origin, urls.url)) FROM"
    " (SELECT urls.id, urls.origin, urls.url FROM origins CROSS JOIN urls"
    " ON urls.crawl = ? AND urls.origin = origins.id"
    f" AND urls.{IS_QUEUED}"
    " WHERE origins.domain = (SELECT id FROM domains WHERE name = ?) AND origins.queued > 0"
    " LIMIT ?) AS urls"
)
_END = (
    "UPDATE urls SET state = ?, reason = ?, updated_at = ?"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_UNTOLD = f"SELECT id, state, reason, job FROM urls WHERE {IS_UNTOLD} ORDER BY id LIMIT ?"
_TOLD = "UPDATE urls SET job = NULL WHERE id IN (SELECT value FROM json_each(?))"
_ENDED_JOBS = (
    f"SELECT id, origin, state, key FROM urls WHERE {IS_FORGETTABLE} AND updated_at < ?"
    " ORDER BY updated_at LIMIT ?"
)
_FORGET_SEEN = (
    "DELETE FROM seen WHERE crawl = 0 AND key IN"
    f" (SELECT substr(?2, value * {KEY_BYTES} + 1, {KEY_BYTES}) FROM json_each(?1))"
)
_FIRST_JOBS = (
    "SELECT url_key, domain, job, turn, admitted_at, until FROM json_each(?) AS wanted"
    " CROSS JOIN first_jobs WHERE url_key = wanted.value"
)
_KEEP_FIRST_JOBS = (
    "INSERT OR REPLACE INTO first_jobs (url_key, domain, job, turn, admitted_at, until)"
    " SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5 FROM json_each(?)"
)
_FORGET_FIRST_JOBS = (
    "DELETE FROM first_jobs WHERE url_key IN"
    " (SELECT url_key FROM first_jobs WHERE until <= ? LIMIT ?)"
)
_IS_CLAIMED = f"crawl = ? AND state = {UrlState.CLAIMED:d} AND {IS_LISTED}"
_DOMAINS = "SELECT id, name, next_at, delay_s FROM domains WHERE queued > 0"
# Seconds. A file that no owner has taken over since there is such a fact has none.
_LONGEST_FETCH = "SELECT value FROM facts WHERE name = 'longest_fetch_s'"
_SET_OWNER = "INSERT OR REPLACE INTO facts VALUES ('epoch', ?), ('longest_fetch_s', ?)"
_HOLD_BACK = (
    "UPDATE domains SET next_at = max(next_at, ? + delay_s) WHERE id IN"
    " (SELECT domain FROM origins WHERE id IN (SELECT value FROM json_each(?)))"
)


class SqliteRows(SqliteTallyRows, SqliteReader):
    """State: the connection."""

    @contextlib.contextmanager
    def transaction(self, epoch: int) -> Iterator[None]:
        with self._database.transaction():
            stored = self._epoch()
            if stored != epoch:
                raise LeaseLost(
                    f"{self._database.path} has another owner (epoch {stored}, ours is {epoch})"
                )
            yield

    @contextlib.contextmanager
    def takeover(self, epoch: int, longest_fetch_s: float) -> Iterator[LastOwner]:
        with self._database.transaction():
            last = LastOwner(self._epoch(), self._database.value(_LONGEST_FETCH))
            if last.epoch > epoch:
                raise LeaseLost(f"{self._database.path} belongs to a later owner")
            self._database.run(_SET_OWNER, (epoch, longest_fetch_s))
            yield last

    def _epoch(self) -> int:
        return int(self._database.value("SELECT value FROM facts WHERE name = 'epoch'"))

    # Admission

    def known(self, crawl: int, keys: Sequence[bytes]) -> list[int]:
        return self._database.listed(_KNOWN, (_numbers(len(keys)), crawl, b"".join(keys)))

    def seed_names_among(self, crawl: int, names: Sequence[str]) -> list[str]:
        return self._database.listed(_SEED_NAMES, (crawl, to_json(names)))

    def add_seed_names(self, crawl: int, names: Sequence[tuple[str, str]]) -> None:
        self._database.run(_ADD_SEED_NAMES, (crawl, to_json(names)))

    def admitted_of_hosts(self, crawl: int, origins: Sequence[str]) -> list[int]:
        return self._database.listed(_OF_HOSTS, (crawl, to_json(origins)))

    def origin_ids(self, origins: Sequence[tuple[str, str]]) -> list[int]:
        listed = to_json(origins)
        self._database.run(_ADD_DOMAINS, (listed,))
        self._database.run(_ADD_ORIGINS, (listed,))
        return self._database.listed(_ORIGIN_IDS, (listed,))

    def next_url_id(self) -> int:
        return int(self._database.value("SELECT coalesce(max(id), 0) + 1 FROM urls"))

    def add_urls(
        self, first: int, crawl: int, now: float, urls: Sequence[NewUrl], origins: Sequence[int]
    ) -> None:
        keys = b"".join([url.key for url in urls])
        rows = [
            (origin, url.depth, url.redirects, url.url, url.job or None, url.note or None)
            for url, origin in zip(urls, origins, strict=True)
        ]
        self._database.run(_ADD_URLS, (first, crawl, now, keys, to_json(rows)))
        # `seen` in the order of its keys, so that each of its pages is touched once.
        in_order = sorted(range(len(urls)), key=lambda place: urls[place].key)
        self._database.run(_ADD_SEEN, (crawl, keys, first, to_json(in_order)))

    # Domains

    def due_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        return self._with_origins(
            self._database.rows(
                f"{_DOMAINS} AND taken = 0 AND next_at <= ? ORDER BY next_at, id LIMIT ?",
                (due_by, limit),
            )
        )

    def domains_named(self, names: Collection[str]) -> list[StoredDomain]:
        return self._with_origins(
            self._database.rows(
                f"{_DOMAINS} AND name IN (SELECT value FROM json_each(?))", (to_json(list(names)),)
            )
        )

    def taken(self) -> list[StoredDomain]:
        return self._with_origins(self._database.rows(f"{_DOMAINS} AND taken <> 0"))

    def take(self, domains: Sequence[int], epoch: int) -> None:
        self._database.run(
            "UPDATE domains SET taken = ? WHERE id IN (SELECT value FROM json_each(?))",
            (epoch, to_json(domains)),
        )

    def give_all_up(self, now: float) -> None:
        self._database.run(
            "UPDATE domains SET next_at = max(next_at, ? + delay_s), taken = 0 WHERE taken <> 0",
            (now,),
        )

    def hold_back(self, origins: Sequence[int], until: float) -> None:
        self._database.run(_HOLD_BACK, (until, to_json(origins)))

    # URLs

    def next_urls(
        self, wanted: Mapping[int, int], crawls: Sequence[int]
    ) -> list[tuple[int, float, ClaimedUrl]]:
        return [
            (origin, not_before, ClaimedUrl(number, crawl, bytes.fromhex(key), *rest))
            for origin, limit in wanted.items()
            for crawl in crawls
            for not_before, number, key, *rest in self._database.listed(
                _NEXT_URLS, (crawl, origin, limit)
            )
        ]

    def mark_claimed(self, ids: Sequence[int], epoch: int, now: float) -> None:
        self._database.run(_CLAIM, (epoch, now, to_json(ids)))

    def owed(self, ids: Sequence[int], epoch: int) -> list[tuple[int, int, int, int, str]]:
        return self._database.listed(_OWED, (to_json(ids), epoch))

    def write_settled(self, rows: Sequence[SettledRow], now: float) -> None:
        self._database.run(_SETTLE, (to_json(rows), now))

    def of_keys(
        self, crawl: int, keys: Sequence[bytes]
    ) -> list[tuple[int, int, int, int, int, str]]:
        return self._database.listed(
            _OF_KEYS, (to_json(list(range(len(keys)))), crawl, b"".join(keys))
        )

    def mark_done(self, ids: Sequence[int], now: float) -> None:
        self._database.run(_DONE, (now, to_json(ids)))

    def parsing_since(
        self, crawl: int, before: float, limit: int
    ) -> list[tuple[int, int, int, str]]:
        return self._database.listed(_PARSING_SINCE, (crawl, before, limit))

    def queued_of_crawl(self, crawl: int, limit: int) -> list[WaitingRow]:
        return self._database.listed(_QUEUED_OF_CRAWL, (crawl, limit))

    def queued_of_origin(self, crawl: int, origin: int, limit: int) -> list[WaitingRow]:
        return self._database.listed(_QUEUED_OF_ORIGIN, (crawl, origin, limit))

    def queued_of_domain(self, crawl: int, domain: str, limit: int) -> list[WaitingRow]:
        return self._database.listed(_QUEUED_OF_DOMAIN, (crawl, domain, limit))

    def end(self, ids: Sequence[int], state: UrlState, reason: str, now: float) -> None:
        self._database.run(_END, (int(state), reason, now, to_json(ids)))

    def crawls_with(self, counter: str) -> list[int]:
        return self._database.listed(
            "SELECT json_group_array(crawl) FROM counters WHERE name = ? AND value > 0", (counter,)
        )

    def queue_claimed(self, crawl: int) -> list[tuple[int, int]]:
        counts = self._database.rows(
            f"SELECT origin, count(*) FROM urls WHERE {_IS_CLAIMED} GROUP BY origin", (crawl,)
        )
        self._database.run(
            f"UPDATE urls SET state = {UrlState.QUEUED:d}, epoch = 0 WHERE {_IS_CLAIMED}", (crawl,)
        )
        return counts

    # Fetch jobs

    def untold(self, limit: int) -> list[tuple[int, int, str, str]]:
        return self._database.rows(_UNTOLD, (limit,))

    def told(self, ids: Sequence[int]) -> None:
        self._database.run(_TOLD, (to_json(ids),))

    def ended_jobs(self, before: float, limit: int) -> list[EndedJobRow]:
        return self._database.rows(_ENDED_JOBS, (before, limit))

    def forget_jobs(self, rows: Sequence[EndedJobRow]) -> None:
        self._database.run(
            "DELETE FROM urls WHERE id IN (SELECT value FROM json_each(?))",
            (to_json([row[0] for row in rows]),),
        )
        keys = sorted(row[3] for row in rows)
        self._database.run(_FORGET_SEEN, (_numbers(len(keys)), b"".join(keys)))

    def first_jobs(self, url_keys: Sequence[str]) -> list[FirstJob]:
        return [FirstJob(*row) for row in self._database.rows(_FIRST_JOBS, (to_json(url_keys),))]

    def keep_first_jobs(self, firsts: Sequence[FirstJob]) -> None:
        self._database.run(_KEEP_FIRST_JOBS, (to_json([tuple(one) for one in firsts]),))

    def forget_first_job(self, url_key: str) -> None:
        self._database.run("DELETE FROM first_jobs WHERE url_key = ?", (url_key,))

    def forget_first_jobs(self, now: float, limit: int) -> int:
        return self._database.run(_FORGET_FIRST_JOBS, (now, limit))

    # Robots and links

    def robots(self, origins: Collection[str]) -> dict[str, StoredRobots]:
        return sqlite_robots.robots(self._database, origins)

    def keep_robots(self, origin: str, robots: StoredRobots) -> None:
        sqlite_robots.keep(self._database, origin, robots)

    def forget_robots(self, expired_before: float, most_bytes: int) -> None:
        sqlite_robots.forget(self._database, expired_before, most_bytes)

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        sqlite_links.send(self._database, crawl, batches)

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        return sqlite_links.outgoing(self._database, after, limit)

    def forget_outgoing(self, up_to: Mapping[int, int]) -> dict[int, int]:
        return sqlite_links.forget(self._database, up_to)

    def receive(self, batches: Sequence[tuple[int, int]]) -> list[int]:
        return sqlite_links.receive(self._database, batches)


@lru_cache(maxsize=MOST_AT_ONCE)
def _numbers(count: int) -> str:
    return to_json(list(range(count)))

"""A shard's file, as its owner uses it."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import (
    KEY_BYTES,
    STATE_COUNTERS,
    Admitted,
    ClaimedUrl,
    LeaseLost,
    NewUrl,
    Outgoing,
    Settled,
    StoredDomain,
    StoredOrigin,
    StoredRobots,
)
from manyhands.shared.crawl.store.sqlite import links as sqlite_links
from manyhands.shared.crawl.store.sqlite import robots as sqlite_robots
from manyhands.shared.crawl.store.sqlite.admission import Admission, Places
from manyhands.shared.crawl.store.sqlite.database import Database, to_json
from manyhands.shared.crawl.store.sqlite.reader import SqliteReader
from manyhands.shared.crawl.store.sqlite.schema import IS_LISTED, IS_QUEUED
from manyhands.shared.crawl.store.sqlite.tally import Errors, Tally

LOST = "lost in parsing"
PURGED = "purged"

_CLAIMABLE = (
    "SELECT json_group_array(json_array(id, hex(key), url, depth, redirects, attempts)) FROM"
    " (SELECT id, key, url, depth, redirects, attempts FROM urls"
    f" WHERE crawl = ? AND origin = ? AND not_before <= ? AND {IS_QUEUED}"
    " ORDER BY not_before, id LIMIT ?)"
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
_DUE_AT = (
    f"SELECT not_before FROM urls WHERE crawl = ? AND origin = ? AND {IS_QUEUED}"
    " ORDER BY not_before LIMIT 1"
)
# Keys cannot stand in JSON: they come as one long value, and the list says which of them.
_OF_KEYS = (
    "SELECT json_group_array(json_array("
    " wanted.value, urls.id, urls.state, urls.origin, urls.epoch))"
    " FROM json_each(?1) AS wanted CROSS JOIN seen CROSS JOIN urls"
    f" WHERE seen.crawl = ?2 AND seen.key = substr(?3, wanted.value * {KEY_BYTES} + 1, {KEY_BYTES})"
    " AND urls.id = seen.url"
)
_DONE = (
    f"UPDATE urls SET state = {UrlState.DONE:d}, updated_at = ?"
    " WHERE id IN (SELECT value FROM json_each(?))"
)
_LOST_IN_PARSING = (
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


class SqliteShard(SqliteReader):
    """State: the epoch, what the open transaction has added up and put off so far, and what need
    not be asked again."""

    def __init__(self, database: Database, epoch: int) -> None:
        super().__init__(database)
        self._epoch = epoch
        self._tally = Tally()
        self._places = Places()
        self._parsing: dict[int, Settled] = {}
        self._parsing_since = 0.0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._adding_up():
            check_epoch(self._database, self._epoch)
            yield

    def take_over(self, now: float) -> None:
        """Make the shard this epoch's own; raises LeaseLost when a later one was here. Nobody
        knows any more what the last owner had in hand, so it is queued again."""
        with self._adding_up():
            stored = self._database.value("SELECT value FROM facts WHERE name = 'epoch'")
            if stored > self._epoch:
                raise LeaseLost(f"{self._database.path} belongs to a later owner")
            self._database.run("UPDATE facts SET value = ? WHERE name = 'epoch'", (self._epoch,))
            self._queue_claimed()
            self._database.run(
                "UPDATE domains SET next_at = max(next_at, ? + delay_s), taken = 0"
                " WHERE taken <> 0",
                (now,),
            )

    def counters(self, crawl: int) -> dict[str, int]:
        self._write_tally()
        return super().counters(crawl)

    def waiting_domains(self, limit: int) -> list[StoredDomain]:
        self._write_tally()
        return super().waiting_domains(limit)

    def put_off(self, after: float, limit: int) -> list[StoredOrigin]:
        self._write_tally()
        return super().put_off(after, limit)

    def put_off_of(self, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        self._write_tally()
        return super().put_off_of(crawl, now, limit)

    # Frontier

    def admit(
        self,
        crawl: int,
        urls: Sequence[NewUrl],
        now: float,
        *,
        host_limit: int | None = None,
        are_seeds: bool = False,
    ) -> Admitted:
        admission = Admission(self._database, self._tally, self._places, crawl, now, host_limit)
        return admission.admit(urls, are_seeds=are_seeds)

    def take_domains(self, due_by: float, limit: int) -> list[StoredDomain]:
        self._write_tally()
        return self._taken(
            self._database.rows(
                "SELECT id, name, next_at, delay_s FROM domains"
                " WHERE queued > 0 AND taken = 0 AND next_at <= ? ORDER BY next_at, id LIMIT ?",
                (due_by, limit),
            )
        )

    def take_domain(self, name: str) -> StoredDomain | None:
        self._write_tally()
        found = self._taken(
            self._database.rows(
                "SELECT id, name, next_at, delay_s FROM domains WHERE name = ? AND queued > 0",
                (name,),
            )
        )
        return found[0] if found else None

    def taken_domains(self) -> list[StoredDomain]:
        self._write_tally()
        return self._with_origins(
            self._database.rows(
                "SELECT id, name, next_at, delay_s FROM domains WHERE taken <> 0 AND queued > 0", ()
            )
        )

    def keep_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        self._tally.domains[domain_id] = (next_at, delay_s, True)

    def put_domain(self, domain_id: int, next_at: float, delay_s: float) -> None:
        self._tally.domains[domain_id] = (next_at, delay_s, False)

    def keep_origin(self, origin_id: int, ready_at: float, notes: bytes) -> None:
        self._tally.origins[origin_id] = (ready_at, notes)

    def claim(self, origin_id: int, crawl: int, now: float, limit: int) -> list[ClaimedUrl]:
        rows = self._database.listed(_CLAIMABLE, (crawl, origin_id, now, limit))
        if rows:
            ids = to_json([row[0] for row in rows])
            self._database.run(_CLAIM, (self._epoch, now, ids))
            self._tally.move(crawl, origin_id, UrlState.QUEUED, UrlState.CLAIMED, len(rows))
        return [ClaimedUrl(number, crawl, bytes.fromhex(key), *rest) for number, key, *rest in rows]

    def due_at(self, origin_id: int, crawls: Collection[int]) -> float | None:
        due = [self._database.value(_DUE_AT, (crawl, origin_id)) for crawl in crawls]
        return min((at for at in due if at is not None), default=None)

    def settle(self, settled: Sequence[Settled], now: float) -> None:
        for one in settled:
            if one.state is UrlState.PARSING:
                # Kept until the end of the transaction: mostly its parse has answered by then.
                self._parsing.setdefault(one.id, one)
                self._parsing_since = now
        self._settle([one for one in settled if one.state is not UrlState.PARSING], now)

    def _settle(self, settled: Sequence[Settled], now: float) -> None:
        if not settled:
            return
        by_id = {one.id: one for one in reversed(settled)}
        owed = self._database.listed(_OWED, (to_json(list(by_id)), self._epoch))
        changed = []
        for number, crawl, origin, state, url in owed:
            one = by_id[number]
            if state == UrlState.CLAIMED:
                self._tally.move(crawl, origin, UrlState.CLAIMED, one.state)
                self._count_settled(crawl, one, url, now)
            elif one.state is UrlState.PARSING:
                # Its parse has answered already, and the page was counted then.
                one = one._replace(state=UrlState(state))
                self._tally.count(crawl, "bytes", one.size)
            else:
                continue
            changed.append(
                (number, one.state, one.status, one.reason, one.attempts, one.not_before)
            )
        if changed:
            self._database.run(_SETTLE, (to_json(changed), now))

    def parsed(self, crawl: int, keys: Sequence[bytes], now: float) -> list[int]:
        if not keys:
            return []
        if any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        wanted = to_json(list(range(len(keys))))
        found = self._database.listed(_OF_KEYS, (wanted, crawl, b"".join(keys)))
        done: dict[int, int] = {}
        settled = []
        for place, number, state, origin, epoch in found:
            if state not in (UrlState.PARSING, UrlState.CLAIMED) or number in done:
                continue
            done[number] = place
            self._tally.move(crawl, origin, UrlState(state), UrlState.DONE)
            if state == UrlState.CLAIMED:
                self._tally.count(crawl, "pages", 1)
                one = self._parsing.pop(number, None) if epoch == self._epoch else None
                if one is not None:
                    self._tally.count(crawl, "bytes", one.size)
                    settled.append((number, UrlState.DONE, one.status, "", one.attempts, 0))
        if settled:
            self._database.run(_SETTLE, (to_json(settled), now))
        others = list(done.keys() - {row[0] for row in settled})
        if others:
            self._database.run(_DONE, (now, to_json(others)))
        return list(done.values())

    def readmit(self, parsing_since: float, now: float, most_attempts: int, limit: int) -> int:
        changed = 0
        for crawl in self._crawls_with(UrlState.PARSING):
            rows = self._database.listed(_LOST_IN_PARSING, (crawl, parsing_since, limit - changed))
            changed += len(rows)
            self._readmit(crawl, rows, now, most_attempts)
        return changed

    def cancel(self, crawl: int, limit: int) -> int:
        rows = self._database.listed(_QUEUED_OF_CRAWL, (crawl, limit))
        return self._end(crawl, rows, UrlState.CANCELLED, "")

    def purge(self, crawl: int, domain: str, limit: int) -> int:
        self._write_tally()
        rows = self._database.listed(_QUEUED_OF_DOMAIN, (crawl, domain, limit))
        return self._end(crawl, rows, UrlState.SKIPPED, PURGED)

    def give_up(self, crawl: int, origin_id: int, reason: str, limit: int) -> int:
        rows = self._database.listed(_QUEUED_OF_ORIGIN, (crawl, origin_id, limit))
        return self._end(crawl, rows, UrlState.FAILED, reason)

    def count_error(self, crawl: int, reason: str, url: str, now: float) -> None:
        self._tally.error(crawl, reason, Errors(1, url, now, now))

    def count(self, crawl: int, deltas: Mapping[str, int]) -> None:
        for name, number in deltas.items():
            if name in STATE_COUNTERS:
                raise ValueError(f"{name} is counted by the store itself")
            self._tally.count(crawl, name, number)

    # Robots

    def robots(self, origin: str) -> StoredRobots | None:
        return sqlite_robots.robots(self._database, origin)

    def keep_robots(self, origin: str, robots: StoredRobots) -> None:
        sqlite_robots.keep(self._database, origin, robots)

    def forget_robots(self, expired_before: float, most_bytes: int) -> None:
        sqlite_robots.forget(self._database, expired_before, most_bytes)

    # Links for other shards

    def send(self, target: int, crawl: int, payload: bytes) -> Outgoing:
        self._tally.count(crawl, "outgoing", 1)
        return sqlite_links.send(self._database, target, crawl, payload)

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        return sqlite_links.outgoing(self._database, after, limit)

    def delivered(self, target: int, up_to: int) -> None:
        for crawl, number in sqlite_links.forget(self._database, target, up_to).items():
            self._tally.count(crawl, "outgoing", -number)

    def receive(self, source: int, sequence: int) -> bool:
        return sqlite_links.receive(self._database, source, sequence)

    # Parts of the above

    @contextlib.contextmanager
    def _adding_up(self) -> Iterator[None]:
        try:
            with self._database.transaction():
                self._places.next_url = None
                yield
                self._settle_parsing()
                self._tally.write_last(self._database)
        except BaseException:
            self._places = Places()
            raise
        finally:
            self._tally = Tally()
            self._parsing = {}

    def _settle_parsing(self) -> None:
        parsing, self._parsing = self._parsing, {}
        self._settle(list(parsing.values()), self._parsing_since)

    def _write_tally(self) -> None:
        self._settle_parsing()
        self._tally.write(self._database)

    def _taken(self, rows: list[tuple[int, str, float, float]]) -> list[StoredDomain]:
        domains = self._with_origins(rows)
        if domains:
            self._database.run(
                "UPDATE domains SET taken = ? WHERE id IN (SELECT value FROM json_each(?))",
                (self._epoch, to_json([domain.id for domain in domains])),
            )
        return domains

    def _crawls_with(self, state: UrlState) -> list[int]:
        self._write_tally()
        return self._database.listed(
            "SELECT json_group_array(crawl) FROM counters WHERE name = ? AND value > 0",
            (STATE_COUNTERS[state],),
        )

    def _queue_claimed(self) -> None:
        is_claimed = f"crawl = ? AND state = {UrlState.CLAIMED:d} AND {IS_LISTED}"
        for crawl in self._crawls_with(UrlState.CLAIMED):
            for origin, number in self._database.rows(
                f"SELECT origin, count(*) FROM urls WHERE {is_claimed} GROUP BY origin", (crawl,)
            ):
                self._tally.move(crawl, origin, UrlState.CLAIMED, UrlState.QUEUED, number)
            self._database.run(
                f"UPDATE urls SET state = {UrlState.QUEUED:d}, epoch = 0 WHERE {is_claimed}",
                (crawl,),
            )

    def _count_settled(self, crawl: int, one: Settled, url: str, now: float) -> None:
        is_redirect = 300 <= one.status < 400
        is_answer = one.status != 0 and not is_redirect and not one.state.is_pending
        if is_answer or one.state is UrlState.PARSING:
            self._tally.count(crawl, "pages", 1)
            self._tally.count(crawl, "bytes", one.size)
        if one.reason:
            self._tally.error(crawl, one.reason, Errors(1, url, now, now))

    def _readmit(self, crawl: int, rows: list[Any], now: float, most_attempts: int) -> None:
        changed = []
        for number, origin, attempts, url in rows:
            is_last = attempts + 1 >= most_attempts
            state = UrlState.FAILED if is_last else UrlState.QUEUED
            changed.append((number, state, 0, LOST, attempts + 1, now))
            self._tally.move(crawl, origin, UrlState.PARSING, state)
            self._tally.error(crawl, LOST, Errors(1, url, now, now))
            if not is_last:
                self._tally.count(crawl, "readmitted", 1)
        if changed:
            self._database.run(_SETTLE, (to_json(changed), now))

    def _end(self, crawl: int, rows: list[Any], state: UrlState, reason: str) -> int:
        if not rows:
            return 0
        now = clock.now()
        ids = to_json([row[0] for row in rows])
        self._database.run(_END, (int(state), reason, now, ids))
        for _, origin, url in rows:
            self._tally.move(crawl, origin, UrlState.QUEUED, state)
            if reason:
                self._tally.error(crawl, reason, Errors(1, url, now, now))
        return len(rows)


def check_epoch(database: Database, epoch: int) -> None:
    stored = database.value("SELECT value FROM facts WHERE name = 'epoch'")
    if stored != epoch:
        raise LeaseLost(f"{database.path} has another owner (epoch {stored}, ours is {epoch})")

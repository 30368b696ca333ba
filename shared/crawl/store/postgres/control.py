"""What all processes of a crawl share: layout, members, leases, crawls, seeds, orders.

Times of leases, members and the leader are those of the database: `clock_timestamp()`, because
`now()` stands still in a transaction.
"""

import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import orjson

from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.control_words import (
    ALL_CRAWLS,
    MOST_NOTES,
    crawl_of_row,
)
from manyhands.shared.crawl.store.crawl_files import (
    Changes,
    CrawlFiles,
    add_seeds,
    keep_files_of,
)
from manyhands.shared.crawl.store.errors import Undone
from manyhands.shared.crawl.store.model import (
    Crawl,
    CrawlEnds,
    DomainRule,
    KeyConflict,
    Layout,
    Lease,
    LeaseLost,
    Member,
    NewCrawl,
    NoSuchCrawl,
    Purge,
    SeedBatch,
)
from manyhands.shared.crawl.store.postgres.database import (
    CommitInDoubt,
    Database,
    Parameters,
    Row,
    Session,
)
from manyhands.shared.crawl.store.postgres.schema import Names
from manyhands.shared.crawl.store.shard import MOST_REPEATS
from manyhands.shared.crawl.store.whole.closing import CLOSED, Closed, refusal, tag_in
from manyhands.shared.urls import shard_of_domain, shard_of_url

_NOW = "extract(epoch FROM clock_timestamp())::float8"
_CRAWL = (
    "SELECT id, spec, state, ends_as, reason, created_at, started_at, ended_at, has_all_seeds,"
    " seed_file_lines FROM @crawls"
)
_LEASE = (
    f"INSERT INTO @leases AS old (shard, owner, epoch, until) VALUES (%s, %s, 1, {_NOW} + %s)"
    " ON CONFLICT (shard) DO UPDATE SET owner = excluded.owner, epoch = old.epoch + 1,"
    f" until = excluded.until WHERE old.until <= {_NOW} RETURNING epoch"
)
_RENEW = (
    f"UPDATE @leases AS leases SET until = {_NOW} + %s"
    " FROM unnest(%s::integer[], %s::bigint[]) AS ours (shard, epoch)"
    " WHERE leases.shard = ours.shard AND leases.epoch = ours.epoch AND leases.owner = %s"
    # One that ran out is still its owner's: whoever takes it over raises the epoch.
    " AND leases.until > 0 RETURNING leases.shard"
)
_LEAD = (
    f"INSERT INTO @leader AS old (id, name, until) VALUES (1, %s, {_NOW} + %s)"
    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, until = excluded.until"
    f" WHERE old.name = excluded.name OR old.until <= {_NOW} RETURNING name"
)
_LISTING = (
    "WITH sized AS (SELECT id, octet_length(spec) AS size FROM @crawls"
    " WHERE (%(after)s = 0 OR id < %(after)s) AND (%(state)s::text IS NULL OR state = %(state)s)"
    " ORDER BY id DESC LIMIT %(limit)s),"
    " summed AS (SELECT id, size, sum(size) OVER (ORDER BY id DESC) AS total FROM sized)"
    f" {_CRAWL} WHERE id IN (SELECT id FROM summed WHERE total <= %(bytes)s OR total = size)"
    " ORDER BY id DESC"
)
_BUMP = (
    "UPDATE @facts SET value = value + 1 WHERE name = 'version'"
    " AND NOT EXISTS (SELECT 1 FROM @facts WHERE name = %s AND value = %s) RETURNING value"
)

_RULES = "SELECT crawl, domain, delay_s, is_blocked, is_paused FROM @rules"

Result = TypeVar("Result")


class _OpenTables:
    """The control tables in an open transaction, see `whole.tables`."""

    def __init__(self, session: Session, names: Names) -> None:
        self._session = session
        self._names = names

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._session.rows(self._names.sql(sql), parameters)

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._session.send(self._names.sql(sql), parameters)

    def run_many(self, sql: str, rows: Iterable[Row]) -> None:
        for row in rows:
            self.run(sql, row)


class PostgresControl:
    """A `protocol.ControlStore`. State: none but the database's."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names = Names(database.place.schema)
        self._key = database.place.lock_key("control")
        self.files = CrawlFiles(self._rows, self._change, self._exclusions_kept_before)

    def close(self) -> None:
        """Connections are the database's."""

    def tag(self) -> str:
        return tag_in(self.facts())

    def set_clock(self) -> None:
        """From now on `clock.now` is the database's, as near as it can be known."""
        asked_at = time.monotonic()
        [(at,)] = self._database.ask(f"SELECT {_NOW}")
        clock.follow(at, asked_at, time.monotonic())

    # Layout

    def layout(self, wanted: int, *, may_change: bool = True) -> Layout:
        facts = self.facts()
        stored = facts.get("wanted")
        if stored is None or (may_change and stored != wanted):
            with self._changing(is_version=False) as session:
                first = {"generation": 1, "shards": wanted, "most_ever": wanted}
                facts = first | self._facts_of(session)
                facts["wanted"] = wanted
                self._set_facts(session, facts)
        return Layout(facts["generation"], facts["shards"], facts["wanted"], facts["most_ever"])

    def finish_reshard(
        self, generation: int, shards: int, held: Mapping[int, int] | None = None
    ) -> None:
        with self._changing() as session:
            # Nobody claims one between the look and the end of this.
            session.send(self._sql("LOCK TABLE @leases IN EXCLUSIVE MODE"))
            epochs: dict[int, int] = dict(
                session.rows(self._sql("SELECT shard, epoch FROM @leases"))
            )
            if held and not held.items() <= epochs.items():
                raise LeaseLost("a shard was claimed while its content was being moved")
            if held:
                session.send(self._sql("UPDATE @leases SET until = 0"))
            most_ever = max(shards, self._facts_of(session)["most_ever"])
            self._set_facts(
                session, {"generation": generation, "shards": shards, "most_ever": most_ever}
            )
            self._resplit(session, shards)

    # Members, leases, leader

    def join(self, member: Member, ttl_s: float) -> None:
        with self._transaction() as session:
            session.send(self._sql(f"DELETE FROM @members WHERE until <= {_NOW}"))
            session.send(
                self._sql(
                    f"INSERT INTO @members VALUES (%s, %s, %s, {_NOW} + %s)"
                    " ON CONFLICT (name) DO UPDATE SET slots = excluded.slots,"
                    " figures = excluded.figures, until = excluded.until"
                ),
                (member.name, member.slots, orjson.dumps(member.figures).decode(), ttl_s),
            )

    def leave(self, name: str) -> None:
        with self._transaction() as session:
            session.send(self._sql("DELETE FROM @members WHERE name = %s"), (name,))
            session.send(self._sql("UPDATE @leases SET until = 0 WHERE owner = %s"), (name,))
            session.send(self._sql("DELETE FROM @leader WHERE name = %s"), (name,))

    def members(self) -> list[Member]:
        rows = self._rows(
            f"SELECT name, slots, figures FROM @members WHERE until > {_NOW} ORDER BY name"
        )
        return [Member(name, slots, orjson.loads(figures)) for name, slots, figures in rows]

    def leases(self) -> list[Lease]:
        rows = self._rows(
            f"SELECT shard, owner, epoch, until > {_NOW}, until = 0 FROM @leases"
            " WHERE shard < (SELECT value FROM @facts WHERE name = 'shards') ORDER BY shard"
        )
        return [Lease(*row) for row in rows]

    def claim_lease(self, shard: int, owner: str, ttl_s: float) -> int | None:
        with self._transaction() as session:
            rows = session.changed(self._sql(_LEASE), (shard, owner, ttl_s))
        return int(rows[0][0]) if rows else None

    def renew_leases(self, owner: str, epochs: Mapping[int, int], ttl_s: float) -> set[int]:
        self.set_clock()
        with self._transaction() as session:
            rows = session.changed(
                self._sql(_RENEW), (ttl_s, list(epochs), list(epochs.values()), owner)
            )
        return {shard for (shard,) in rows}

    def release_lease(self, shard: int, epoch: int) -> None:
        with self._transaction() as session:
            session.send(
                self._sql("UPDATE @leases SET until = 0 WHERE shard = %s AND epoch = %s"),
                (shard, epoch),
            )

    def lead(self, name: str, ttl_s: float) -> bool:
        with self._transaction() as session:
            return bool(session.changed(self._sql(_LEAD), (name, ttl_s)))

    # Crawls

    def version(self) -> int:
        return int(self._rows("SELECT value FROM @facts WHERE name = 'version'")[0][0])

    def create_crawl(self, new: NewCrawl, now: float) -> tuple[Crawl, bool]:
        # A key of its own: after a COMMIT that was not answered, it shows what became of it.
        key = new.idempotency_key or secrets.token_hex(16)
        is_in_doubt = False

        def create() -> tuple[Crawl, bool]:
            nonlocal is_in_doubt
            try:
                crawl, is_new = self._create_crawl(new, key, now)
            except CommitInDoubt:
                is_in_doubt = True
                raise
            return crawl, is_new or is_in_doubt

        return self._repeated_when_lost(create)

    def _create_crawl(self, new: NewCrawl, key: str, now: float) -> tuple[Crawl, bool]:
        with self._changing(is_version=False) as session:
            rows = session.rows(
                self._sql("SELECT id, fingerprint FROM @crawls WHERE idempotency_key = %s"), (key,)
            )
            if rows and rows[0][1] != new.fingerprint:
                raise KeyConflict("the idempotency key was used for a different crawl")
            if rows:
                return self._crawl(session, rows[0][0]), False
            self._bump_version(session)
            [(number,)] = session.changed(
                self._sql(
                    "INSERT INTO @crawls"
                    " (spec, state, created_at, idempotency_key, fingerprint, has_all_seeds)"
                    " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id"
                ),
                (
                    *(new.spec.model_dump_json(), CrawlState.STARTING.value, now),
                    *(key, new.fingerprint, new.has_all_seeds),
                ),
            )
            keep_files_of(self._tables(session), number, new)
            self._add_seeds(session, number, new.seeds)
            return self._crawl(session, number), True

    def crawl(self, crawl: int) -> Crawl:
        return _the_crawl(crawl, self._rows(f"{_CRAWL} WHERE id = %s", (crawl,)))

    def crawls(
        self, after_id: int, limit: int, state: CrawlState | None = None, *, max_bytes: int
    ) -> list[Crawl]:
        wanted = None if state is None else state.value
        rows = self._rows(
            _LISTING, {"after": after_id, "state": wanted, "limit": limit, "bytes": max_bytes}
        )
        return [crawl_of_row(row) for row in rows]

    def crawl_states(self, above_id: int) -> list[tuple[int, CrawlState]]:
        rows = self._rows("SELECT id, state FROM @crawls WHERE id > %s ORDER BY id", (above_id,))
        return [(number, CrawlState(state)) for number, state in rows]

    def live_crawls(self) -> list[Crawl]:
        live = [state.value for state in CrawlState if not state.is_final]
        rows = self._rows(f"{_CRAWL} WHERE state = ANY(%s::text[]) ORDER BY id", (live,))
        return [crawl_of_row(row) for row in rows]

    def change_state(
        self,
        crawl: int,
        expected: Collection[CrawlState],
        state: CrawlState,
        now: float,
        *,
        reason: str = "",
        ends_as: CrawlState | None = None,
    ) -> bool:
        with self._changing(is_version=False) as session:
            if self._crawl(session, crawl).state not in expected:
                return False
            if state is CrawlState.COMPLETED and self._seeds_waiting(session, crawl):
                return False
            self._bump_version(session)
            session.send(
                self._sql(
                    "UPDATE @crawls SET state = %s, reason = %s, ends_as = %s,"
                    " started_at = CASE WHEN %s THEN coalesce(started_at, %s) ELSE started_at END,"
                    " ended_at = CASE WHEN %s THEN %s ELSE ended_at END WHERE id = %s"
                ),
                (
                    *(state.value, reason, None if ends_as is None else ends_as.value),
                    *(state is CrawlState.RUNNING, now, state.is_final, now, crawl),
                ),
            )
        return True

    def add_seeds(self, crawl: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        def add() -> None:
            with self._changing() as session:
                state = self._crawl(session, crawl).state
                if state.is_final or state is CrawlState.STOPPING:
                    raise CrawlEnds(f"crawl {crawl} is {state}: it takes no more seeds")
                self._add_seeds(session, crawl, by_shard)

        # Seeds that are stored twice are taken once.
        self._repeated_when_lost(add)

    def all_seeds_added(self, crawl: int, seed_file_lines: int | None = None) -> None:
        def end() -> None:
            with self._changing() as session:
                self._crawl(session, crawl)
                session.send(
                    self._sql(
                        "UPDATE @crawls SET has_all_seeds = true,"
                        " seed_file_lines = coalesce(%s, seed_file_lines) WHERE id = %s"
                    ),
                    (seed_file_lines, crawl),
                )

        self._repeated_when_lost(end)

    def seed_file_read(self, crawl: int, lines: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        with self._changing() as session:
            self._crawl(session, crawl)
            session.send(
                self._sql("UPDATE @crawls SET seed_file_lines = %s WHERE id = %s"), (lines, crawl)
            )
            self._add_seeds(session, crawl, by_shard)

    def seeds(self, shard: int, limit: int) -> list[SeedBatch]:
        rows = self._rows(
            "SELECT id, crawl, urls FROM @seeds WHERE shard = %s ORDER BY id LIMIT %s",
            (shard, limit),
        )
        return [SeedBatch(number, crawl, orjson.loads(urls)) for number, crawl, urls in rows]

    def seeds_taken(self, ids: Sequence[int]) -> None:
        with self._changing() as session:
            session.send(self._sql("DELETE FROM @seeds WHERE id = ANY(%s::bigint[])"), (list(ids),))

    def seeds_waiting(self, crawl: int) -> int:
        return int(self._rows("SELECT count(*) FROM @seeds WHERE crawl = %s", (crawl,))[0][0])

    # Orders of operators

    def set_rule(self, rule: DomainRule) -> None:
        self.change_rule(rule.crawl, rule.domain, lambda _: rule)

    def change_rule(
        self, crawl: int | None, domain: str, change: Callable[[DomainRule], DomainRule]
    ) -> DomainRule:
        key = (crawl or ALL_CRAWLS, domain)

        def change_it() -> DomainRule:
            with self._changing() as session:
                found = session.rows(
                    self._sql(f"{_RULES} WHERE crawl = %s AND domain = %s FOR UPDATE"), key
                )
                rule = change(_rule(found[0]) if found else DomainRule(crawl, domain))
                session.send(self._sql("DELETE FROM @rules WHERE crawl = %s AND domain = %s"), key)
                if not rule.is_empty:
                    session.send(
                        self._sql(
                            "INSERT INTO @rules (crawl, domain, delay_s, is_blocked, is_paused)"
                            " VALUES (%s, %s, %s, %s, %s)"
                        ),
                        (*key, rule.delay_s, rule.is_blocked, rule.is_paused),
                    )
            return rule

        return self._repeated_when_lost(change_it)

    def rules(self) -> list[DomainRule]:
        return list(map(_rule, self._rows(f'{_RULES} ORDER BY crawl, domain COLLATE "C"')))

    def order_purge(self, shard: int, crawl: int, domain: str) -> None:
        with self._changing() as session:
            session.send(
                self._sql("INSERT INTO @purges (shard, crawl, domain) VALUES (%s, %s, %s)"),
                (shard, crawl, domain),
            )

    def purges(self, shard: int) -> list[Purge]:
        rows = self._rows(
            "SELECT id, crawl, domain FROM @purges WHERE shard = %s ORDER BY id", (shard,)
        )
        return [Purge(*row) for row in rows]

    def purge_done(self, purge: int) -> None:
        with self._changing() as session:
            session.send(self._sql("DELETE FROM @purges WHERE id = %s"), (purge,))

    def shards_with_orders(self) -> set[int]:
        rows = self._rows("SELECT shard FROM @seeds UNION SELECT shard FROM @purges")
        return {shard for (shard,) in rows}

    def grant_pages(self, crawl: int, member: str, wanted: int, most: int) -> int:
        # If they were granted and nobody heard of it, they count as those of a member that died.
        with contextlib.suppress(CommitInDoubt):
            return self._grant_pages(crawl, member, wanted, most)
        return 0

    def return_pages(self, crawl: int, member: str, unused: int) -> None:
        # Once at most: who returns them twice makes others exceed the limit.
        with contextlib.suppress(CommitInDoubt):
            self._return_pages(crawl, member, unused)

    def _grant_pages(self, crawl: int, member: str, wanted: int, most: int) -> int:
        with self._changing(is_version=False) as session:
            pages = max(0, min(wanted, most - self._granted(session, crawl)))
            if pages:
                session.send(
                    self._sql(
                        "INSERT INTO @grants AS old VALUES (%s, %s, %s) ON CONFLICT (crawl, member)"
                        " DO UPDATE SET pages = old.pages + excluded.pages"
                    ),
                    (crawl, member, pages),
                )
        return pages

    def _return_pages(self, crawl: int, member: str, unused: int) -> None:
        with self._changing(is_version=False) as session:
            session.send(
                self._sql(
                    "UPDATE @grants SET pages = greatest(0, pages - %s)"
                    " WHERE crawl = %s AND member = %s"
                ),
                (unused, crawl, member),
            )

    def granted_pages(self, crawl: int) -> int:
        with self._transaction() as session:
            return self._granted(session, crawl)

    def reset_pages(self, crawl: int, used: int, granted: int) -> bool:
        with self._changing(is_version=False) as session:
            if self._granted(session, crawl) != granted:
                return False
            session.send(self._sql("DELETE FROM @grants WHERE crawl = %s"), (crawl,))
            session.send(self._sql("INSERT INTO @grants VALUES (%s, '', %s)"), (crawl, used))
        return True

    def note(self, crawl: int, text: str, now: float) -> None:
        with self._transaction() as session:
            session.send(
                self._sql("INSERT INTO @notes (crawl, at, text) VALUES (%s, %s, %s)"),
                (crawl, now, text),
            )
            session.send(
                self._sql(
                    "DELETE FROM @notes WHERE crawl = %s AND id <= (SELECT id FROM @notes"
                    " WHERE crawl = %s ORDER BY id DESC LIMIT 1 OFFSET %s)"
                ),
                (crawl, crawl, MOST_NOTES),
            )

    def notes(self, crawl: int, limit: int) -> list[tuple[float, str]]:
        rows = self._rows(
            "SELECT at, text FROM @notes WHERE crawl = %s ORDER BY id DESC LIMIT %s", (crawl, limit)
        )
        return [(at, text) for at, text in rows]

    # Parts of the above

    def _exclusions_kept_before(self, crawl: int) -> str | None:
        """They had a column of their own once."""
        rows = self._rows("SELECT exclusions FROM @crawls WHERE id = %s", (crawl,))
        return rows[0][0] if rows else None

    def _change(self, work: Callable[[Changes], Result]) -> Result:
        """Of the files of crawls, see `CrawlFiles`: each does no harm when it is done twice."""

        def change() -> Result:
            with self._changing() as session:
                return work(self._tables(session))

        return self._repeated_when_lost(change)

    def _tables(self, session: Session) -> _OpenTables:
        return _OpenTables(session, self._names)

    def _repeated_when_lost(self, change: Callable[[], Result]) -> Result:
        """Of a change that does no harm when it is done twice."""
        for _ in range(MOST_REPEATS):
            with contextlib.suppress(Undone, CommitInDoubt):
                return change()
        return change()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Session]:
        with self._database.transaction() as (session, _):
            yield session

    @contextlib.contextmanager
    def _changing(self, *, is_version: bool = True) -> Iterator[Session]:
        """One at a time; with a new version, which others should look at."""
        lock = ("SELECT pg_advisory_xact_lock(%s)", (self._key,))
        with self._database.transaction(lock) as (session, _):
            if is_version:
                self._bump_version(session)
            yield session

    def _bump_version(self, session: Session) -> None:
        if not session.changed(self._sql(_BUMP), (CLOSED, int(Closed.HAS_LEFT))):
            # Opened before that, perhaps: what it would write now would be lost.
            raise refusal(Closed.HAS_LEFT, self._database.place.shown)

    def _rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._database.ask(self._sql(sql), parameters)

    def _sql(self, text: str) -> str:
        return self._names.sql(text)

    def facts(self) -> dict[str, int]:
        return dict(self._rows("SELECT name, value FROM @facts"))

    def _facts_of(self, session: Session) -> dict[str, int]:
        return dict(session.rows(self._sql("SELECT name, value FROM @facts")))

    def _set_facts(self, session: Session, facts: Mapping[str, int]) -> None:
        session.send(
            self._sql(
                "INSERT INTO @facts SELECT * FROM unnest(%s::text[], %s::bigint[])"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            ),
            (list(facts), list(facts.values())),
        )

    def _crawl(self, session: Session, crawl: int) -> Crawl:
        return _the_crawl(crawl, session.rows(self._sql(f"{_CRAWL} WHERE id = %s"), (crawl,)))

    def _seeds_waiting(self, session: Session, crawl: int) -> int:
        sql = self._sql("SELECT count(*) FROM @seeds WHERE crawl = %s")
        return int(session.value(sql, (crawl,)))

    def _granted(self, session: Session, crawl: int) -> int:
        sql = self._sql("SELECT coalesce(sum(pages), 0)::bigint FROM @grants WHERE crawl = %s")
        return int(session.value(sql, (crawl,)))

    def _add_seeds(
        self, session: Session, crawl: int, by_shard: Mapping[int, Sequence[str]]
    ) -> None:
        add_seeds(self._tables(session), crawl, by_shard)

    def _resplit(self, session: Session, shards: int) -> None:
        """What waits for the owners of shards, given to the shards of a new count. One batch at a
        time; the new ones come behind the last of the old."""
        last = session.value(self._sql("SELECT max(id) FROM @seeds")) or 0
        while rows := session.changed(
            self._sql(
                "DELETE FROM @seeds WHERE id = (SELECT min(id) FROM @seeds WHERE id <= %s)"
                " RETURNING crawl, urls"
            ),
            (last,),
        ):
            [(crawl, urls)] = rows
            by_shard: defaultdict[int, list[str]] = defaultdict(list)
            for url in orjson.loads(urls):
                by_shard[shard_of_url(url, shards)].append(url)
            self._add_seeds(session, crawl, by_shard)
        for number, domain in session.rows(self._sql("SELECT id, domain FROM @purges")):
            session.send(
                self._sql("UPDATE @purges SET shard = %s WHERE id = %s"),
                (shard_of_domain(domain, shards), number),
            )


def _rule(row: Row) -> DomainRule:
    crawl, *rest = row
    return DomainRule(crawl or None, *rest)


def _the_crawl(crawl: int, rows: list[Any]) -> Crawl:
    if not rows:
        raise NoSuchCrawl(f"there is no crawl {crawl}")
    return crawl_of_row(rows[0])

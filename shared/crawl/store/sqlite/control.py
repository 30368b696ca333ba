"""What all processes of a crawl share: layout, members, leases, crawls, seeds, orders."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.clock import Moment, moment
from manyhands.shared.crawl.store.control_words import (
    ALL_CRAWLS,
    MOST_NOTES,
    crawl_of_row,
)
from manyhands.shared.crawl.store.crawl_files import (
    Changes,
    CrawlFiles,
    Result,
    add_seeds,
    keep_files_of,
)
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
from manyhands.shared.crawl.store.sqlite import resplit
from manyhands.shared.crawl.store.sqlite.database import Database, to_json
from manyhands.shared.crawl.store.sqlite.tables import SqliteTables
from manyhands.shared.crawl.store.whole.closing import CLOSED, Closed, refusal, tag_in

_CRAWL = (
    "SELECT id, spec, state, ends_as, reason, created_at, started_at, ended_at, has_all_seeds,"
    " seed_file_lines FROM crawls"
)
_IS_LIVE = "boot = ? AND until > ?"


class SqliteControl:
    """State: the connection."""

    def __init__(self, database: Database, clock: Callable[[], Moment] = moment) -> None:
        self._database = database
        self._clock = clock
        self._tables = SqliteTables(database)
        self.files = CrawlFiles(self._tables.ask, self._change, self._exclusions_kept_before)

    def close(self) -> None:
        self._database.close()

    def tag(self) -> str:
        return tag_in(self.facts())

    # Layout

    def layout(self, wanted: int, *, may_change: bool = True) -> Layout:
        stored = self.facts().get("wanted")
        if stored is None or (may_change and stored != wanted):
            with self._database.transaction():
                facts = {"generation": 1, "shards": wanted, "most_ever": wanted} | self.facts()
                self._set_facts(facts | {"wanted": wanted})
        facts = self.facts()
        return Layout(facts["generation"], facts["shards"], facts["wanted"], facts["most_ever"])

    def finish_reshard(
        self, generation: int, shards: int, held: Mapping[int, int] | None = None
    ) -> None:
        with self._changing():
            epochs = dict(self._database.rows("SELECT shard, epoch FROM leases"))
            if held and not held.items() <= epochs.items():
                raise LeaseLost("a shard was claimed while its content was being moved")
            if held:
                self._database.run("UPDATE leases SET until = 0")
            most_ever = max(shards, self.facts()["most_ever"])
            self._set_facts({"generation": generation, "shards": shards, "most_ever": most_ever})
            resplit.seeds(self._database, shards)
            resplit.purges(self._database, shards)

    # Members, leases, leader

    def join(self, member: Member, ttl_s: float) -> None:
        now = self._clock()
        with self._database.transaction():
            self._database.run(f"DELETE FROM members WHERE NOT ({_IS_LIVE})", now)
            self._database.run(
                "INSERT OR REPLACE INTO members VALUES (?, ?, ?, ?, ?)",
                (member.name, member.slots, to_json(member.figures), now.boot, now.at + ttl_s),
            )

    def leave(self, name: str) -> None:
        with self._database.transaction():
            self._database.run("DELETE FROM members WHERE name = ?", (name,))
            self._database.run("UPDATE leases SET until = 0 WHERE owner = ?", (name,))
            self._database.run("DELETE FROM leader WHERE name = ?", (name,))

    def members(self) -> list[Member]:
        rows = self._database.rows(
            f"SELECT name, slots, figures FROM members WHERE {_IS_LIVE} ORDER BY name",
            self._clock(),
        )
        return [Member(name, slots, orjson.loads(figures)) for name, slots, figures in rows]

    def leases(self) -> list[Lease]:
        rows = self._database.rows(
            f"SELECT shard, owner, epoch, {_IS_LIVE}, until = 0 FROM leases"
            " WHERE shard < (SELECT value FROM facts WHERE name = 'shards') ORDER BY shard",
            self._clock(),
        )
        return [
            Lease(shard, owner, epoch, bool(live), bool(given_back))
            for shard, owner, epoch, live, given_back in rows
        ]

    def claim_lease(self, shard: int, owner: str, ttl_s: float) -> int | None:
        now = self._clock()
        epoch = self._returned(
            "INSERT INTO leases (shard, owner, epoch, boot, until) VALUES (?1, ?2, 1, ?3, ?5)"
            " ON CONFLICT DO UPDATE SET owner = ?2, epoch = epoch + 1, boot = ?3, until = ?5"
            " WHERE NOT (boot = ?3 AND until > ?4) RETURNING epoch",
            (shard, owner, now.boot, now.at, now.at + ttl_s),
        )
        return None if epoch is None else int(epoch)

    def renew_leases(self, owner: str, epochs: Mapping[int, int], ttl_s: float) -> set[int]:
        now = self._clock()
        with self._database.transaction():
            rows = self._database.rows(
                "UPDATE leases SET until = ?1 FROM json_each(?2) AS ours WHERE"
                " shard = ours.value->>0 AND epoch = ours.value->>1 AND owner = ?3"
                " AND boot = ?4 AND until > 0 RETURNING shard",
                (now.at + ttl_s, to_json(list(epochs.items())), owner, now.boot),
            )
        return {shard for (shard,) in rows}

    def release_lease(self, shard: int, epoch: int) -> None:
        with self._database.transaction():
            self._database.run(
                "UPDATE leases SET until = 0 WHERE shard = ? AND epoch = ?", (shard, epoch)
            )

    def lead(self, name: str, ttl_s: float) -> bool:
        now = self._clock()
        leader = self._returned(
            "INSERT INTO leader (id, name, boot, until) VALUES (1, ?1, ?2, ?4)"
            " ON CONFLICT DO UPDATE SET name = ?1, boot = ?2, until = ?4"
            " WHERE name = ?1 OR NOT (boot = ?2 AND until > ?3) RETURNING name",
            (name, now.boot, now.at, now.at + ttl_s),
        )
        return leader is not None

    # Crawls

    def version(self) -> int:
        return int(self._database.value("SELECT value FROM facts WHERE name = 'version'"))

    def create_crawl(self, new: NewCrawl, now: float) -> tuple[Crawl, bool]:
        with self._database.transaction():
            known = self._crawl_of_key(new.idempotency_key, new.fingerprint)
            if known is not None:
                return known, False
            self._bump_version()
            number = self._database.value(
                "INSERT INTO crawls"
                " (spec, state, created_at, idempotency_key, fingerprint, has_all_seeds)"
                " VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    *(new.spec.model_dump_json(), CrawlState.STARTING, now),
                    *(new.idempotency_key, new.fingerprint, new.has_all_seeds),
                ),
            )
            keep_files_of(self._tables, number, new)
            self._add_seeds(number, new.seeds)
        return self.crawl(number), True

    def crawl(self, crawl: int) -> Crawl:
        row = self._database.row(f"{_CRAWL} WHERE id = ?", (crawl,))
        if row is None:
            raise NoSuchCrawl(f"there is no crawl {crawl}")
        return crawl_of_row(row)

    def crawls(
        self, after_id: int, limit: int, state: CrawlState | None = None, *, max_bytes: int
    ) -> list[Crawl]:
        rows = self._database.rows(
            "WITH sized AS (SELECT id, length(spec) AS size FROM crawls"
            " WHERE (?1 = 0 OR id < ?1) AND (?2 IS NULL OR state = ?2) ORDER BY id DESC LIMIT ?3),"
            " summed AS (SELECT id, size, sum(size) OVER (ORDER BY id DESC) AS total FROM sized)"
            f" {_CRAWL} WHERE id IN (SELECT id FROM summed WHERE total <= ?4 OR total = size)"
            " ORDER BY id DESC",
            (after_id, state, limit, max_bytes),
        )
        return [crawl_of_row(row) for row in rows]

    def crawl_states(self, above_id: int) -> list[tuple[int, CrawlState]]:
        rows = self._database.rows(
            "SELECT id, state FROM crawls WHERE id > ? ORDER BY id", (above_id,)
        )
        return [(number, CrawlState(state)) for number, state in rows]

    def live_crawls(self) -> list[Crawl]:
        live = [state for state in CrawlState if not state.is_final]
        rows = self._database.rows(
            f"{_CRAWL} WHERE state IN (SELECT value FROM json_each(?)) ORDER BY id",
            (to_json(live),),
        )
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
        with self._database.transaction():
            if self.crawl(crawl).state not in expected:
                return False
            if state is CrawlState.COMPLETED and self.seeds_waiting(crawl):
                return False
            self._bump_version()
            self._database.run(
                "UPDATE crawls SET state = ?1, reason = ?2, ends_as = ?3,"
                " started_at = iif(?1 = ?4, coalesce(started_at, ?6), started_at),"
                " ended_at = iif(?5, ?6, ended_at) WHERE id = ?7",
                (*(state, reason, ends_as, CrawlState.RUNNING), state.is_final, now, crawl),
            )
        return True

    def add_seeds(self, crawl: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        with self._changing():
            state = self.crawl(crawl).state
            if state.is_final or state is CrawlState.STOPPING:
                raise CrawlEnds(f"crawl {crawl} is {state}: it takes no more seeds")
            self._add_seeds(crawl, by_shard)

    def all_seeds_added(self, crawl: int, seed_file_lines: int | None = None) -> None:
        with self._changing():
            self._change_crawl(
                crawl,
                "has_all_seeds = 1, seed_file_lines = coalesce(?, seed_file_lines)",
                seed_file_lines,
            )

    def seed_file_read(self, crawl: int, lines: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        with self._changing():
            self._change_crawl(crawl, "seed_file_lines = ?", lines)
            self._add_seeds(crawl, by_shard)

    def seeds(self, shard: int, limit: int) -> list[SeedBatch]:
        rows = self._database.rows(
            "SELECT id, crawl, urls FROM seeds WHERE shard = ? ORDER BY id LIMIT ?", (shard, limit)
        )
        return [SeedBatch(number, crawl, orjson.loads(urls)) for number, crawl, urls in rows]

    def seeds_taken(self, ids: Sequence[int]) -> None:
        with self._changing():
            self._database.run(
                "DELETE FROM seeds WHERE id IN (SELECT value FROM json_each(?))",
                (to_json(list(ids)),),
            )

    def seeds_waiting(self, crawl: int) -> int:
        return int(self._database.value("SELECT count(*) FROM seeds WHERE crawl = ?", (crawl,)))

    # Orders of operators

    def set_rule(self, rule: DomainRule) -> None:
        self.change_rule(rule.crawl, rule.domain, lambda _: rule)

    def change_rule(
        self, crawl: int | None, domain: str, change: Callable[[DomainRule], DomainRule]
    ) -> DomainRule:
        with self._changing():
            key = (crawl or ALL_CRAWLS, domain)
            found = self._rules("WHERE crawl = ? AND domain = ?", key)
            rule = change(found[0] if found else DomainRule(crawl, domain))
            self._database.run("DELETE FROM rules WHERE crawl = ? AND domain = ?", key)
            if not rule.is_empty:
                self._database.run(
                    "INSERT INTO rules (crawl, domain, delay_s, is_blocked, is_paused)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (*key, rule.delay_s, rule.is_blocked, rule.is_paused),
                )
        return rule

    def rules(self) -> list[DomainRule]:
        return self._rules("ORDER BY crawl, domain")

    def _rules(self, which: str, parameters: tuple[Any, ...] = ()) -> list[DomainRule]:
        rows = self._database.rows(
            f"SELECT crawl, domain, delay_s, is_blocked, is_paused FROM rules {which}", parameters
        )
        return [
            DomainRule(crawl or None, domain, delay_s, bool(is_blocked), bool(is_paused))
            for crawl, domain, delay_s, is_blocked, is_paused in rows
        ]

    def order_purge(self, shard: int, crawl: int, domain: str) -> None:
        with self._changing():
            self._database.run(
                "INSERT INTO purges (shard, crawl, domain) VALUES (?, ?, ?)",
                (shard, crawl, domain),
            )

    def purges(self, shard: int) -> list[Purge]:
        rows = self._database.rows(
            "SELECT id, crawl, domain FROM purges WHERE shard = ? ORDER BY id", (shard,)
        )
        return [Purge(*row) for row in rows]

    def purge_done(self, purge: int) -> None:
        with self._changing():
            self._database.run("DELETE FROM purges WHERE id = ?", (purge,))

    def shards_with_orders(self) -> set[int]:
        rows = self._database.rows("SELECT shard FROM seeds UNION SELECT shard FROM purges")
        return {shard for (shard,) in rows}

    def grant_pages(self, crawl: int, member: str, wanted: int, most: int) -> int:
        with self._database.transaction():
            pages = max(0, min(wanted, most - self.granted_pages(crawl)))
            if pages:
                self._database.run(
                    "INSERT INTO grants VALUES (?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET pages = pages + excluded.pages",
                    (crawl, member, pages),
                )
        return pages

    def return_pages(self, crawl: int, member: str, unused: int) -> None:
        with self._database.transaction():
            self._database.run(
                "UPDATE grants SET pages = max(0, pages - ?) WHERE crawl = ? AND member = ?",
                (unused, crawl, member),
            )

    def granted_pages(self, crawl: int) -> int:
        return int(
            self._database.value(
                "SELECT coalesce(sum(pages), 0) FROM grants WHERE crawl = ?", (crawl,)
            )
        )

    def reset_pages(self, crawl: int, used: int, granted: int) -> bool:
        with self._database.transaction():
            if self.granted_pages(crawl) != granted:
                return False
            self._database.run("DELETE FROM grants WHERE crawl = ?", (crawl,))
            self._database.run("INSERT INTO grants VALUES (?, '', ?)", (crawl, used))
        return True

    def note(self, crawl: int, text: str, now: float) -> None:
        with self._database.transaction():
            self._database.run(
                "INSERT INTO notes (crawl, at, text) VALUES (?, ?, ?)", (crawl, now, text)
            )
            self._database.run(
                "DELETE FROM notes WHERE crawl = ?1 AND id <= (SELECT id FROM notes"
                " WHERE crawl = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                (crawl, MOST_NOTES),
            )

    def notes(self, crawl: int, limit: int) -> list[tuple[float, str]]:
        return self._database.rows(
            "SELECT at, text FROM notes WHERE crawl = ? ORDER BY id DESC LIMIT ?", (crawl, limit)
        )

    # Parts of the above

    def _exclusions_kept_before(self, crawl: int) -> str | None:
        """They had files of their own beside the database once."""
        try:
            return self._database.path.with_name(f"exclusions-{crawl}.txt").read_text("utf-8")
        except FileNotFoundError:
            return None

    def _change(self, work: Callable[[Changes], Result]) -> Result:
        with self._changing():
            return work(self._tables)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """A transaction that others should look at."""
        with self._database.transaction():
            self._bump_version()
            yield

    def _bump_version(self) -> None:
        if not self._database.run(
            "UPDATE facts SET value = value + 1 WHERE name = 'version'"
            " AND NOT EXISTS (SELECT 1 FROM facts WHERE name = ? AND value = ?)",
            (CLOSED, Closed.HAS_LEFT),
        ):
            # Opened before that, perhaps: what it would write now would be lost.
            raise refusal(Closed.HAS_LEFT, str(self._database.path.parent))

    def _returned(self, sql: str, parameters: tuple[Any, ...]) -> Any:
        with self._database.transaction():
            return self._database.value(sql, parameters)

    def facts(self) -> dict[str, int]:
        return dict(self._database.rows("SELECT name, value FROM facts"))

    def _set_facts(self, facts: Mapping[str, int]) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO facts SELECT value->>0, value->>1 FROM json_each(?)",
            (to_json(list(facts.items())),),
        )

    def _crawl_of_key(self, idempotency_key: str | None, fingerprint: bytes) -> Crawl | None:
        row = self._database.row(
            "SELECT id, fingerprint FROM crawls WHERE idempotency_key = ?", (idempotency_key,)
        )
        if row is None:
            return None
        if row[1] != fingerprint:
            raise KeyConflict("the idempotency key was used for a different crawl")
        return self.crawl(row[0])

    def _change_crawl(self, crawl: int, change: str, *parameters: Any) -> None:
        if not self._database.run(f"UPDATE crawls SET {change} WHERE id = ?", (*parameters, crawl)):
            raise NoSuchCrawl(f"there is no crawl {crawl}")

    def _add_seeds(self, crawl: int, by_shard: Mapping[int, Sequence[str]]) -> None:
        self.crawl(crawl)
        add_seeds(self._tables, crawl, by_shard)

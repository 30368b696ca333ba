"""What one transaction of a shard adds up, to be written once: counters, what waits, errors, and
the times of domains and origins."""

from collections import defaultdict
from dataclasses import dataclass, field

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.sqlite.database import Database, to_json

# Distinct reasons of a crawl's errors in a shard; what comes then is counted together.
MOST_REASONS = 200
REASON_LENGTH = 200
OTHER_REASONS = "(other)"

_ADD_COUNTERS = (
    "INSERT INTO counters (crawl, name, value)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET value = value + excluded.value"
)
_ADD_TO_ORIGINS = (
    "UPDATE origins SET queued = queued + (changed.value->>1) FROM json_each(?) AS changed"
    " WHERE origins.id = changed.value->>0"
)
_ADD_TO_DOMAINS = (
    "UPDATE domains SET queued = queued + changed.number FROM"
    " (SELECT domain, sum(value->>1) AS number FROM json_each(?)"
    " JOIN origins ON origins.id = value->>0 GROUP BY domain HAVING number <> 0) AS changed"
    " WHERE domains.id = changed.domain"
)
_ADD_TO_HOSTS = (
    "INSERT INTO hosts (crawl, origin, admitted)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET admitted = admitted + excluded.admitted"
)
_ADD_ERRORS = (
    "INSERT INTO errors (crawl, reason, count, sample_url, first_at, last_at)"
    " SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5"
    " FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET count = count + excluded.count,"
    " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)"
)
_KEEP_DOMAINS = (
    "UPDATE domains SET next_at = kept.value->>1, delay_s = kept.value->>2,"
    " taken = taken * (kept.value->>3) FROM json_each(?) AS kept WHERE domains.id = kept.value->>0"
)
_KEEP_ORIGINS = (
    "UPDATE origins SET ready_at = kept.value->>1,"
    " notes = substr(?2, kept.value->>2, kept.value->>3)"
    " FROM json_each(?1) AS kept WHERE origins.id = kept.value->>0"
)


@dataclass(slots=True)
class Errors:
    """URLs that ended or were put off for one reason."""

    count: int
    sample_url: str
    first_at: float
    last_at: float

    def add(self, other: "Errors") -> None:
        self.count += other.count
        self.first_at = min(self.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)


@dataclass(slots=True)
class Tally:
    """State: all of it. `write` may be called several times before the commit, so that reads in the
    same transaction are right."""

    counters: defaultdict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    # URLs that wait, by origin.
    queued: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    # URLs that were admitted, by crawl and origin.
    hosts: defaultdict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    errors: dict[tuple[int, str], Errors] = field(default_factory=dict)
    # (next_at, delay_s, whether it stays taken), (ready_at, notes).
    domains: dict[int, tuple[float, float, bool]] = field(default_factory=dict)
    origins: dict[int, tuple[float, bytes]] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)

    def count(self, crawl: int, name: str, number: int) -> None:
        self.counters[crawl, name] += number
        self.touched.add(crawl)

    def move(
        self, crawl: int, origin: int, before: UrlState, after: UrlState, number: int = 1
    ) -> None:
        """`number` URLs of an origin went from one state to another."""
        self.count(crawl, STATE_COUNTERS[before], -number)
        self.count(crawl, STATE_COUNTERS[after], number)
        if before is UrlState.QUEUED:
            self.queued[origin] -= number
        if after is UrlState.QUEUED:
            self.queued[origin] += number

    def admitted(self, crawl: int, origin: int, number: int) -> None:
        """`number` new URLs were queued."""
        self.count(crawl, "admitted", number)
        self.count(crawl, STATE_COUNTERS[UrlState.QUEUED], number)
        self.queued[origin] += number
        self.hosts[crawl, origin] += number

    def error(self, crawl: int, reason: str, errors: Errors) -> None:
        known = self.errors.setdefault((crawl, reason[:REASON_LENGTH]), errors)
        if known is not errors:
            known.add(errors)
        self.touched.add(crawl)

    def write(self, database: Database) -> None:
        self._write_times(database)
        queued = [pair for pair in self.queued.items() if pair[1]]
        if queued:
            listed = to_json(queued)
            database.run(_ADD_TO_ORIGINS, (listed,))
            database.run(_ADD_TO_DOMAINS, (listed,))
        if self.hosts:
            hosts = [(*place, number) for place, number in self.hosts.items()]
            database.run(_ADD_TO_HOSTS, (to_json(hosts),))
        if self.errors:
            add_errors(database, self.errors)
        counters = [(*place, number) for place, number in self.counters.items() if number]
        if counters:
            database.run(_ADD_COUNTERS, (to_json(counters),))
        self.queued.clear()
        self.hosts.clear()
        self.errors.clear()
        self.counters.clear()
        self.domains.clear()
        self.origins.clear()

    def write_last(self, database: Database) -> None:
        """Before the commit."""
        for crawl in self.touched:
            self.counters[crawl, "changes"] += 1
        self.write(database)

    def _write_times(self, database: Database) -> None:
        if self.domains:
            database.run(
                _KEEP_DOMAINS, (to_json([(name, *kept) for name, kept in self.domains.items()]),)
            )
        if self.origins:
            # SQLite has no part of an empty value: it begins with a byte that belongs to none.
            places, at = [], 2
            for origin, (ready_at, notes) in self.origins.items():
                places.append((origin, ready_at, at, len(notes)))
                at += len(notes)
            together = b"".join([b"\0", *(notes for _, notes in self.origins.values())])
            database.run(_KEEP_ORIGINS, (to_json(places), together))


def add_errors(database: Database, errors: dict[tuple[int, str], Errors]) -> None:
    """Add to the groups of errors, and make no more groups than are allowed."""
    known = {
        crawl: set(
            database.listed("SELECT json_group_array(reason) FROM errors WHERE crawl = ?", (crawl,))
        )
        for crawl in {crawl for crawl, _ in errors}
    }
    grouped: dict[tuple[int, str], Errors] = {}
    for (crawl, reason), of_reason in errors.items():
        if reason not in known[crawl] and len(known[crawl]) >= MOST_REASONS:
            reason = OTHER_REASONS
        known[crawl].add(reason)
        group = grouped.setdefault((crawl, reason), of_reason)
        if group is not of_reason:
            group.add(of_reason)
    rows = [
        (*place, of.count, of.sample_url, of.first_at, of.last_at) for place, of in grouped.items()
    ]
    database.run(_ADD_ERRORS, (to_json(rows),))

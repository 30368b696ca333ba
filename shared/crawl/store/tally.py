"""What one transaction of a shard adds up, to be written once: counters, what waits, errors, and
the times of domains and origins."""

from collections import defaultdict
from dataclasses import dataclass, field

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.rows import TallyRows

# Distinct reasons of a crawl's errors in a shard; what comes then is counted together.
MOST_REASONS = 200
REASON_LENGTH = 200
OTHER_REASONS = "(other)"


@dataclass(slots=True)
class Errors:
    """URLs that ended or were put off for one reason. The lines behind the sample's URL say more of
    it."""

    count: int
    sample: str
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

    def forgotten(self, crawl: int, origin: int, state: UrlState) -> None:
        """A URL that had ended so is no longer kept."""
        self.count(crawl, "admitted", -1)
        self.count(crawl, STATE_COUNTERS[state], -1)
        self.hosts[crawl, origin] -= 1

    def error(self, crawl: int, reason: str, errors: Errors) -> None:
        known = self.errors.setdefault((crawl, reason[:REASON_LENGTH]), errors)
        if known is not errors:
            known.add(errors)
        self.touched.add(crawl)

    def write(self, rows: TallyRows) -> None:
        if self.domains:
            rows.keep_domains([(number, *kept) for number, kept in self.domains.items()])
        if self.origins:
            rows.keep_origins([(number, *kept) for number, kept in self.origins.items()])
        queued = [pair for pair in self.queued.items() if pair[1]]
        if queued:
            rows.add_to_queued(queued)
        if self.hosts:
            rows.add_to_hosts([(*place, number) for place, number in self.hosts.items()])
        if self.errors:
            add_errors(rows, self.errors)
        counters = [(*place, number) for place, number in self.counters.items() if number]
        if counters:
            rows.add_to_counters(counters)
        self.queued.clear()
        self.hosts.clear()
        self.errors.clear()
        self.counters.clear()
        self.domains.clear()
        self.origins.clear()

    def write_last(self, rows: TallyRows) -> None:
        """Before the commit."""
        for crawl in self.touched:
            self.counters[crawl, "changes"] += 1
        self.write(rows)


def add_errors(rows: TallyRows, errors: dict[tuple[int, str], Errors]) -> None:
    """Add to the groups of errors, and make no more groups than are allowed."""
    known = {crawl: set(rows.reasons(crawl)) for crawl in {crawl for crawl, _ in errors}}
    grouped: dict[tuple[int, str], Errors] = {}
    for (crawl, reason), of_reason in errors.items():
        if reason not in known[crawl] and len(known[crawl]) >= MOST_REASONS:
            reason = OTHER_REASONS
        known[crawl].add(reason)
        group = grouped.setdefault((crawl, reason), of_reason)
        if group is not of_reason:
            group.add(of_reason)
    rows.add_to_errors(
        [(*place, of.count, of.sample, of.first_at, of.last_at) for place, of in grouped.items()]
    )

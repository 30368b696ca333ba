"""What goes into the state store and comes out of it. Pure.

Times are those of `store.clock.now`, which outlive a restart. Leases are the exception, see
`protocol.ControlStore`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from manyhands.shared.crawl.cuts import CUT_COUNTERS
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.texts import PackedText
from manyhands.shared.errors import ManyhandsError

KEY_BYTES = 16


class LeaseLost(ManyhandsError):
    """Another owner has the shard: what this one writes no longer counts."""


class NoSuchCrawl(ManyhandsError):
    """There is no crawl with this number."""


class CrawlEnds(ManyhandsError):
    """The crawl has ended, or is about to: it takes nothing more."""


class KeyConflict(ManyhandsError):
    """The idempotency key was used for a different request."""


class NewUrl(NamedTuple):
    """A URL to admit. `scope_name` is the host or domain that must be one of the crawl's seeds',
    or empty where nothing needs to be asked. `job` is what a fetch job was, see `crawl.fetch_jobs`;
    empty for a URL of a crawl, which may have a `note` instead: what it was followed with."""

    key: bytes
    url: str
    origin: str
    domain: str
    depth: int
    redirects: int = 0
    scope_name: str = ""
    job: str = ""
    note: str = ""


class Unique(NamedTuple):
    """Asked of a fetch job that is not to be fetched if another one of its URL was in the last
    `for_s`: what these jobs share (`crawl.fetch_jobs.url_key`), and which turn of which job it
    is."""

    url_key: str
    job: str
    turn: int
    for_s: float


class NewJob(NamedTuple):
    """A fetch job to admit."""

    url: NewUrl
    unique: Unique | None = None


class FirstJob(NamedTuple):
    """The last job of a URL that was admitted to be fetched, of those that are unique. Until that
    time it may be the one that others are the same as; its `domain` says which shard it is of."""

    url_key: str
    domain: str
    job: str
    turn: int
    admitted_at: float
    until: float


class ClaimedUrl(NamedTuple):
    id: int
    crawl: int
    key: bytes
    url: str
    depth: int
    redirects: int
    attempts: int
    # Of a fetch job: what it was.
    job: str = ""
    # What it was followed with, JSON.
    note: str = ""

    def put_back(self, reason: str = "") -> "Settled":
        """Queued again as it was; this spends no attempt."""
        return Settled(self.id, UrlState.QUEUED, 0, reason, attempts=self.attempts)


class Claims(NamedTuple):
    """URLs of one origin; without any, when the next one is due (None: never). `is_all`: the store
    has no more that wait."""

    urls: list[ClaimedUrl]
    due_at: float | None
    is_all: bool = False


class Settled(NamedTuple):
    """What becomes of a claimed URL. QUEUED is a retry or a deferral until `not_before`."""

    id: int
    state: UrlState
    # HTTP status, 0 without an answer.
    status: int = 0
    # Why it failed, was skipped or is tried again: short, and without the URL, because errors are
    # grouped by it.
    reason: str = ""
    size: int = 0
    attempts: int = 0
    not_before: float = 0.0


class Unparsed(NamedTuple):
    """A page that was fetched and came to nothing where it was parsed. It is queued again until
    `not_before`; None: it has failed."""

    key: bytes
    url: str
    status: int
    reason: str
    # More of it, for people: of one URL of all that have this reason.
    detail: str
    attempts: int
    not_before: float | None


@dataclass(slots=True)
class Admitted:
    """What became of URLs that were to be admitted."""

    new: int = 0
    duplicates: int = 0
    over_host_limit: int = 0
    out_of_scope: int = 0


@dataclass(slots=True)
class StoredOrigin:
    """scheme://host:port. `notes` is the politeness state, JSON written by the shard's owner;
    others only read its trouble, see shared.crawl.patience."""

    id: int
    origin: str
    # URLs of all crawls that wait.
    queued: int
    # Nothing is fetched before: a block by 429, an unreachable robots.txt.
    ready_at: float
    notes: bytes = b""


@dataclass(slots=True)
class StoredDomain:
    """A registrable domain with those of its origins that have URLs waiting."""

    id: int
    name: str
    next_at: float
    origins: list[StoredOrigin] = field(default_factory=list)
    delay_s: float = 0.0


@dataclass(slots=True, frozen=True)
class StoredRobots:
    """A robots.txt: the body of a 2xx answer, cut to what is parsed, or why there is none:
    'allow_all' (4xx), 'unreachable'."""

    kind: str
    body: bytes
    fetched_at: float
    expires_at: float


class Outgoing(NamedTuple):
    """Links for another shard, kept until that shard has them."""

    target: int
    # Counts from 1 for each pair of shards, without gaps.
    sequence: int
    crawl: int
    payload: bytes


@dataclass(slots=True, frozen=True)
class UrlRow:
    """For people: one URL of a crawl and its state."""

    id: int
    url: str
    state: UrlState
    depth: int
    status: int
    reason: str
    attempts: int
    updated_at: float


class JobRow(NamedTuple):
    """Where a fetch job is. `place` is that of its key in the question; a URL that waits is not
    fetched before `due_at`."""

    place: int
    url: str
    state: UrlState
    status: int
    reason: str
    attempts: int
    updated_at: float
    due_at: float


class Due(NamedTuple):
    """What of a crawl could be fetched at this moment: so many domains with a URL whose time has
    come, the first of them at `since`. Of a domain one URL counts, because politeness lets no more
    go at a time. URLs that an owner has in memory are told by itself."""

    crawl: int
    domains: int
    since: float


class EndedJob(NamedTuple):
    """A fetch job that brought no page, which its producer has not been told of."""

    id: int
    state: UrlState
    reason: str
    job: str


@dataclass(slots=True, frozen=True)
class ErrorGroup:
    """URLs that ended or were put off for one reason."""

    reason: str
    count: int
    sample_url: str
    first_at: float
    last_at: float
    # More of what happened to that URL, such as a traceback.
    detail: str = ""


# Of a crawl, by what is said about its pages when they are parsed.
PAGE_COUNTERS = (
    *("feeds", "sitemaps", "sitemap_refused"),
    # By page functions: pages without a record, records, links that were followed, and those that
    # cannot be.
    *("dropped", "emitted", "followed", "follow_refused"),
)
# Counters of one crawl in one shard, by name. Those of the URL states are kept by the store in the
# transaction that changes the state; the others are added by the owner.
STATE_COUNTERS = tuple(state.name.lower() for state in UrlState)
COUNTERS = (
    *STATE_COUNTERS,
    # Ever admitted; links that were known, of a full host, or outside.
    "admitted",
    "duplicates",
    "over_host_limit",
    "out_of_scope",
    # Links that are in scope, but too deep, or not of the patterns.
    "too_deep",
    "other_pattern",
    # Of links that were found: not even asked for admission.
    "links",
    "trapped",
    "excluded",
    # Fetched to an end with an answer that was no redirect, and the bytes of the bodies.
    "pages",
    "bytes",
    # Fetched besides pages, and URLs in sitemaps that name another host or are none.
    *PAGE_COUNTERS,
    # Pages of which not all was seen, by why.
    *CUT_COUNTERS.values(),
    # URLs in a parse for too long, queued again.
    "readmitted",
    # Batches of links for other shards that they do not have yet.
    "outgoing",
    # Grows with every transaction that changes anything of the crawl in this shard.
    "changes",
)


@dataclass(slots=True, frozen=True)
class Crawl:
    id: int
    spec: CrawlSpec
    state: CrawlState
    # What STOPPING will end as, and why; why a final state was reached.
    ends_as: CrawlState | None
    reason: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    # Whether all seeds have been handed over (an upload may take minutes).
    has_all_seeds: bool
    # Lines of the seed file that were taken.
    seed_file_lines: int


class Fetches(NamedTuple):
    """What somebody who takes a shard over says of fetches. Its own last `longest_s` at the most,
    which is kept for the next owner, whose own may differ. All of the epoch `ended_epoch` have
    ended, so that nobody need wait for them."""

    longest_s: float = 0.0
    ended_epoch: int = 0


# Of somebody who fetches nothing.
NO_FETCHES = Fetches()


class LastOwner(NamedTuple):
    """Of a shard that is taken over. A request of it lasts `longest_fetch_s` at the most; None:
    nobody has said."""

    epoch: int
    longest_fetch_s: float | None


class NewCrawl(NamedTuple):
    """A crawl that is asked for, with its first seeds by shard; `has_all_seeds`: no more will come.
    The fingerprint tells two requests with one idempotency key apart. `exclusions` are the lines of
    the file that the spec names."""

    spec: CrawlSpec
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    seeds: Mapping[int, Sequence[str]] = MappingProxyType({})
    has_all_seeds: bool = False
    exclusions: PackedText | None = None


class SeedFile(NamedTuple):
    """How far the seed file of a crawl was read: so many lines, of which some were refused; the
    first `size` bytes, whose `digest` tells whether another file begins with them. `trouble` is why
    somebody could not read it last. Its `reader` has it until that time, if nobody is named
    nobody has."""

    crawl: int
    name: str
    lines: int = 0
    refused: int = 0
    size: int = 0
    digest: bytes = b""
    is_read: bool = False
    trouble: str = ""
    reader: str = ""
    until: float = 0.0

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        return cls(*row)._replace(is_read=bool(row[6]))


@dataclass(slots=True, frozen=True)
class Lease:
    """`epoch` grows with every change of the owner."""

    shard: int
    owner: str
    epoch: int
    is_live: bool
    # Its owner let it go; one that is neither live nor given back ran out.
    is_given_back: bool = False


# Among a member's figures: pages that were granted to it and are not counted in any store yet.
HELD_PAGES = "held_pages"
# And its shards whose place in the store it cannot reach.
SHARDS_AWAY = "shards_away"
# And how long the broker has not answered, and how much of the time it has work.
BROKER_WAIT_MS = "broker_wait_ms"
PROCESSOR_PERCENT = "processor_percent"
# And, with the number of a crawl behind it, how many domains in its memory have a URL of that crawl
# whose time has come, and for how long the first of them has waited.
DUE = "due "
LAG_MS = "lag_ms "
# And, if a sink is slow, how long its oldest record waits, ms: its name is behind this.
SLOW_SINK = "slow_sink_ms "


def slow_sink_figure(name: str) -> str:
    return SLOW_SINK + name


@dataclass(slots=True, frozen=True)
class Member:
    """A process that can own shards. `figures` describe it, for people."""

    name: str
    slots: int
    figures: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class DomainRule:
    """An operator's rule for a domain; `crawl` None means all crawls."""

    crawl: int | None
    domain: str
    delay_s: float | None = None
    is_blocked: bool = False
    is_paused: bool = False

    @property
    def holds(self) -> bool:
        """Nothing is fetched; what waits goes on waiting."""
        return self.is_blocked or self.is_paused

    @property
    def is_empty(self) -> bool:
        return self.delay_s is None and not self.holds


@dataclass(slots=True, frozen=True)
class SeedBatch:
    """Seeds that wait for the owner of their shard."""

    id: int
    crawl: int
    urls: list[str]


@dataclass(slots=True, frozen=True)
class Purge:
    """An operator's order to the owner of a shard: forget what waits of a domain."""

    id: int
    crawl: int
    domain: str


@dataclass(slots=True, frozen=True)
class Layout:
    """Where the shards are: a directory per generation. `wanted` differs while a change of the
    count is under way."""

    generation: int
    shards: int
    wanted: int
    # The most that there ever were: queues of that many shards may still hold jobs.
    most_ever: int

"""What limits a crawl now, in one sentence for people. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import (
    BROKER_WAIT_MS,
    PROCESSOR_PERCENT,
    SHARDS_AWAY,
    SLOW_SINK,
    Crawl,
    DomainRule,
    Member,
    SeedFile,
)

# After a crawl was created: until then it is nobody's fault that nobody reads it.
READ_WITHIN_S = 3.0
NO_WORKER = "no worker with the stage crawl is running"
# A broker answers within milliseconds.
SLOW_BROKER_MS = 1_000
# A process that has work for so much of the time does not get round to more.
BUSY_PERCENT = 92


@dataclass(slots=True, frozen=True)
class OwnerFigures:
    """What all crawling workers report, added up."""

    slots: int
    slots_in_use: int
    # Domains with URLs waiting that may be visited now, and those whose time has not come.
    ready_domains: int
    waiting_domains: int
    is_parse_behind: bool
    # Shards whose place in the store their owners cannot reach.
    shards_away: int = 0
    # The worst of all of them.
    broker_wait_ms: int = 0
    processor_percent: int = 0
    # Of the processes beside those that crawl; empty: none is slow.
    slow_sink: str = ""
    sink_wait_ms: int = 0


def figures_of(members: Sequence[Member]) -> OwnerFigures | None:
    told = [member.figures for member in members if member.figures]
    if not told:
        return None
    sinks = {
        name.removeprefix(SLOW_SINK): figures[name]
        for figures in told
        for name in figures
        if name.startswith(SLOW_SINK)
    }
    slow_sink = max(sinks, key=lambda name: sinks[name], default="")

    def total(name: str) -> int:
        return sum(figures.get(name, 0) for figures in told)

    def worst(name: str) -> int:
        return max(figures.get(name, 0) for figures in told)

    return OwnerFigures(
        slots=total("slots"),
        slots_in_use=total("busy"),
        ready_domains=total("ready"),
        waiting_domains=total("waiting"),
        is_parse_behind=any(figures.get("pace_percent", 100) < 100 for figures in told),
        shards_away=total(SHARDS_AWAY),
        broker_wait_ms=worst(BROKER_WAIT_MS),
        processor_percent=worst(PROCESSOR_PERCENT),
        slow_sink=slow_sink,
        sink_wait_ms=sinks.get(slow_sink, 0),
    )


@dataclass(slots=True, frozen=True)
class PutOff:
    """A host that is left alone. Times are wall-clock seconds."""

    origin: str
    reason: str
    # URLs that wait there, of all crawls.
    queued: int
    # When it is tried again, and when its URLs fail if it is still in trouble.
    ready_at: float
    given_up_at: float


@dataclass(slots=True, frozen=True)
class HeldDomain:
    """A domain that is paused or blocked, and how many URLs of all crawls wait there."""

    name: str
    is_blocked: bool = False
    is_paused: bool = False
    queued: int = 0

    def with_rule(self, rule: DomainRule) -> Self:
        return replace(
            self,
            is_blocked=self.is_blocked or rule.is_blocked,
            is_paused=self.is_paused or rule.is_paused,
        )


@dataclass(slots=True, frozen=True)
class Situation:
    """`counters` are summed over the shards."""

    counters: Mapping[str, int]
    members: int
    shards: int
    owned_shards: int
    seeds_waiting: int
    # None: no worker has reported any.
    figures: OwnerFigures | None = None
    # In the order in which they are tried again.
    put_off: Sequence[PutOff] = ()
    # With URLs of the crawl.
    held: Sequence[HeldDomain] = ()
    # None: it has none, or its workers read it.
    seed_file: SeedFile | None = None
    now: float = 0.0

    @property
    def in_flight(self) -> int:
        return self.counters["claimed"] + self.counters["parsing"]


def limited_by(crawl: Crawl, situation: Situation) -> str:
    match crawl.state:
        case CrawlState.STARTING:
            return _starting(crawl, situation)
        case CrawlState.RUNNING:
            return _running(crawl, situation)
        case CrawlState.PAUSED:
            return _paused(situation)
        case CrawlState.STOPPING:
            return _stopping(crawl, situation)
        case _:
            return f"it has ended ({crawl.reason})" if crawl.reason else "it has ended"


def _starting(crawl: Crawl, situation: Situation) -> str:
    if not crawl.has_all_seeds and crawl.spec.seed_file is None:
        return f"more seeds are awaited: POST /crawls/{crawl.id}/seeds?last=true ends them"
    if not crawl.has_all_seeds and situation.seed_file is not None:
        return _reading(crawl, situation.seed_file, situation)
    if not situation.members:
        return NO_WORKER
    if not crawl.has_all_seeds:
        return f"the seed file is being read: {crawl.seed_file_lines} lines so far"
    return _taking_seeds(situation) or "it is about to start"


def _reading(crawl: Crawl, file: SeedFile, situation: Situation) -> str:
    if file.until > situation.now:
        what = "the seed file is being read"
    elif file.trouble:
        what = f"the seed file {file.name} cannot be read: {file.trouble}"
    elif situation.now < crawl.created_at + READ_WITHIN_S:
        what = "the seed file is about to be read"
    else:
        what = f"no API that has the seed file {file.name} is reading it"
    said = f"{what}: {file.lines} lines so far"
    if not situation.members and situation.seeds_waiting:
        return f"{said}; {NO_WORKER} to take them"
    return said


def _taking_seeds(situation: Situation) -> str:
    """Empty when none wait."""
    waiting = situation.seeds_waiting
    return f"seeds are being taken: {waiting} batches wait" if waiting else ""


def _paused(situation: Situation) -> str:
    if situation.in_flight:
        return f"paused; {situation.in_flight} URLs are still in flight"
    return "paused"


def _stopping(crawl: Crawl, situation: Situation) -> str:
    why = f"{crawl.reason}; " if crawl.reason else ""
    if not situation.members:
        return f"{why}{NO_WORKER} to end it"
    if situation.in_flight:
        return f"{why}stopping: {situation.in_flight} URLs in flight are awaited"
    return f"{why}it is about to end"


def _running(crawl: Crawl, situation: Situation) -> str:
    said = []
    if situation.held:
        said.append(_held_back(situation.held))
    if situation.put_off:
        said.append(_hosts_put_off(situation.put_off))
    if not said or not situation.members:
        return _but_for_hosts(crawl, situation)
    waiting = sum(domain.queued for domain in situation.held)
    waiting += sum(host.queued for host in situation.put_off)
    if waiting < situation.counters["queued"] or situation.in_flight:
        said.insert(0, _but_for_hosts(crawl, situation))
    return "; ".join(said)


def _held_back(domains: Sequence[HeldDomain]) -> str:
    most = max(domains, key=lambda domain: domain.queued)
    more = f" and {len(domains) - 1} domains more" if len(domains) > 1 else ""
    how, way_out = ("blocked", "unblocked") if most.is_blocked else ("paused", "resumed")
    return f"{most.name} is {how}{more}: URLs wait until it is {way_out}, or purged"


def _hosts_put_off(hosts: Sequence[PutOff]) -> str:
    first = hosts[0]
    more = f" and {len(hosts) - 1} hosts more" if len(hosts) > 1 else ""
    return (
        f"host put off: {first.origin} ({first.reason}){more}, tried again at "
        f"{_clock(first.ready_at)}, given up at {_clock(first.given_up_at)} at the latest"
    )


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _but_for_hosts(crawl: Crawl, situation: Situation) -> str:
    if not situation.members:
        return NO_WORKER
    most = crawl.spec.limits.pages
    if most is not None and situation.counters["pages"] >= most:
        return f"limit pages: all {most} are fetched"
    if situation.owned_shards < situation.shards:
        unowned = situation.shards - situation.owned_shards
        return f"{unowned} of {situation.shards} shards have no owner yet"
    if situation.figures is not None and situation.figures.shards_away:
        away = situation.figures.shards_away
        return f"waiting for the database: {away} of {situation.shards} shards cannot be reached"
    if situation.figures is not None and situation.figures.broker_wait_ms >= SLOW_BROKER_MS:
        waited_s = situation.figures.broker_wait_ms / 1000
        return f"broker: it has not answered for {waited_s:.1f} s, and pages wait for it"
    if not situation.counters["queued"]:
        return _nothing_queued(situation)
    if situation.figures is not None:
        return _by_figures(situation.figures)
    return f"politeness or slots: {situation.counters['queued']} URLs wait"


def _nothing_queued(situation: Situation) -> str:
    counters = situation.counters
    if counters["claimed"]:
        return f"the last {counters['claimed']} URLs known are being fetched"
    if counters["parsing"] and situation.figures is not None and situation.figures.slow_sink:
        return _by_sink(situation.figures)
    if counters["parsing"]:
        return f"waiting for parse: {counters['parsing']} pages"
    if counters["outgoing"]:
        return f"links on their way between shards: {counters['outgoing']} batches"
    return _taking_seeds(situation) or "nothing is left: it is about to end"


def _by_figures(figures: OwnerFigures) -> str:
    if figures.is_parse_behind and figures.slow_sink:
        return _by_sink(figures)
    if figures.is_parse_behind:
        return "waiting for parse: fetching is held back until it has caught up"
    if figures.processor_percent >= BUSY_PERCENT:
        return (
            f"processor: a crawling process has work {figures.processor_percent} % of the time;"
            " more processes or cores would help"
        )
    if figures.slots_in_use >= figures.slots:
        return f"slots: all {figures.slots} are in use"
    if not figures.ready_domains:
        # Those whose time is far off are in no process's memory.
        known = f"{figures.waiting_domains} domains, " if figures.waiting_domains else ""
        return f"politeness: {known}all waiting for their next time"
    return f"nothing: {figures.ready_domains} domains are ready, and slots are free"


def _by_sink(figures: OwnerFigures) -> str:
    waited_s = figures.sink_wait_ms / 1000
    return (
        f"sink {figures.slow_sink}: records have waited {waited_s:.0f} s for it, and pages for them"
    )

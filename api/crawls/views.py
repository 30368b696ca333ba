"""Turns what the state store returns into answers. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import nlargest, nsmallest
from itertools import islice

from manyhands.api.crawls.limited_by import HeldDomain, OwnerFigures, PutOff, Situation, limited_by
from manyhands.api.crawls.model import (
    URL_STATES,
    CrawlChange,
    CrawlSummary,
    CrawlView,
    DomainRuleView,
    DomainView,
    ErrorView,
    HeldView,
    Note,
    OriginView,
    PutOffView,
    UrlView,
)
from manyhands.shared.crawl.patience import trouble_of
from manyhands.shared.crawl.store.model import (
    COUNTERS,
    STATE_COUNTERS,
    Crawl,
    DomainRule,
    ErrorGroup,
    SeedFile,
    StoredDomain,
    StoredOrigin,
    UrlRow,
)

MAX_RULES = 100
MAX_ORIGINS = 10
MAX_PUT_OFF = 10
MAX_HELD = 10
# Counters of what was left out, and the names of the reasons.
LEFT_OUT = {
    "out_of_scope": "scope",
    "too_deep": "depth",
    "other_pattern": "pattern",
    "trapped": "trap",
    "excluded": "exclusions",
    "over_host_limit": "pages per host",
    "sitemap_refused": "sitemap",
    "follow_refused": "no URL to follow",
    "disallowed": "robots.txt",
    "skipped": "skipped",
    "failed": "failed",
    "cancelled": "cancelled",
}
# Internal.
_HIDDEN = frozenset({"changes", *STATE_COUNTERS})


@dataclass(slots=True, frozen=True)
class Told:
    """One crawl in the control store, all read at the same moment."""

    crawl: Crawl
    members: int
    figures: OwnerFigures | None
    owned_shards: int
    shards: int
    seeds_waiting: int
    rules: Sequence[DomainRule]
    notes: Sequence[tuple[float, str]]
    # How long this crawl keeps trying a host that cannot be reached.
    patience_s: float
    # None: it has none, or an earlier release has its workers read it.
    seed_file: SeedFile | None = None


def summed(counters: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums over all shards; every counter is present, even without any shard."""
    total: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
    for one in counters:
        total.update(one)
    return dict(total)


def summary(crawl: Crawl) -> CrawlSummary:
    return CrawlSummary(
        id=crawl.id,
        state=crawl.state,
        reason=crawl.reason,
        labels=crawl.spec.labels,
        created_at=_time(crawl.created_at),
        started_at=_time_or_none(crawl.started_at),
        ended_at=_time_or_none(crawl.ended_at),
    )


def left_out(counters: Mapping[str, int]) -> dict[str, int]:
    """Without those that are 0."""
    counted = {reason: counters[name] for name, reason in LEFT_OUT.items()}
    return {reason: count for reason, count in counted.items() if count}


def put_off(origins: Iterable[StoredOrigin], patience_s: float) -> list[PutOff]:
    """Those of all shards that are tried again first."""
    first = nsmallest(MAX_PUT_OFF, origins, key=lambda origin: origin.ready_at)
    found = []
    for origin in first:
        trouble = trouble_of(origin.notes)
        if trouble is not None:
            given_up_at = max(origin.ready_at, trouble.since + patience_s)
            found.append(
                PutOff(origin.origin, trouble.reason, origin.queued, origin.ready_at, given_up_at)
            )
    return found


def view(
    told: Told,
    counters: Mapping[str, int],
    waiting: Iterable[StoredOrigin],
    pages_per_s: float | None,
    now: float,
    held: Sequence[HeldDomain] = (),
) -> CrawlView:
    """`waiting` are origins with URLs of the crawl that are left alone, `held` are domains."""
    crawl = told.crawl
    if crawl.state.is_final:
        counters = _nothing_waits(counters)
    hosts = put_off(waiting, told.patience_s)
    situation = Situation(
        counters=counters,
        members=told.members,
        shards=told.shards,
        owned_shards=told.owned_shards,
        seeds_waiting=told.seeds_waiting,
        figures=told.figures,
        put_off=hosts,
        held=held,
        seed_file=told.seed_file,
        now=now,
    )
    return CrawlView(
        **summary(crawl).model_dump(),
        ends_as=crawl.ends_as,
        limited_by=limited_by(crawl, situation),
        urls={state: counters[state] for state in URL_STATES},
        counters={name: counters[name] for name in COUNTERS if name not in _HIDDEN},
        left_out=left_out(counters),
        put_off=[
            PutOffView(
                origin=host.origin,
                reason=host.reason,
                queued=host.queued,
                ready_at=_time(host.ready_at),
                given_up_at=_time(host.given_up_at),
            )
            for host in hosts
        ],
        held=[
            HeldView(
                domain=domain.name,
                queued=domain.queued,
                is_blocked=domain.is_blocked,
                is_paused=domain.is_paused,
            )
            for domain in nlargest(MAX_HELD, held, key=lambda domain: domain.queued)
        ],
        pages_per_s=None if pages_per_s is None else round(pages_per_s, 3),
        mean_pages_per_s=_mean(crawl, counters["pages"], now),
        has_all_seeds=crawl.has_all_seeds,
        seeds_waiting=told.seeds_waiting,
        seed_file_lines=crawl.seed_file_lines,
        seed_file_refused=0 if told.seed_file is None else told.seed_file.refused,
        domain_rules=rule_views(rule for rule in told.rules if rule.crawl is not None),
        notes=[Note(at=_time(at), text=text) for at, text in told.notes],
        spec=crawl.spec,
    )


def _nothing_waits(counters: Mapping[str, int]) -> dict[str, int]:
    """Of a crawl that has ended: workers are about to cancel what it has left."""
    cancelled = counters["cancelled"] + counters["queued"]
    return {**counters, "queued": 0, "cancelled": cancelled}


def _mean(crawl: Crawl, pages: int, now: float) -> float | None:
    if crawl.started_at is None:
        return None
    passed_s = (now if crawl.ended_at is None else crawl.ended_at) - crawl.started_at
    return round(pages / passed_s, 3) if passed_s > 0 else None


def change(crawl: Crawl, counters: Mapping[str, int]) -> CrawlChange:
    return CrawlChange(
        id=crawl.id,
        state=crawl.state,
        ends_as=crawl.ends_as,
        in_flight=counters["claimed"] + counters["parsing"],
        queued=counters["queued"],
    )


def url_view(row: UrlRow) -> UrlView:
    return UrlView(
        url=row.url,
        state=row.state.name.lower(),
        depth=row.depth,
        status=row.status,
        reason=row.reason,
        attempts=row.attempts,
        updated_at=_time(row.updated_at),
    )


def errors(groups: Iterable[ErrorGroup]) -> list[ErrorView]:
    """Those of all shards, one for each reason."""
    merged: dict[str, ErrorGroup] = {}
    for group in groups:
        known = merged.get(group.reason)
        merged[group.reason] = group if known is None else _both(known, group)
    ordered = sorted(merged.values(), key=lambda group: (-group.count, group.reason))
    return [
        ErrorView(
            reason=group.reason,
            count=group.count,
            sample_url=group.sample_url,
            detail=group.detail,
            first_at=_time(group.first_at),
            last_at=_time(group.last_at),
        )
        for group in ordered
    ]


def _both(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    return ErrorGroup(
        reason=one.reason,
        count=one.count + other.count,
        sample_url=one.sample_url,
        first_at=min(one.first_at, other.first_at),
        last_at=max(one.last_at, other.last_at),
        detail=one.detail,
    )


def rule_view(rule: DomainRule) -> DomainRuleView:
    return DomainRuleView(
        domain=rule.domain,
        delay_s=rule.delay_s,
        is_blocked=rule.is_blocked,
        is_paused=rule.is_paused,
    )


def rule_views(rules: Iterable[DomainRule]) -> list[DomainRuleView]:
    """The first of them."""
    return [rule_view(rule) for rule in islice(rules, MAX_RULES)]


def held_domains(rules: Iterable[DomainRule], crawl: int) -> dict[str, HeldDomain]:
    """By name, those that its own rules or those for all crawls hold."""
    found: dict[str, HeldDomain] = {}
    for rule in rules:
        if rule.holds and rule.crawl in (None, crawl):
            before = found.get(rule.domain, HeldDomain(rule.domain))
            found[rule.domain] = before.with_rule(rule)
    return found


def domains(
    stored: Iterable[StoredDomain], rules: Iterable[DomainRule], limit: int, now: float
) -> list[DomainView]:
    """Those of all shards with most URLs waiting; rules are those for all crawls."""
    by_name = {rule.domain: rule for rule in rules if rule.crawl is None}
    most = nlargest(limit, stored, key=_queued)
    return [_domain_view(domain, by_name.get(domain.name), now) for domain in most]


def _domain_view(domain: StoredDomain, rule: DomainRule | None, now: float) -> DomainView:
    origins = nlargest(MAX_ORIGINS, domain.origins, key=lambda origin: origin.queued)
    return DomainView(
        domain=domain.name,
        queued=_queued(domain),
        next_at=_future(_next_at(domain, rule), now),
        delay_s=rule.delay_s if rule else None,
        is_blocked=rule is not None and rule.is_blocked,
        is_paused=rule is not None and rule.is_paused,
        origins=[
            OriginView(
                origin=origin.origin,
                queued=origin.queued,
                ready_at=_future(origin.ready_at, now),
                reason=_why(origin) if origin.ready_at > now else "",
            )
            for origin in origins
        ],
    )


def _next_at(domain: StoredDomain, rule: DomainRule | None) -> float:
    """The store has it without what ends with a rule."""
    ruled_s = rule.delay_s if rule is not None and rule.delay_s is not None else 0.0
    return domain.next_at + max(0.0, ruled_s - domain.delay_s)


def _why(origin: StoredOrigin) -> str:
    trouble = trouble_of(origin.notes)
    return "" if trouble is None else trouble.reason


def _queued(domain: StoredDomain) -> int:
    return sum(origin.queued for origin in domain.origins)


def _future(at: float, now: float) -> datetime | None:
    return _time(at) if at > now else None


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _time_or_none(at: float | None) -> datetime | None:
    return None if at is None else _time(at)

"""Loads from a shard's store into memory: domains that are due, and the URLs next in line. Called
in the store's thread, inside a transaction."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import ClaimedUrl, Claims, StoredDomain
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.frontier.running import Running
from manyhands.worker.crawl.politeness.delays import OriginState

# Domains are taken this long before their time, so that they are here when it comes.
AHEAD_S = 1.0
# A domain with nothing for the running crawls is checked again after this.
NOTHING_FOR_S = 1.0
# What is due within this waits in memory, the rest in the store; a domain there is checked again
# after the same time, because other hosts of it may be due sooner.
SOON_S = 30.0
# Most origins that are left alone, and most URLs of one, that are handled in one go.
ORIGINS_LOOKED_AT = 100
URLS_GIVEN_UP = 5_000


NO_CLAIMS = Claims([], None)


class LoadedDomain(NamedTuple):
    domain: StoredDomain
    # By the origin's id.
    claims: dict[int, Claims]


class Hopeless(NamedTuple):
    """Origins that were given up, why and with how many URLs; and the `ready_at` up to which they
    were checked (0: all of them). `claimed` are those of the URLs that others end, with the
    reason."""

    looked_to: float
    given_up: list[tuple[str, str, int]]
    claimed: list[tuple[ClaimedUrl, str]]


class Wanted(NamedTuple):
    """More URLs of one origin, of those crawls that may fetch there."""

    origin_id: int
    most: int
    crawls: tuple[int, ...]


class Named(NamedTuple):
    """A domain that is in memory already: of which crawls and how many of its URLs are wanted, of
    those of its origins that are not known."""

    name: str
    crawls: tuple[int, ...]
    urls_each: int
    known: Collection[int]


def claim_all(store: ShardStore, all_wanted: list[Wanted]) -> list[Claims]:
    found: dict[Wanted, Claims] = {}
    now = clock.now()
    for crawls in {wanted.crawls for wanted in all_wanted}:
        mine = {one.origin_id: one for one in all_wanted if one.crawls == crawls}
        most = {one.origin_id: one.most for one in mine.values()}
        claims = store.claim_each(most, crawls, now)
        found |= {one: claims[origin] for origin, one in mine.items()}
    # An origin that is asked for twice gets its URLs once.
    return [found.pop(wanted, NO_CLAIMS) for wanted in all_wanted]


def load_due(
    store: ShardStore, running: Running, now: float, *, domains: int, urls_each: int
) -> list[LoadedDomain]:
    loaded = []
    taken = store.take_domains(now + AHEAD_S, domains)
    wanted = [(domain, running.at(domain.name), urls_each) for domain in taken]
    claims = _claims(store, wanted, now)
    for domain in taken:
        found = _of_domain(domain, claims)
        due = [now if one.urls else one.due_at or now for one in found.values()]
        due_at = min(due, default=None)
        if due_at is not None and due_at <= now + SOON_S:
            loaded.append(LoadedDomain(domain, found))
            continue
        again_s = NOTHING_FOR_S if due_at is None else min(SOON_S, due_at - now)
        store.put_domain(domain.id, max(domain.next_at, now + again_s), domain.delay_s)
    return loaded


def has_jobs_in(store: ShardStore) -> bool:
    """Whether fetch jobs wait there, or may come to wait again."""
    counters = store.counters(NO_CRAWL)
    return bool(counters["queued"] or counters["claimed"])


def load_named(store: ShardStore, all_named: list[Named]) -> list[LoadedDomain | None]:
    """None of those without URLs waiting. A domain that is asked for twice is given once."""
    by_name = {named.name: named for named in all_named}
    domains = store.take_named(by_name)
    for domain in domains:
        known = by_name[domain.name].known
        domain.origins = [origin for origin in domain.origins if origin.id not in known]
    wanted = [(domain, *by_name[domain.name][1:3]) for domain in domains]
    claims = _claims(store, wanted, clock.now())
    loaded = {domain.name: LoadedDomain(domain, _of_domain(domain, claims)) for domain in domains}
    return [loaded.pop(named.name, None) for named in all_named]


def end_hopeless(
    store: ShardStore, patiences: Mapping[int, float], after: float, claims: int | None
) -> Hopeless:
    """Fail URLs of origins that are left alone for longer than their crawls' patience. `patiences`
    are in seconds, by crawl. Of those of crawls so many are claimed instead, for others to end;
    None: they are failed here, too."""
    given_up = []
    claimed: list[tuple[ClaimedUrl, str]] = []
    now = clock.now()
    origins = store.put_off(after, ORIGINS_LOOKED_AT)
    for origin in origins:
        state = OriginState.from_bytes(origin.notes)
        count = 0
        for crawl, patience_s in patiences.items():
            if not state.gives_up(origin.ready_at, patience_s):
                continue
            if claims is None or crawl == NO_CRAWL:
                count += store.give_up(crawl, origin.id, state.trouble, URLS_GIVEN_UP)
            else:
                urls = store.claim(origin.id, crawl, now, claims - len(claimed))
                claimed += [(url, state.trouble) for url in urls]
                count += len(urls)
        if count:
            given_up.append((origin.origin, state.trouble, count))
    is_all = len(origins) < ORIGINS_LOOKED_AT
    return Hopeless(0.0 if is_all else origins[-1].ready_at, given_up, claimed)


def _claims(
    store: ShardStore, domains: Iterable[tuple[StoredDomain, tuple[int, ...], int]], now: float
) -> dict[int, Claims]:
    """By origin, together for all of these domains where the same crawls may fetch; with the
    domains come these crawls, and how many URLs are wanted of each origin."""
    found: dict[int, Claims] = {}
    wanted: dict[tuple[int, ...], dict[int, int]] = {}
    for domain, crawls, urls_each in domains:
        for origin in domain.origins:
            if not crawls:
                found[origin.id] = NO_CLAIMS
            elif origin.ready_at > now + AHEAD_S:
                found[origin.id] = Claims([], origin.ready_at)
            else:
                wanted.setdefault(crawls, {})[origin.id] = urls_each
    for crawls, ready in wanted.items():
        found |= store.claim_each(ready, crawls, now)
    return found


def _of_domain(domain: StoredDomain, claims: Mapping[int, Claims]) -> dict[int, Claims]:
    """Without origins that have nothing for these crawls."""
    found = {origin.id: claims[origin.id] for origin in domain.origins}
    return {origin: one for origin, one in found.items() if one.urls or one.due_at is not None}

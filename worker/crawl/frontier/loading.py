"""Loads from a shard's store into memory: domains that are due, and the URLs next in line. Called
in the store's thread, inside a transaction."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from manyhands.shared.crawl.store.model import ClaimedUrl, StoredDomain
from manyhands.shared.crawl.store.protocol import ShardStore
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


class Claims(NamedTuple):
    """URLs of one origin; without any, when the next one is due (None: never)."""

    urls: list[ClaimedUrl]
    due_at: float | None


class LoadedDomain(NamedTuple):
    domain: StoredDomain
    # By the origin's id.
    claims: dict[int, Claims]


class Hopeless(NamedTuple):
    """Origins that were given up, why and with how many URLs; and the `ready_at` up to which they
    were checked (0: all of them)."""

    looked_to: float
    given_up: list[tuple[str, str, int]]


def claim(
    store: ShardStore, origin_id: int, crawls: Sequence[int], now: float, most: int
) -> Claims:
    """A share for each crawl; what one leaves goes to the next."""
    urls: list[ClaimedUrl] = []
    for place, crawl in enumerate(crawls):
        left = most - len(urls)
        urls += store.claim(origin_id, crawl, now, -(-left // (len(crawls) - place)))
    return Claims(urls, None if urls else store.due_at(origin_id, crawls))


def load_due(
    store: ShardStore, crawls: Sequence[int], now: float, *, domains: int, urls_each: int
) -> list[LoadedDomain]:
    loaded = []
    for domain in store.take_domains(now + AHEAD_S, domains):
        found = _claims(store, domain, crawls, now, urls_each)
        due = [now if one.urls else one.due_at or now for one in found.values()]
        due_at = min(due, default=None)
        if due_at is not None and due_at <= now + SOON_S:
            loaded.append(LoadedDomain(domain, found))
            continue
        again_s = NOTHING_FOR_S if due_at is None else min(SOON_S, due_at - now)
        store.put_domain(domain.id, max(domain.next_at, now + again_s), domain.delay_s)
    return loaded


def load_one(
    store: ShardStore,
    name: str,
    crawls: Sequence[int],
    now: float,
    *,
    urls_each: int,
    known: Collection[int],
) -> LoadedDomain | None:
    """A domain that is in memory already, with those of its origins that are not."""
    domain = store.take_domain(name)
    if domain is None:
        return None
    domain.origins = [origin for origin in domain.origins if origin.id not in known]
    return LoadedDomain(domain, _claims(store, domain, crawls, now, urls_each))


def end_hopeless(store: ShardStore, patiences: Mapping[int, float], after: float) -> Hopeless:
    """Fail URLs of origins that are left alone for longer than their crawls' patience. `patiences`
    are in seconds, by crawl."""
    given_up = []
    origins = store.put_off(after, ORIGINS_LOOKED_AT)
    for origin in origins:
        state = OriginState.from_bytes(origin.notes)
        count = sum(
            store.give_up(crawl, origin.id, state.trouble, URLS_GIVEN_UP)
            for crawl, patience_s in patiences.items()
            if state.gives_up(origin.ready_at, patience_s)
        )
        if count:
            given_up.append((origin.origin, state.trouble, count))
    is_all = len(origins) < ORIGINS_LOOKED_AT
    return Hopeless(0.0 if is_all else origins[-1].ready_at, given_up)


def _claims(
    store: ShardStore, domain: StoredDomain, crawls: Sequence[int], now: float, urls_each: int
) -> dict[int, Claims]:
    found = {}
    for origin in domain.origins:
        if origin.ready_at > now + AHEAD_S:
            found[origin.id] = Claims([], origin.ready_at)
            continue
        claims = claim(store, origin.id, crawls, now, urls_each)
        if claims.urls or claims.due_at is not None:
            found[origin.id] = claims
    return found

"""URLs and the short ways through a frontier that the tests share."""

from collections.abc import Sequence

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Admitted, ClaimedUrl, NewUrl, Settled, StoredDomain
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.protocol import ShardReader, ShardStore
from manyhands.shared.urls import parse_url

NOW = 1_700_000_000.0
CRAWL = 1
SITE = "http://www.example.com"


def url(text: str, depth: int = 0, scope_name: str = "") -> NewUrl:
    return new_url(parse_url(text), depth, scope_name=scope_name)


def pages(number: int, site: str = SITE) -> list[NewUrl]:
    return [url(f"{site}/{place}") for place in range(number)]


def admit(shard: ShardStore, urls: Sequence[NewUrl], crawl: int = CRAWL) -> Admitted:
    with shard.transaction():
        return shard.admit(crawl, urls, NOW)


def take_all(shard: ShardStore) -> list[StoredDomain]:
    with shard.transaction():
        return shard.take_domains(NOW, 1000)


def taken_domains(shard: ShardStore) -> dict[str, StoredDomain]:
    with shard.transaction():
        return {domain.name: domain for domain in shard.taken_domains()}


def origin_id(reader: ShardReader, site: str = SITE) -> int:
    [found] = [
        origin.id
        for domain in reader.waiting_domains(1000)
        for origin in domain.origins
        if origin.origin == site
    ]
    return found


def claim(
    shard: ShardStore, origin: int, limit: int = 100, crawl: int = CRAWL, now: float = NOW
) -> list[ClaimedUrl]:
    with shard.transaction():
        return shard.claim(origin, crawl, now, limit)


def admit_and_claim(shard: ShardStore, number: int) -> list[ClaimedUrl]:
    admit(shard, pages(number))
    return claim(shard, origin_id(shard), limit=number)


def settle(shard: ShardStore, *settled: Settled, now: float = NOW) -> None:
    with shard.transaction():
        shard.settle(settled, now)


def states(reader: ShardReader, crawl: int = CRAWL) -> dict[str, UrlState]:
    """Of every URL, read row by row."""
    return {
        row.url: row.state for state in UrlState for row in reader.urls(crawl, state, 0, 100_000)
    }


def state_counts(reader: ShardReader, crawl: int = CRAWL) -> dict[UrlState, int]:
    """Those that are not zero, as the counters say."""
    counters = reader.counters(crawl)
    return {
        state: counters[state.name.lower()] for state in UrlState if counters[state.name.lower()]
    }


def waiting(reader: ShardReader) -> dict[str, int]:
    return {
        origin.origin: origin.queued
        for domain in reader.waiting_domains(1000)
        for origin in domain.origins
    }

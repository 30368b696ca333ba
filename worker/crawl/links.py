"""What becomes of the links that were found: which are wanted, and whose they are. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.crawl.canonical import new_url
from shared.errors import InvalidUrl
from shared.state.model import NewUrl
from shared.urls import parse_url, shard_of_domain
from worker.crawl.crawls import LiveCrawl

# The links of a site's head and foot stand on every page: most are found here, and not in the
# store. A key is 16 bytes and costs some 100 in a set.
KEYS_REMEMBERED = 200_000

# URL, depth, redirects that led to it.
Link = tuple[str, int, int]


class RecentKeys:
    """Keys that are in a store already, the last ones. State: two generations; when the younger is
    full, the elder is forgotten."""

    def __init__(self, most: int = KEYS_REMEMBERED) -> None:
        self._half = max(1, most // 2)
        self._young: set[tuple[int, bytes]] = set()
        self._old: set[tuple[int, bytes]] = set()

    def __contains__(self, key: tuple[int, bytes]) -> bool:
        return key in self._young or key in self._old

    def add(self, crawl: int, keys: Iterable[bytes]) -> None:
        self._young.update((crawl, key) for key in keys)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()


@dataclass(slots=True)
class SortedLinks:
    """Those that are to be admitted, by shard, and how many were left out for which reason."""

    by_shard: dict[int, list[NewUrl]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def keys(self) -> list[bytes]:
        return [url.key for urls in self.by_shard.values() for url in urls]


def sort_links(
    crawl: LiveCrawl, links: Iterable[Link], shards: int, recent: RecentKeys
) -> SortedLinks:
    result = SortedLinks()
    counts, by_shard, judge, number = result.counts, result.by_shard, crawl.scope.judge, crawl.id
    for text, depth, redirects in links:
        counts["links"] += 1
        try:
            url = parse_url(text)
        except InvalidUrl:
            counts["out_of_scope"] += 1
            continue
        verdict = judge(url, depth)
        if not verdict.is_in:
            counts[_counter_of(verdict.reason)] += 1
            continue
        new = new_url(url, depth, redirects, verdict.scope_name)
        if (number, new.key) in recent:
            counts["duplicates"] += 1
            continue
        by_shard.setdefault(shard_of_domain(new.domain, shards), []).append(new)
    return result


def _counter_of(reason: str) -> str:
    if reason.startswith("trap"):
        return "trapped"
    return "excluded" if reason.startswith("excluded") else "out_of_scope"


def as_links(urls: Iterable[NewUrl]) -> list[Link]:
    return [(url.url, url.depth, url.redirects) for url in urls]

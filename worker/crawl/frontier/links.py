"""Decides what becomes of found links: which are wanted, and which shard each belongs to. Pure.

This runs for every link of every page, so most links are decided by their text alone: it was seen a
moment ago, or its host is out of scope.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from manyhands.shared.crawl.canonical import AUTHORITY_ENDS_FROM, page_key
from manyhands.shared.crawl.messages import Link
from manyhands.shared.crawl.store.model import NewUrl
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url, registrable_domain, shard_of_domain
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl

# The links of a site's header and footer are on every page: most are found here, without the store.
# A URL costs about 200 bytes.
URLS_REMEMBERED = 100_000
HOSTS_REMEMBERED = 20_000

# Of a verdict's reason, up to its colon.
_COUNTERS = {
    "trap": "trapped",
    "excluded": "excluded",
    "depth": "too_deep",
    "pattern": "other_pattern",
}
_NONE: Set[str] = frozenset()


class RecentUrls:
    """The latest URLs that are in a store already. State: two generations by crawl; when the
    younger is full, the elder is forgotten."""

    def __init__(self, most: int = URLS_REMEMBERED) -> None:
        self._half = max(1, most // 2)
        self._young: dict[int, set[str]] = {}
        self._old: dict[int, set[str]] = {}
        self._added = 0

    def of(self, crawl: int) -> tuple[Set[str], Set[str]]:
        """A URL is known if it is in either."""
        return self._young.get(crawl, _NONE), self._old.get(crawl, _NONE)

    def add(self, crawl: int, urls: Collection[NewUrl]) -> None:
        """Some may be counted twice, and the generation is full a little sooner."""
        self._young.setdefault(crawl, set()).update([url.url for url in urls])
        self._added += len(urls)
        if self._added >= self._half:
            self._old, self._young, self._added = self._young, {}, 0


class HostFacts(NamedTuple):
    """Facts about the origin of a canonical URL. `is_out`: out whatever the path, unless a seed."""

    is_out: bool
    domain: str
    shard: int


# Only needed if it is a seed, which is rare.
_OUT = HostFacts(True, "", -1)


class Hosts:
    """The facts of origins, as one crawl sees them. State: the last ones."""

    def __init__(self, crawl: LiveCrawl, shards: int) -> None:
        self._crawl = crawl
        self._shards = shards
        # They say which hosts are in.
        self._names = crawl.seed_names
        self._goes_by_names = crawl.scope.is_by_seeds
        self.facts: dict[str, HostFacts] = {}

    def is_of(self, crawl: LiveCrawl, shards: int) -> bool:
        return self._crawl is crawl and self._names is crawl.seed_names and self._shards == shards

    def learn(self, origin: str) -> HostFacts:
        """Finds facts that are not in `facts` yet."""
        if len(self.facts) >= HOSTS_REMEMBERED:
            self.facts.clear()
        facts = self.facts[origin] = _OUT if self._are_surely_out(origin) else self._judge(origin)
        return facts

    def _are_surely_out(self, origin: str) -> bool:
        if not self._goes_by_names or self._names is None:
            return False
        host = origin.partition("//")[2].partition(":")[0]
        return not (host.startswith("[") or self._crawl.scope.may_be_in(host, self._names))

    def _judge(self, origin: str) -> HostFacts:
        try:
            url = parse_url(origin + "/")
        except InvalidUrl:
            return _OUT
        verdict = self._crawl.scope.judge_host(url.host)
        is_out = not verdict.is_in or (
            verdict.scope_name != ""
            and self._names is not None
            and verdict.scope_name not in self._names
        )
        if is_out:
            return _OUT
        domain = registrable_domain(url.host)
        return HostFacts(False, domain, shard_of_domain(domain, self._shards))


@dataclass(slots=True)
class SortedLinks:
    """The links to admit, by shard, and how many were left out for each reason."""

    by_shard: dict[int, list[NewUrl]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, more: "SortedLinks") -> None:
        """Those of the same page."""
        for shard, urls in more.by_shard.items():
            self.by_shard.setdefault(shard, []).extend(urls)
        self.counts.update(more.counts)


class Sorting:
    """Links of pages that end together. State: links into `owned` shards found so far: they are
    admitted whatever becomes of their page, so finding one again changes nothing. Links into other
    shards are sent only with a page that ends."""

    def __init__(
        self,
        crawl: LiveCrawl,
        hosts: Hosts,
        recent: tuple[Set[str], Set[str]],
        shards: int,
        owned: Container[int],
    ) -> None:
        self._owned = owned
        self._crawl = crawl
        self._hosts = hosts
        self._recent = recent
        self._shards = shards
        self._fresh: set[str] = set()

    def sort(
        self, urls: Collection[str], depth: int, redirects: int, note: str = ""
    ) -> SortedLinks:
        result = SortedLinks()
        young, old = self._recent
        fresh, known = self._fresh, self._hosts.facts
        duplicates = out_of_scope = 0
        for text in urls:
            if text in young or text in old or text in fresh:
                duplicates += 1
                continue
            origin = text[: text.find("/", AUTHORITY_ENDS_FROM)]
            facts = known.get(origin) or self._hosts.learn(origin)
            if facts.is_out and depth:
                out_of_scope += 1
                continue
            if facts.shard in self._owned:
                fresh.add(text)
            self._sort_one((text, depth, redirects, note), origin, facts, result)
        result.counts["links"] += len(urls)
        result.counts["duplicates"] += duplicates
        result.counts["out_of_scope"] += out_of_scope
        return result

    def _sort_one(
        self,
        link: tuple[str, int, int, str],
        origin: str,
        facts: HostFacts,
        result: SortedLinks,
    ) -> None:
        text, depth, redirects, note = link
        try:
            url = parse_url(text)
        except InvalidUrl:
            result.counts["out_of_scope"] += 1
            return
        verdict = self._crawl.scope.judge(url, depth)
        if not verdict.is_in:
            result.counts[_counter_of(verdict.reason)] += 1
        elif facts.is_out or url.text != text:
            # A seed, or a URL that our own parse stage would have written otherwise.
            new = new_url(url, depth, redirects, verdict.scope_name, note)
            result.by_shard.setdefault(shard_of_domain(new.domain, self._shards), []).append(new)
        else:
            name = verdict.scope_name if self._crawl.seed_names is None else ""
            key, domain = page_key(url), facts.domain
            new = NewUrl(key, text, origin, domain, depth, redirects, name, note=note)
            result.by_shard.setdefault(facts.shard, []).append(new)


class LinkSorter:
    """State: the URLs last admitted, and the facts of hosts, by crawl."""

    def __init__(self) -> None:
        self._recent = RecentUrls()
        self._hosts: dict[int, Hosts] = {}

    def admitted(self, crawl: int, urls: Collection[NewUrl]) -> None:
        self._recent.add(crawl, urls)

    def seeds_came(self) -> None:
        """Links to a new seed's host were out of scope before, and no longer are."""
        self._recent = RecentUrls()
        self._hosts = {}

    def sorting(self, crawl: LiveCrawl, shards: int, owned: Container[int]) -> Sorting:
        """Use it at once: it does not learn what is admitted later."""
        hosts = self._hosts.get(crawl.id)
        if hosts is None or not hosts.is_of(crawl, shards):
            hosts = self._hosts[crawl.id] = Hosts(crawl, shards)
        return Sorting(crawl, hosts, self._recent.of(crawl.id), shards, owned)


def _counter_of(reason: str) -> str:
    return _COUNTERS.get(reason.partition(":")[0], "out_of_scope")


def as_links(urls: Iterable[NewUrl]) -> list[Link]:
    return [
        (url.url, url.depth, url.redirects, url.note)
        if url.note
        else (url.url, url.depth, url.redirects)
        for url in urls
    ]

"""What becomes of the links that were found: which are wanted, and whose they are. Pure.

Asked for every link of every page, so most are settled by their text alone: it was seen a moment
ago, or its host is out of scope.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.crawl.canonical import new_url, page_key
from shared.errors import InvalidUrl
from shared.state.model import NewUrl
from shared.urls import Url, parse_url, registrable_domain, shard_of_domain
from worker.crawl.crawls import LiveCrawl

# The links of a site's head and foot stand on every page: most are found here, and not in the
# store. A URL costs some 200 bytes.
URLS_REMEMBERED = 100_000
HOSTS_REMEMBERED = 20_000

# URL, depth, redirects that led to it.
Link = tuple[str, int, int]


class RecentUrls:
    """URLs that are in a store already, the last ones. State: two generations; when the younger is
    full, the elder is forgotten."""

    def __init__(self, most: int = URLS_REMEMBERED) -> None:
        self._half = max(1, most // 2)
        self._young: set[tuple[int, str]] = set()
        self._old: set[tuple[int, str]] = set()

    def __contains__(self, url: tuple[int, str]) -> bool:
        return url in self._young or url in self._old

    def add(self, crawl: int, urls: Iterable[NewUrl]) -> None:
        self._young.update((crawl, url.url) for url in urls)
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()


class HostFacts(NamedTuple):
    """Of the origin of a canonical URL. `is_out`: whatever its path is, unless it is a seed."""

    is_out: bool
    domain: str
    shard: int


class Hosts:
    """The facts of origins, as one crawl sees them. State: the last ones."""

    def __init__(self, crawl: LiveCrawl, shards: int) -> None:
        self._crawl = crawl
        self._shards = shards
        # They say which hosts are in.
        self._names = crawl.seed_names
        self._goes_by_names = crawl.scope.is_by_seeds
        self._facts: dict[str, HostFacts] = {}

    def is_of(self, crawl: LiveCrawl, shards: int) -> bool:
        return self._crawl is crawl and self._names is crawl.seed_names and self._shards == shards

    def are_surely_out(self, origin: str) -> bool:
        if not self._goes_by_names or self._names is None:
            return False
        host = origin[origin.index("//") + 2 :].partition(":")[0]
        return not (host.startswith("[") or self._crawl.scope.may_be_in(host, self._names))

    def facts_of(self, origin: str) -> HostFacts:
        known = self._facts.get(origin)
        if known is None:
            if len(self._facts) >= HOSTS_REMEMBERED:
                self._facts.clear()
            known = self._facts[origin] = self._learn(parse_url(origin + "/"))
        return known

    def _learn(self, url: Url) -> HostFacts:
        verdict = self._crawl.scope.judge_host(url.host)
        is_out = not verdict.is_in or (
            verdict.scope_name != ""
            and self._names is not None
            and verdict.scope_name not in self._names
        )
        if is_out:
            # Its domain is asked for only if it is a seed, which is rare.
            return HostFacts(True, "", -1)
        domain = registrable_domain(url.host)
        return HostFacts(False, domain, shard_of_domain(domain, self._shards))


@dataclass(slots=True)
class SortedLinks:
    """Those that are to be admitted, by shard, and how many were left out for which reason."""

    by_shard: dict[int, list[NewUrl]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


class LinkSorter:
    """State: the URLs last admitted, and the facts of hosts, by crawl."""

    def __init__(self) -> None:
        self._recent = RecentUrls()
        self._hosts: dict[int, Hosts] = {}

    def admitted(self, crawl: int, urls: Iterable[NewUrl]) -> None:
        self._recent.add(crawl, urls)

    def seeds_came(self) -> None:
        """Links to a seed's host that came before it were out of scope, and are not any more."""
        self._recent = RecentUrls()
        self._hosts = {}

    def sort(self, crawl: LiveCrawl, links: Sequence[Link], shards: int) -> SortedLinks:
        result = SortedLinks()
        counts, by_shard, recent = result.counts, result.by_shard, self._recent
        hosts = self._hosts.get(crawl.id)
        if hosts is None or not hosts.is_of(crawl, shards):
            hosts = self._hosts[crawl.id] = Hosts(crawl, shards)
        counts["links"] = len(links)
        for link in links:
            text, depth, redirects = link
            if (crawl.id, text) in recent:
                counts["duplicates"] += 1
                continue
            try:
                origin = text[: text.index("/", len("http://x"))]
                if depth and hosts.are_surely_out(origin):
                    counts["out_of_scope"] += 1
                    continue
                facts = hosts.facts_of(origin)
                if facts.is_out and depth:
                    counts["out_of_scope"] += 1
                    continue
                url = parse_url(text)
            except (InvalidUrl, ValueError):
                counts["out_of_scope"] += 1
                continue
            verdict = crawl.scope.judge(url, depth)
            if not verdict.is_in:
                counts[_counter_of(verdict.reason)] += 1
            elif facts.is_out or url.text != text:
                # A seed, or something that is not written as our own parse stage writes it.
                new = new_url(url, depth, redirects, verdict.scope_name)
                by_shard.setdefault(shard_of_domain(new.domain, shards), []).append(new)
            else:
                name = verdict.scope_name if crawl.seed_names is None else ""
                new = NewUrl(page_key(url), text, origin, facts.domain, depth, redirects, name)
                by_shard.setdefault(facts.shard, []).append(new)
        return result


def _counter_of(reason: str) -> str:
    if reason.startswith("trap"):
        return "trapped"
    return "excluded" if reason.startswith("excluded") else "out_of_scope"


def as_links(urls: Iterable[NewUrl]) -> list[Link]:
    return [(url.url, url.depth, url.redirects) for url in urls]

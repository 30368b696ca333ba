"""Brings the sitemaps of a host into the frontier when a crawl first fetches there."""

from manyhands.shared.crawl.canonical import origin_of
from manyhands.shared.crawl.spec import DiscoverySpec
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url, resolve_reference
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.shards.owned import OwnedShard

# Crawls and origins. One that was forgotten is looked at again, which finds nothing new.
MOST_REMEMBERED = 100_000
# Of one robots.txt. The largest sites name some hundreds.
MOST_SITEMAPS = 5000


class Sitemaps:
    """State: which crawls have had those of which origins."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._had: set[tuple[int, str]] = set()

    async def announce(self, shard: OwnedShard, page: PageToFetch) -> None:
        """Before the page ends: the crawl cannot end without them, and after a crash the page is
        fetched again. Raises what the store raises."""
        crawl = page.crawl
        place = crawl.id, origin_of(page.url.url)
        if page.url.job or place in self._had:
            return
        urls, refused = sitemaps_of(place[1], page.rules, crawl.spec.discovery)
        if urls or refused:
            await self._admission.named(shard.number, crawl, urls, refused)
        if len(self._had) >= MOST_REMEMBERED:
            self._had.clear()
        self._had.add(place)


def sitemaps_of(origin: str, rules: RobotsRules, discovery: DiscoverySpec) -> tuple[list[str], int]:
    """Their URLs, and how many there are that are none, or too many."""
    if discovery.sitemaps == "none":
        return [], 0
    if not rules.sitemaps:
        return [f"{origin}/sitemap.xml"] if discovery.sitemaps == "always" else [], 0
    robots = parse_url(f"{origin}/robots.txt")
    urls: dict[str, None] = {}
    refused = max(0, len(rules.sitemaps) - MOST_SITEMAPS)
    for reference in rules.sitemaps[:MOST_SITEMAPS]:
        try:
            urls[resolve_reference(robots, reference).text] = None
        except InvalidUrl:
            refused += 1
    return list(urls), refused

"""Chooses the URL that an origin's turn fetches: the next in line that its crawl still wants, that
robots.txt allows, and for which a crawl with a limit has a page left."""

from typing import NamedTuple

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.worker.crawl.fetching import verdicts
from manyhands.worker.crawl.fetching.recorded_ends import RecordedEnds
from manyhands.worker.crawl.frontier.allowance import ASK_AGAIN_S, Allowance
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.page_grants import PageGrants
from manyhands.worker.crawl.frontier.schedule import Origin
from manyhands.worker.crawl.frontier.working_set import WorkingSet
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.shards.settling import Settling

# URLs that are passed over in one go.
MOST_PASSED_OVER = 100
# With fewer URLs in line than this, more are claimed ahead of need.
FEW_URLS = 2
# While the records of too many URLs that may not be requested are on their way.
RECORDED_AGAIN_S = 0.2


class PageToFetch(NamedTuple):
    """`rules` are those of its origin."""

    url: ClaimedUrl
    crawl: LiveCrawl
    rules: RobotsRules


class NextUrls:
    """State: the origins whose crawls wait for more pages to be granted."""

    def __init__(
        self,
        crawls: LiveCrawls,
        working_set: WorkingSet,
        settling: Settling,
        grants: PageGrants,
        ends: RecordedEnds,
    ) -> None:
        self._crawls = crawls
        self._working_set = working_set
        self._settling = settling
        self._grants = grants
        self._ends = ends
        self._starved: set[Origin] = set()
        grants.came.tell(self._pages_came)

    def take(self, origin: Origin, rules: RobotsRules, now: float) -> PageToFetch | None:
        """Take it out of the line; URLs before it have been settled. `now` is on the loop's
        clock."""
        page = self._first(origin, rules, now)
        if len(origin.urls) < FEW_URLS:
            self._working_set.refill(origin)
        return page

    def _first(self, origin: Origin, rules: RobotsRules, now: float) -> PageToFetch | None:
        shard = origin.domain.shard
        if self._ends.room <= 0:
            # Of URLs that may not be requested.
            self._working_set.schedule.block(origin, now + RECORDED_AGAIN_S)
            return None
        for _ in range(min(len(origin.urls), MOST_PASSED_OVER)):
            url = origin.urls.popleft()
            crawl = self._crawls.by_id.get(url.crawl)
            if crawl is None or not crawl.is_running:
                self._settling.settle(shard, verdicts.put_off(url))
                origin.queued_again()
                continue
            why_not = self._why_not(origin.domain.name, url, crawl, rules)
            if why_not is not None:
                self._ends.end_unrequested(shard, url, why_not)
            elif crawl.allowance is None or self._is_allowed(crawl, crawl.allowance, now):
                return PageToFetch(url, crawl, rules)
            else:
                origin.urls.append(url)
        if origin.urls:
            # The whole origin waits until its crawl is granted more pages.
            self._starved.add(origin)
            self._working_set.schedule.block(origin, now + ASK_AGAIN_S)
        return None

    def _why_not(
        self, domain: str, url: ClaimedUrl, crawl: LiveCrawl, rules: RobotsRules
    ) -> Settled | None:
        if not rules.allows(url.url):
            return verdicts.ended(url, UrlState.DISALLOWED, "robots.txt")
        if self._crawls.delay_s(domain, crawl, rules) is None:
            return verdicts.ended(url, UrlState.SKIPPED, "crawl-delay too long")
        return None

    def _is_allowed(self, crawl: LiveCrawl, allowance: Allowance, now: float) -> bool:
        """Use one page of the allowance; more are asked for before it runs out."""
        is_allowed = allowance.left > 0
        if is_allowed:
            allowance.begin(now)
        if allowance.is_low:
            self._grants.want(crawl)
        return is_allowed

    def _pages_came(self) -> None:
        """Crawls were granted more pages."""
        starved, self._starved = self._starved, set()
        for origin in starved & self._working_set.origins:
            self._working_set.place(origin)

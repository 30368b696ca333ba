"""One request for a page, sent if the lease still holds, and ended with it."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.shards.open_requests import OpenRequests
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    HopFetcher,
    TemporaryFetchError,
    is_kept,
)
from manyhands.worker.pages import documents
from manyhands.worker.pages.html import is_html


class Fetched(NamedTuple):
    """How a request ended; `outcome` is None when the lease ran out before its answer was here.
    Both times are on the store's clock."""

    outcome: Answer | FetchError | None
    sent_at: float
    ended_at: float


@dataclass(slots=True, eq=False)
class PageFetches:
    fetcher: HopFetcher
    requests: OpenRequests
    figures: CrawlFigures
    settings: FetchSettings

    async def fetch(self, shard: OwnedShard, page: PageToFetch) -> Fetched:
        """Raises nothing."""
        sent_at = clock.now()
        outcome = await self._get(shard, page)
        ended_at = clock.now()
        self._count(outcome, ended_at - sent_at)
        return Fetched(outcome, sent_at, ended_at)

    async def _get(self, shard: OwnedShard, page: PageToFetch) -> Answer | FetchError | None:
        url, reads = page.url.url, page.crawl.spec.discovery.documents
        try:
            async with self.requests.under_lease_of(shard) as check:
                return await self.fetcher.get(
                    parse_url(url),
                    user_agent=page.crawl.user_agent,
                    max_bytes=self._max_bytes(url, reads),
                    check=check,
                    wants_body=is_kept if page.url.job else partial(_wants_body, url, reads),
                )
        except FetchError as error:
            return error
        except LeaseLost:
            return None
        except Exception as error:
            get_logger("crawl").exception("unhandled exception in a fetch")
            reason = f"unhandled exception: {type(error).__name__}"
            return TemporaryFetchError(repr(error), reason=reason)

    def _max_bytes(self, url: str, reads: Collection[str]) -> int:
        """A sitemap may be larger than a page, and only its name says before the answer that it may
        be one."""
        most = self.settings.max_bytes
        if Source.SITEMAPS in reads and documents.is_named_like_a_sitemap(url):
            return max(most, documents.MAX_SITEMAP_BYTES)
        return most

    def _count(self, outcome: Answer | FetchError | None, took_s: float) -> None:
        if isinstance(outcome, Answer):
            self.figures.fetched(outcome.status, took_s, outcome.wire_bytes)
        elif outcome is not None:
            self.figures.failed(outcome.reason, took_s)


def _wants_body(url: str, reads: Collection[str], status: int, content_type: str) -> bool:
    return status < 300 and (is_html(content_type) or documents.may_be(content_type, url, reads))

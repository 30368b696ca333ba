"""What the API tells of a crawl, without an API."""

from typing import Any

from manyhands.api.crawls.model import CrawlView, ErrorView
from manyhands.api.crawls.service import open_crawls
from manyhands.shared.settings import AllowSettings, CrawlSettings
from tests.support.crawling import Crawls


class Looker:
    """`settings` are the crawls' that matter for what is told."""

    def __init__(self, crawls: Crawls, **settings: Any) -> None:
        place = (crawls.place,)
        self._settings = CrawlSettings(state=place, shards=crawls.shards, **settings)

    async def look(self, crawl: int) -> tuple[CrawlView, dict[str, ErrorView]]:
        crawls = await open_crawls(self._settings, AllowSettings())
        assert crawls is not None
        try:
            errors = (await crawls.errors(crawl)).errors
            return await crawls.view(crawl), {error.reason: error for error in errors}
        finally:
            await crawls.close()

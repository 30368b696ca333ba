"""Follow all links below a URL with Scrapy, as its own guide does it. Run as a script: it is a
process of its own, as Scrapy's reactor can be run only once in one."""

import argparse
import re
from collections.abc import AsyncIterator, Iterator

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class Pages(Spider):
    name = "pages"

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.settings["START"])

    def parse(self, response: Response) -> Iterator[Request]:
        if isinstance(response, HtmlResponse):
            for link in self.settings["LINKS"].extract_links(response):
                yield Request(link.url)


def without_fragment(reference: str) -> str:
    """An index has a hundred links to one page: each would be a request that Scrapy drops."""
    return reference.partition("#")[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--depth", type=int, default=0, help="0: without a limit")
    parser.add_argument("--tags", default="a,area")
    given = parser.parse_args()
    below = re.escape(given.url.rpartition("/")[0] + "/")
    links = LinkExtractor(
        allow=f"^{below}",
        deny_extensions=[],
        tags=given.tags.split(","),
        attrs=("href", "src"),
        process_value=without_fragment,
    )
    process = CrawlerProcess(
        {
            "START": given.url,
            "LINKS": links,
            "DEPTH_LIMIT": given.depth,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_ENABLED": False,
        }
    )
    process.crawl(Pages)
    process.start()


if __name__ == "__main__":
    main()

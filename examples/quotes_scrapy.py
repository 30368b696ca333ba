"""What examples/quotes.py does, for Scrapy: to compare, and run by the tests.

scrapy runspider examples/quotes_scrapy.py -a site=https://quotes.example -O quotes.jsonl
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider

Found = dict[str, Any] | Request


class Quotes(Spider):
    name = "quotes"
    site: str

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.site)

    def parse(self, response: Any) -> Iterator[Found]:
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
                "tags": quote.css("a.tag::text").getall(),
            }
        yield from response.follow_all(css=".quote a.about", callback=self.parse_author)
        yield from response.follow_all(css="li.next a", callback=self.parse)

    def parse_author(self, response: Any) -> Iterator[Found]:
        name, born, about = (
            response.css(f".author-{part}::text").get(default="").strip()
            for part in ("title", "born", "about")
        )
        yield {"name": name, "born": born, "about": about}

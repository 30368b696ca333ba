"""A page function: the quotes of a site and their authors, as in the tutorial of Scrapy.

    manyhands crawl https://quotes.example --handlers examples.quotes --email me@example.org

`examples/quotes_scrapy.py` is the same for Scrapy, `examples/test_quotes.py` tests this one.
"""

from manyhands import Page, page


@page("*/author/*")
def author(page: Page) -> None:
    name, born, about = (
        page.css(f".author-{part}::text").get("").strip() for part in ("title", "born", "about")
    )
    page.emit({"name": name, "born": born, "about": about}, kind="author", key=name)


@page("*")
def quotes(page: Page) -> None:
    for quote in page.css("div.quote"):
        text, by = quote.css("span.text::text").get(), quote.css("small.author::text").get()
        page.emit(
            {"text": text, "author": by, "tags": quote.css("a.tag::text").getall()},
            kind="quote",
            key=f"{by}: {text}",
        )

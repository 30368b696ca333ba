"""For tests of page functions: give one a page as a crawl does, without a crawl.

    def test_a_quote_is_found():
        result = run_page(QUOTES, url="https://quotes.example/")
        assert result.items == [{"text": "To be, or not to be", "author": "Hamlet"}]

It is exported by `manyhands.testing`; the worker imports nothing from here.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import DEFAULT_NAME
from manyhands.shared.settings.sections import CrawlSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.page_functions.calls import CallOutcome, call
from manyhands.worker.page_functions.page import Page
from manyhands.worker.page_functions.registry import PAGE_FUNCTIONS, PageFunction, first_for
from manyhands.worker.pages.bodies import pack
from manyhands.worker.pages.extraction import extract
from manyhands.worker.records import PageRecord

TIME = "2026-01-01T00:00:00Z"
CRAWL = 1
VISIT = f"test.{CRAWL}.page.1"


@dataclass(slots=True, frozen=True)
class PageResult:
    """How the function ended (`Done`, `Retry`, or `Failed` with message and backtrace) and what it
    asked for: `records` as the sinks get them and `items` as they were emitted, URLs to follow
    with their notes, and the page's own links. `record` is that of the page; None: it was
    dropped."""

    outcome: CallOutcome
    items: list[Any]
    records: list[dict[str, Any]]
    followed: dict[str, Any]
    links: list[str]
    record: PageRecord | None


def run_page(
    html: str | bytes,
    *,
    url: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "text/html; charset=utf-8",
    note: Any = None,
    depth: int = 0,
    attempts: int = 0,
    function_s: float | None = None,
) -> PageResult:
    """Call the function that gets this page: the first whose pattern matches, of all that were
    imported. `function_s` is how long it may take. Raises LookupError if there is none."""
    address = parse_url(url).text
    function = first_for(PAGE_FUNCTIONS.functions, address)
    if function is None:
        raise LookupError(f"no @page function matches {address}")
    body = html.encode() if isinstance(html, str) else html
    given = {"Content-Type": content_type, **(headers or {})}
    fetched = FetchedPage(
        visit=VISIT,
        crawl=CRAWL,
        key="",
        url=address,
        depth=depth,
        status=status,
        content_type=content_type,
        robots_tag="",
        obeys_nofollow=True,
        is_truncated=False,
        fetched_at=TIME,
        body=pack(body),
        fields=(DEFAULT_NAME,),
        arrival=Arrival(len(body), headers=tuple(given.items())),
        handlers=function.module,
        note="" if note is None else orjson.dumps(note).decode(),
        attempts=attempts,
    )
    limit_s = CrawlSettings().page_function_s if function_s is None else function_s
    return _in_a_loop(function, fetched, limit_s)


def _in_a_loop(function: PageFunction, fetched: FetchedPage, limit_s: float) -> PageResult:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_run(function, fetched, limit_s))
    # Of an async test: a loop of its own, in a thread of its own.
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, _run(function, fetched, limit_s)).result()


async def _run(function: PageFunction, fetched: FetchedPage, limit_s: float) -> PageResult:
    page = Page(fetched, extract(fetched), can_emit=True)
    called = await call(function, page, limit_s)
    asked = page.asked
    return PageResult(
        outcome=called.outcome,
        items=[record.body["item"] for record in asked.items],
        records=[record.body for record in asked.items],
        followed={
            url: orjson.loads(note) if note else None for url, note in asked.followed.items()
        },
        links=page.links,
        record=None if asked.is_dropped else page.record,
    )

"""Records as the sinks get them: plain ones, and what hostile pages make of them."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from manyhands.shared.crawl.page_fields import FIELDS, FIRST_VERSION, VERSION
from manyhands.worker.records import PageRecord, PlainRecord, Record, page_visit_id
from manyhands.worker.sinks.protocol import Sink

# What a record has where nothing more was chosen than what the first schema had.
LATER_FIELDS: dict[str, Any] = {
    field.name: None for field in FIELDS if field.since > FIRST_VERSION
} | {"schema": VERSION, "kind": "page", "cuts": []}
STORE = "0123456789abcdef"
MEGABYTE = 1024 * 1024
POLL_S = 0.02
# Not one of them can be left out: each has broken some database or parser.
HOSTILE_TITLES = {
    "nul": "before\0after",
    "half a pair": "before\ud83dafter",
    "beyond the BMP": "\U0001f577 \U0010fffd",
    "quotes": "'\"\\\\x00 \\N \t \n ; DROP TABLE pages; --",
    "long": "ü" * (MEGABYTE // 2),
}


def page(number: int, **changed: Any) -> PageRecord:
    url = f"https://site.example/{number}"
    made: dict[str, Any] = {
        "id": page_visit_id(STORE, 7, f"key{number}"),
        "url": url,
        "final_url": f"{url}?final",
        "status": 200,
        "content_type": "text/html; charset=utf-8",
        "title": f"Page {number} – ä",
        "language": "de",
        "links": [f"https://site.example/{number}/{link}" for link in range(3)],
        "is_truncated": False,
        "fetched_at": "2026-11-17T05:44:33.123456Z",
        "crawl": 7,
        "visit": 1,
        "depth": 2,
        "is_indexable": True,
    }
    return PageRecord(**(made | changed))


def full_page(number: int) -> PageRecord:
    """With a value in each field."""
    return page(
        number,
        cuts=["parse_limit"],
        reason="content type text/plain",
        link_texts=["one", "", "three"],
        link_rels=["", "nofollow", ""],
        redirects=["https://site.example/before"],
        content_language="de, en",
        last_modified="Tue, 17 Nov 2026 05:44:33 GMT",
        etag='W/"x"',
        size=3_000_000_000,
        dns_ms=1,
        connect_ms=2,
        first_byte_ms=3,
        body_ms=4,
        content_hash="0" * 64,
        description="What it is about",
        canonical="https://site.example/it",
        text="Two\n\nparagraphs",
        full_text="Menu\nTwo paragraphs",
        markdown="# Two\n\nparagraphs",
        headings=["# Two", "## a\nb"],
        open_graph={"og:title": ["Two"]},
        json_ld='{"@type":"Article"}',
        all_headers={"server": ["x"], "set-cookie": ["a=1", "b=2"]},
        simhash="00ff00ff00ff00ff",
        html="<title>Two</title>",
    )


def page_outside_of_crawls(number: int) -> PageRecord:
    """With None wherever that may be."""
    nothing = ("title", "language", "crawl", "visit", "depth")
    changed = dict.fromkeys(nothing)
    return page(
        number, id=f"job-{number}", links=[], is_truncated=True, is_indexable=False, **changed
    )


def plain(number: int, body: Any = None) -> PlainRecord:
    return PlainRecord(f"job.{number}", {"number": number} if body is None else body)


def hostile_pages() -> list[PageRecord]:
    titles = [
        page(number, id=f"hostile.{name}", title=title)
        for number, (name, title) in enumerate(HOSTILE_TITLES.items())
    ]
    long_url = "https://site.example/" + "a" * 8192
    return [
        *titles,
        page(100, id="hostile.url", url=long_url, final_url=long_url, links=[long_url]),
        page(101, id="hostile.links", links=[f"https://l.example/{n}" for n in range(6000)]),
        page(102, id="hostile.type", content_type="text/\0html", language="\udc80"),
    ]


async def written(sink: Sink, records: Sequence[Record]) -> int:
    """Write them as the worker does, again after every trouble; how often it took."""
    for attempt in itertools.count(1):
        try:
            await sink.write(records)
        except Exception:
            await asyncio.sleep(POLL_S)
        else:
            return attempt
    raise AssertionError("there is no end to counting")


async def until(ask: Callable[[], Awaitable[object]], within_s: float = 20.0) -> None:
    """Ask a server again and again, until it says something true."""
    async with asyncio.timeout(within_s):
        for _ in itertools.count():
            if await ask():
                return
            await asyncio.sleep(POLL_S)

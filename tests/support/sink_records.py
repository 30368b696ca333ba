"""Records as the sinks get them: plain ones, and what hostile pages make of them."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from manyhands.worker.records import PageRecord, PlainRecord, Record, page_visit_id
from manyhands.worker.sinks.protocol import Sink

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

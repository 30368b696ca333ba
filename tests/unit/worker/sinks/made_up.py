"""A sink that a test can make slow, break and mend, and records for it."""

import asyncio
from collections.abc import Sequence

from manyhands.worker.records import Capture, PageRecord, PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused


class ScriptedSink:
    """State: what it has, and what it was told to do with the next writes."""

    def __init__(self, name: str = "made-up", kinds: frozenset[type] | None = None) -> None:
        self.name = name
        self.kinds = kinds or frozenset({PageRecord, PlainRecord})
        self.batches: list[list[str]] = []
        self.errors: list[Exception] = []
        self.open_errors: list[Exception] = []
        self.refused: dict[str, str] = {}
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.takes_s = 0.0
        self.attempts = 0
        self.at_once = 0
        self.is_closed = False

    @property
    def ids(self) -> list[str]:
        return [one for batch in self.batches for one in batch]

    async def open(self) -> None:
        if self.open_errors:
            raise self.open_errors.pop(0)

    async def write(self, records: Sequence[Record]) -> None:
        self.attempts += 1
        self.at_once += 1
        try:
            assert self.at_once == 1, "two batches at once"
            await self.is_up.wait()
            await asyncio.sleep(self.takes_s)
            if self.errors:
                raise self.errors.pop(0)
            reasons = {
                place: self.refused[record.id]
                for place, record in enumerate(records)
                if record.id in self.refused
            }
            if reasons:
                raise RecordsRefused(reasons)
            self.batches.append([record.id for record in records])
        finally:
            self.at_once -= 1

    async def close(self) -> None:
        self.is_closed = True


def plain(name: str) -> PlainRecord:
    return PlainRecord(name, {"n": name})


def page(name: str, *links: str) -> PageRecord:
    return PageRecord(
        id=name,
        url=f"http://a.example/{name}",
        final_url=f"http://a.example/{name}",
        status=200,
        content_type="text/html",
        title=name,
        language="en",
        links=list(links),
        is_truncated=False,
        fetched_at="2026-11-17T12:00:00Z",
        crawl=1,
        visit=1,
        depth=0,
    )


def capture(name: str, body: bytes = b"<p>page") -> Capture:
    return Capture(
        id=name,
        url=f"http://a.example/{name}",
        fetched_at="2026-11-17T12:00:00Z",
        address="127.0.0.1",
        request=b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        head=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        body=body,
        is_truncated=False,
        crawl=1,
        depth=0,
    )

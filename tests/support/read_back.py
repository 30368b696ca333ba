"""Records of sinks, read back in pages as a client of the API does."""

import time
from collections.abc import Sequence
from typing import Any

import orjson

from manyhands.shared.results.choice import FIELDS_OF, Choice, Listing
from manyhands.shared.results.formats import Format
from manyhands.shared.results.opening import source_among
from manyhands.shared.results.pieces import Mark, Pieces
from manyhands.worker.records import PageRecord

CRAWL = 7


def choice(listing: Listing = Listing.PAGES, fields: Sequence[str] = (), **more: Any) -> Choice:
    return Choice(listing, tuple(fields) or FIELDS_OF[listing], **more)


def opened(url: str, wanted: Choice, mark: Mark | None = None, crawl: int = CRAWL) -> Pieces:
    source = source_among([url])
    assert source is not None
    place = None if mark is None else orjson.loads(orjson.dumps(mark.place))
    return Pieces(source.read(crawl, place, wanted.needed), wanted, Format.NDJSON, mark)


def page_of(
    url: str, wanted: Choice, mark: Mark | None, limit: int, crawl: int = CRAWL
) -> tuple[list[Any], Mark]:
    """So many rows, or what there is, and where it goes on."""
    pieces = opened(url, wanted, mark, crawl)
    rows: list[Any] = []
    is_last = False
    while not is_last and len(rows) < limit:
        piece = pieces.next(limit - len(rows), time.monotonic() + 60)
        rows += map(orjson.loads, piece.data.splitlines())
        assert piece.rows == len(piece.data.splitlines())
        is_last = piece.is_last
    mark = pieces.mark
    pieces.close()
    return rows, mark


def all_of(url: str, wanted: Choice, limit: int = 10_000, crawl: int = CRAWL) -> list[Any]:
    """In pages of so many rows."""
    rows: list[Any] = []
    mark: Mark | None = None
    while True:
        page, mark = page_of(url, wanted, mark, limit, crawl)
        rows += page
        if not page:
            return rows


def links_of(page: PageRecord) -> list[dict[str, Any]]:
    nothing: list[Any] = [None] * len(page.links)
    texts, rels = page.link_texts or nothing, page.link_rels or nothing
    return [
        {"from": page.final_url, "to": to, "text": text, "rel": rel}
        for to, text, rel in zip(page.links, texts, rels, strict=True)
    ]

"""Records → messages for Kafka: their topics, keys and JSON. Pure.

All links of a page are one message: a message for each would cost ten times as much as the page
itself, and a compacted topic, which keeps the last message of a key, would keep one link.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from manyhands.shared.crawl.cuts import RECORD_LIMIT
from manyhands.shared.crawl.page_fields import FIELDS, OF_LINKS
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.rows import json_of

# Of the links in one message, in characters: a broker takes 1 MB by default.
MOST_LINK_CHARACTERS = 400_000
# Of a page without its links; the same, in bytes.
MOST_PAGE_BYTES = 900_000
_LARGEST_FIRST = ("html", "json_ld", "full_text", "markdown", "text")
# Links have a separate topic.
_PAGE_FIELDS = [field.name for field in FIELDS if field.name not in OF_LINKS]
_page_values = attrgetter(*_PAGE_FIELDS)


@dataclass(slots=True, frozen=True)
class Topics:
    """Where each kind of message goes."""

    pages: str
    edges: str
    records: str

    @property
    def all(self) -> tuple[str, str, str]:
        return self.pages, self.edges, self.records


def topics_of(prefix: str) -> Topics:
    return Topics(pages=f"{prefix}-pages", edges=f"{prefix}-edges", records=f"{prefix}-records")


def messages_of(record: Record, topics: Topics) -> list[tuple[str, bytes, bytes]]:
    """As topic, key and value. Raises TypeError for what can never be JSON."""
    # Two ids are never one key, whatever they hold.
    key = record.id.encode("utf-8", "surrogatepass")
    if isinstance(record, PageRecord):
        page = dict(zip(_PAGE_FIELDS, _page_values(record), strict=True))
        edges = ((topics.edges, part_key, value) for part_key, value in _edges(record, key))
        return [(topics.pages, key, _page_value(page)), *edges]
    if isinstance(record, PlainRecord):
        value = json_of({"id": record.id, "body": record.body})
        return [(topics.records, key, value)]
    raise TypeError(f"there is no topic for {type(record).__name__}")


def _page_value(page: dict[str, Any]) -> bytes:
    """Without the largest texts, as many as have to go for a broker to take it."""
    value = json_of(page)
    for name in _LARGEST_FIRST:
        if len(value) <= MOST_PAGE_BYTES:
            break
        if page[name] is not None:
            cuts = [cut for cut in page["cuts"] if cut != RECORD_LIMIT]
            page |= {name: None, "is_truncated": True, "cuts": [*cuts, RECORD_LIMIT]}
            value = json_of(page)
    return value


def _edges(page: PageRecord, key: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Mostly one message. A page with very many links has several, each with a key that is the same
    whenever the page is written."""
    begin = 0
    for part, targets in enumerate(_parts(page.links)):
        part_key = b"%b/%d" % (key, part + 1) if part else key
        end = begin + len(targets)
        value = {
            "schema": page.schema,
            "page": page.id,
            "crawl": page.crawl,
            "source": page.final_url,
            "targets": targets,
            "texts": None if page.link_texts is None else page.link_texts[begin:end],
            "rels": None if page.link_rels is None else page.link_rels[begin:end],
        }
        begin = end
        yield part_key, json_of(value)


def _parts(links: list[str]) -> Iterator[list[str]]:
    if not links:
        return
    if sum(map(len, links)) <= MOST_LINK_CHARACTERS:
        yield links
        return
    part: list[str] = []
    characters = 0
    for link in links:
        if part and characters + len(link) > MOST_LINK_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(link)
        characters += len(link)
    yield part

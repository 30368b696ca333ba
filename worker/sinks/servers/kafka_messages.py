"""Records → messages for Kafka: their topics, keys and JSON. Pure.

All links of a page are one message: a message for each would cost ten times as much as the page
itself, and a compacted topic, which keeps the last message of a key, would keep one link.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter

from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.rows import json_of

# Of the links in one message, in characters: a broker takes 1 MB by default.
MOST_LINK_CHARACTERS = 400_000
# Links have a separate topic.
_PAGE_FIELDS = [field.name for field in fields(PageRecord) if field.name != "links"]
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
        return [(topics.pages, key, json_of(page)), *edges]
    if isinstance(record, PlainRecord):
        value = json_of({"id": record.id, "body": record.body})
        return [(topics.records, key, value)]
    raise TypeError(f"there is no topic for {type(record).__name__}")


def _edges(page: PageRecord, key: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Mostly one message. A page with very many links has several, each with a key that is the same
    whenever the page is written."""
    for part, targets in enumerate(_parts(page.links)):
        part_key = b"%b/%d" % (key, part + 1) if part else key
        value = {
            "page": page.id,
            "crawl": page.crawl,
            "source": page.final_url,
            "targets": targets,
        }
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

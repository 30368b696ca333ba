"""What jobs leave for the sinks. Pure.

Every record has an `id`, and a sink holds each id once: a job that is repeated after a crash makes
the same ids again. The id of a page of a crawl says crawl, URL and number of the visit; any other
says which job emitted it.
"""

from dataclasses import dataclass
from typing import Any

# A crawl visits a URL once; a fetch repeated after a crash is the same visit.
FIRST_VISIT = 1
# Roughly, what a record takes besides the fields that are counted.
_OVERHEAD_BYTES = 300


@dataclass(slots=True, frozen=True)
class Capture:
    """A page as it was fetched, for archives. `head` is the answer's status line and headers as
    they came, with the empty line; `body` is without transfer and content encodings, cut if
    `is_truncated`. `address` is the server's; `fetched_at` is RFC 3339 in UTC."""

    id: str
    url: str
    fetched_at: str
    address: str
    request: bytes
    head: bytes
    body: bytes
    is_truncated: bool
    crawl: int | None = None
    depth: int | None = None

    @property
    def size(self) -> int:
        return len(self.body) + len(self.head) + _OVERHEAD_BYTES


@dataclass(slots=True, frozen=True)
class PageRecord:
    """What was found in a page. `links` are canonical URLs, each once: the edges from `final_url`.
    `crawl`, `visit` and `depth` are None outside of crawls."""

    id: str
    url: str
    final_url: str
    status: int
    content_type: str
    title: str | None
    language: str | None
    links: list[str]
    is_truncated: bool
    fetched_at: str
    crawl: int | None = None
    visit: int | None = None
    depth: int | None = None
    is_indexable: bool = True

    @property
    def size(self) -> int:
        return sum(map(len, self.links)) + len(self.url) + _OVERHEAD_BYTES


@dataclass(slots=True, frozen=True)
class PlainRecord:
    """Whatever a handler emits: `body` is JSON."""

    id: str
    body: Any

    @property
    def size(self) -> int:
        return _OVERHEAD_BYTES


Record = Capture | PageRecord | PlainRecord


def page_visit_id(store: str, crawl: int, key: str, visit: int = FIRST_VISIT) -> str:
    """`store` is the tag of the directory that keeps the crawl, `key` is the URL's."""
    return f"{store}.{crawl}.{key}.{visit}"

"""What jobs leave for the sinks. Pure.

Every record has an `id`, and a sink holds each id once: a job that is repeated after a crash makes
the same ids again. The id of a page of a crawl says crawl, URL and number of the visit; any other
says which job emitted it.
"""

from dataclasses import dataclass, field
from typing import Any

from manyhands.shared.crawl.page_fields import VERSION, RecordKind

# A crawl visits a URL once; a fetch repeated after a crash is the same visit.
FIRST_VISIT = 1
# Roughly, what a record takes besides the fields that are counted.
_OVERHEAD_BYTES = 300


@dataclass(slots=True, frozen=True)
class Capture:
    """An answer as it came, for archives. `head` is its status line and headers, with the empty
    line; `body` is without transfer and content encodings, cut if `is_truncated`, and not read to
    its end if `is_left_out`, as it is no page. `address` is the server's; `fetched_at` is RFC 3339
    in UTC."""

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
    is_left_out: bool = False

    @property
    def weight(self) -> int:
        """Roughly, in bytes."""
        return len(self.body) + len(self.head) + _OVERHEAD_BYTES


@dataclass(slots=True, frozen=True, kw_only=True)
class PageRecord:
    """What was found in a page, or why there is none: the fields of shared.crawl.page_fields, in
    that order, and None where one was not chosen or the page has nothing. `links` are canonical
    URLs, each once: the edges from `final_url`. `crawl`, `visit` and `depth` are None outside of
    crawls."""

    id: str
    url: str
    final_url: str
    status: int
    content_type: str
    title: str | None = None
    language: str | None = None
    links: list[str]
    is_truncated: bool
    fetched_at: str
    crawl: int | None = None
    visit: int | None = None
    depth: int | None = None
    is_indexable: bool = True
    schema: int = VERSION
    kind: str = RecordKind.PAGE
    reason: str | None = None
    cuts: list[str] = field(default_factory=list)
    link_texts: list[str] | None = None
    link_rels: list[str] | None = None
    redirects: list[str] | None = None
    content_language: str | None = None
    last_modified: str | None = None
    etag: str | None = None
    size: int | None = None
    dns_ms: int | None = None
    connect_ms: int | None = None
    first_byte_ms: int | None = None
    body_ms: int | None = None
    content_hash: str | None = None
    description: str | None = None
    canonical: str | None = None
    text: str | None = None
    full_text: str | None = None
    markdown: str | None = None
    headings: list[str] | None = None
    open_graph: dict[str, list[str]] | None = None
    json_ld: str | None = None
    all_headers: dict[str, list[str]] | None = None
    simhash: str | None = None
    html: str | None = None

    @property
    def weight(self) -> int:
        """Roughly, in bytes."""
        texts = (self.text, self.full_text, self.markdown, self.json_ld, self.html)
        return (
            sum(map(len, self.links))
            + sum(map(len, self.link_texts or ()))
            + sum(len(text) for text in texts if text)
            + len(self.url)
            + _OVERHEAD_BYTES
        )


@dataclass(slots=True, frozen=True)
class PlainRecord:
    """Whatever a handler emits: `body` is JSON, of so many bytes as far as is known."""

    id: str
    body: Any
    size: int = 0

    @property
    def weight(self) -> int:
        """Roughly, in bytes."""
        return self.size + _OVERHEAD_BYTES


Record = Capture | PageRecord | PlainRecord


def page_visit_id(store: str, crawl: int, key: str, visit: int = FIRST_VISIT) -> str:
    """`store` is the tag of the directory that keeps the crawl, `key` is the URL's."""
    return f"{store}.{crawl}.{key}.{visit}"

"""A page, what was found in it and how it came → its record. Pure."""

from hashlib import sha256
from typing import Any, NamedTuple

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import RECORD_LIMIT
from manyhands.shared.crawl.messages import NO_CRAWL, FetchedPage
from manyhands.shared.crawl.page_fields import RecordKind, chosen
from manyhands.worker.pages.contents import Contents, contents_of
from manyhands.worker.pages.html import MAX_LINKS, Extract, is_html
from manyhands.worker.records import FIRST_VISIT, PageRecord

# What a page says of itself, and must not be kept of one that asks not to be indexed.
OF_ITSELF = frozenset(
    {
        *("title", "description", "canonical", "text", "full_text", "markdown", "headings"),
        *("open_graph", "json_ld", "simhash", "html"),
    }
)


class Look(NamedTuple):
    """At a page: `body` is what was parsed."""

    said: Extract
    body: bytes


def record_of(
    page: FetchedPage,
    look: Look,
    cuts: tuple[str, ...],
    *,
    asked_url: str | None = None,
    is_indexable: bool = True,
) -> PageRecord:
    """`cuts` are all that its crawl is told; `asked_url` is for a page that was found under another
    one. Raises UnknownField."""
    wanted = chosen(page.fields)
    if not is_indexable:
        wanted -= OF_ITSELF
    said = look.said
    contents = contents_of(said.tree, wanted) if said.tree is not None else Contents({})
    if contents.is_cut or len(said.links) > MAX_LINKS:
        cuts = (*cuts, RECORD_LIMIT)
    is_of_crawl = page.crawl != NO_CRAWL
    return PageRecord(
        id=page.visit,
        url=page.url if asked_url is None else asked_url,
        final_url=page.url,
        status=page.status,
        content_type=page.content_type,
        title=said.title if "title" in wanted else None,
        language=said.language if "language" in wanted else None,
        links=said.links[:MAX_LINKS] if "links" in wanted else [],
        is_truncated=page.is_truncated or bool(cuts),
        cuts=list(cuts),
        fetched_at=page.fetched_at,
        crawl=page.crawl if is_of_crawl else None,
        visit=FIRST_VISIT if is_of_crawl else None,
        depth=page.depth if is_of_crawl else None,
        is_indexable=is_indexable,
        kind=page.kind,
        reason=page.reason or None,
        content_hash=_hash(look.body) if "content_hash" in wanted else None,
        **contents.values,
        **({} if page.arrival is None else _arrived(page.arrival, wanted)),
    )


def asked_of(page: FetchedPage) -> str:
    """The URL that was asked for: that of a redirect, not of its target."""
    if page.kind == RecordKind.REDIRECT and page.arrival is not None and page.arrival.redirects:
        return page.arrival.redirects[0]
    return page.url


def outcome_of(status: int, content_type: str) -> tuple[RecordKind, str]:
    """What the record of such an answer is, and why it is no page."""
    if status >= 400:
        return RecordKind.FAILED, f"http {status}"
    if is_html(content_type):
        return RecordKind.PAGE, ""
    return RecordKind.OTHER, f"content type {content_type.partition(';')[0].strip().lower()}"


def _arrived(arrival: Arrival, wanted: frozenset[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if "redirects" in wanted:
        values["redirects"] = list(arrival.redirects)
    if "size" in wanted:
        values["size"] = arrival.size
    if "headers" in wanted:
        values["content_language"] = arrival.content_language or None
        values["last_modified"] = arrival.last_modified or None
        values["etag"] = arrival.etag or None
    if "timings" in wanted:
        values["dns_ms"] = arrival.dns_ms
        values["connect_ms"] = arrival.connect_ms
        values["first_byte_ms"] = arrival.first_byte_ms
        values["body_ms"] = arrival.body_ms
    if "all_headers" in wanted:
        values["all_headers"] = _by_name(arrival.headers)
    return values


def _by_name(headers: tuple[tuple[str, str], ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def _hash(body: bytes) -> str | None:
    """Of no body there is none: nothing was kept of a page that is no HTML."""
    return sha256(body).hexdigest() if body else None

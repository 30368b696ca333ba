"""Makes a record and the links to follow from a fetched page of a crawl, and the record of a fetch
job's page, each in one function that can run wherever the page is. Pure."""

from collections.abc import Collection
from itertools import chain
from typing import NamedTuple

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import NO_SOURCES, Source
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import UnknownField
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url
from manyhands.worker.pages import documents, html
from manyhands.worker.pages.bodies import BadBody, unpack
from manyhands.worker.pages.html import (
    MAX_CRAWLED_LINKS,
    MAX_DIRECTIVES_LENGTH,
    MAX_LINKS,
    Extract,
)
from manyhands.worker.pages.listings import read_listing
from manyhands.worker.pages.page_records import Look, asked_of, outcome_of, record_of
from manyhands.worker.pages.robots_tags import RobotsDirectives, directives
from manyhands.worker.pages.sitemap_records import sitemap_records
from manyhands.worker.records import PageRecord, PlainRecord

# Total length of a page's links: short references on a page with a long URL make long links.
MAX_LINKS_LENGTH = 1_000_000


class ExtractedPage(NamedTuple):
    """`links` are those to follow, one deeper than `depth`. `record` is None, and `problem` why, if
    the page could not be parsed. `cuts` is what was cut of it, when it was fetched and when it was
    parsed. `entries` are the records of a sitemap, and `counts` go to the crawl's counters.
    `not_followed` are links that the page asks robots not to follow; None: that goes for all."""

    record: PageRecord | None
    links: list[str]
    problem: str
    cuts: tuple[str, ...]
    depth: int
    entries: tuple[PlainRecord, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    not_followed: frozenset[str] | None = frozenset()


def extract(page: FetchedPage, *, is_recorded: bool = True) -> ExtractedPage:
    """Raises nothing: a crawl counts its pages, and needs a result for each. Where records go
    nowhere, none is made, which costs as much as all the rest."""
    try:
        if page.follows and not html.is_html(page.content_type):
            return _extract_listing(page, is_recorded=is_recorded)
        look = read(
            page.body,
            page.content_type,
            page.url,
            MAX_CRAWLED_LINKS,
            follows=page.follows,
            refresh=page.refresh,
        )
    except (BadBody, InvalidUrl) as error:
        problem = f"not parsed: bad {'body' if isinstance(error, BadBody) else 'URL'}"
        return ExtractedPage(None, [], problem, page.cuts, page.depth)
    said = look.said
    header = directives(page.robots_tag[:MAX_DIRECTIVES_LENGTH])
    not_followed = _not_followed(page, said, header)
    links, has_more = _to_follow(page, said, not_followed)
    cuts = (*page.cuts, *said.cuts)
    if has_more and Cut.LINK_LIMIT not in cuts:
        cuts = (*cuts, Cut.LINK_LIMIT)
    record, problem = _record(page, look, cuts, header) if is_recorded else (None, "")
    return ExtractedPage(record, links, problem, cuts, page.depth, not_followed=not_followed)


def extract_of_job(page: FetchedPage) -> PageRecord:
    """The record of a fetch job's page, whatever the page itself says of being indexed. Raises
    BadBody or InvalidUrl."""
    look = read(page.body, page.content_type, page.url, MAX_LINKS)
    kind, reason = outcome_of(page.status, page.content_type)
    cuts = (*page.cuts, *look.said.cuts)
    page = page._replace(kind=kind, reason=reason)
    return record_of(page, look, cuts, asked_url=page.asked_url)


def _extract_listing(page: FetchedPage, *, is_recorded: bool) -> ExtractedPage:
    """Of a feed or a sitemap. Raises BadBody or InvalidUrl."""
    pieces = documents.unpack(page.body)
    first = next(pieces, b"")
    kind = documents.kind_of(first)
    if kind is None or kind not in page.follows:
        return ExtractedPage(None, [], "neither page, feed nor sitemap", page.cuts, page.depth)
    listing = read_listing(
        kind,
        chain([first], pieces),
        parse_url(page.url),
        page.depth,
        is_whole=not page.is_truncated,
    )
    header = directives(page.robots_tag[:MAX_DIRECTIVES_LENGTH])
    said = Extract(None, list(listing.found), cuts=tuple(listing.cuts))
    is_followed = not (page.obeys_nofollow and header.nofollow)
    cuts = (*page.cuts, *listing.cuts)
    record, problem = None, ""
    if kind is Source.FEEDS and is_recorded:
        record, problem = _record(page, Look(said, b""), cuts, header)
    return ExtractedPage(
        record=record,
        links=[link for link in said.links if link != page.url] if is_followed else [],
        problem=problem,
        cuts=cuts,
        depth=listing.depth,
        entries=sitemap_records(page, listing) if kind is Source.SITEMAPS else (),
        counts=((str(kind), 1), ("sitemap_refused", listing.refused)),
    )


def read(
    body: str,
    content_type: str,
    url: str,
    max_links: int,
    *,
    follows: Collection[str] = NO_SOURCES,
    refresh: str = "",
) -> Look:
    """What a page with a packed body says. Raises BadBody or InvalidUrl."""
    page_url = parse_url(url)
    unpacked = unpack(body)
    if not (unpacked or refresh):
        return Look(Extract(None, []), unpacked)
    said = html.extract(unpacked, content_type, page_url, max_links, follows, refresh)
    return Look(said, unpacked)


def _record(
    page: FetchedPage, look: Look, cuts: tuple[str, ...], header: RobotsDirectives
) -> tuple[PageRecord | None, str]:
    """And why there is none."""
    is_indexable = not (look.said.robots.noindex or header.noindex)
    try:
        asked = asked_of(page)
        return record_of(page, look, cuts, asked_url=asked, is_indexable=is_indexable), ""
    except UnknownField as error:
        return None, f"no record: {error}"


def _not_followed(
    page: FetchedPage, said: Extract, header: RobotsDirectives
) -> frozenset[str] | None:
    if not page.obeys_nofollow:
        return frozenset()
    return None if said.robots.nofollow or header.nofollow else said.nofollow


def _to_follow(
    page: FetchedPage, said: Extract, not_followed: frozenset[str] | None
) -> tuple[list[str], bool]:
    """The links, and whether some were left out."""
    if not_followed is None:
        return [], False
    left_out = {page.url, *not_followed}
    links: list[str] = []
    length = 0
    found = dict.fromkeys(chain(said.links, said.further)) if said.further else said.links
    for link in found:
        length += len(link)
        if length > MAX_LINKS_LENGTH:
            return links, True
        if link not in left_out:
            links.append(link)
    return links, False

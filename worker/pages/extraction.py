"""Makes a record and the links to follow from a fetched page of a crawl, in one function that can
run wherever the page is. Pure."""

from typing import NamedTuple

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import UnknownField
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url
from manyhands.worker.pages import html
from manyhands.worker.pages.bodies import BadBody, unpack
from manyhands.worker.pages.html import MAX_CRAWLED_LINKS, MAX_DIRECTIVES_LENGTH, Extract
from manyhands.worker.pages.page_records import Look, record_of
from manyhands.worker.pages.robots_tags import RobotsDirectives, directives
from manyhands.worker.records import PageRecord

# Total length of a page's links: short references on a page with a long URL make long links.
MAX_LINKS_LENGTH = 1_000_000


class ExtractedPage(NamedTuple):
    """`links` are those to follow. `record` is None, and `problem` why, if the page could not be
    parsed. `cuts` is what was cut of it, when it was fetched and when it was parsed."""

    record: PageRecord | None
    links: list[str]
    problem: str
    cuts: tuple[str, ...]


def extract(page: FetchedPage) -> ExtractedPage:
    """Raises nothing: a crawl counts its pages, and needs a result for each."""
    try:
        look = read(page.body, page.content_type, page.url, MAX_CRAWLED_LINKS)
    except (BadBody, InvalidUrl) as error:
        problem = f"not parsed: bad {'body' if isinstance(error, BadBody) else 'URL'}"
        return ExtractedPage(None, [], problem, page.cuts)
    said = look.said
    header = directives(page.robots_tag[:MAX_DIRECTIVES_LENGTH])
    links, has_more = _to_follow(page, said, header)
    cuts = (*page.cuts, *said.cuts)
    if has_more and Cut.LINK_LIMIT not in cuts:
        cuts = (*cuts, Cut.LINK_LIMIT)
    is_indexable = not (said.robots.noindex or header.noindex)
    try:
        record = record_of(page, look, cuts, is_indexable=is_indexable)
    except UnknownField as error:
        return ExtractedPage(None, links, f"no record: {error}", cuts)
    return ExtractedPage(record, links, "", cuts)


def read(body: str, content_type: str, url: str, max_links: int) -> Look:
    """What a page with a packed body says. Raises BadBody or InvalidUrl."""
    page_url = parse_url(url)
    unpacked = unpack(body)
    if not unpacked:
        return Look(Extract(None, []), unpacked)
    return Look(html.extract(unpacked, content_type, page_url, max_links), unpacked)


def _to_follow(
    page: FetchedPage, said: Extract, header: RobotsDirectives
) -> tuple[list[str], bool]:
    """The links, and whether some were left out."""
    left_out = {page.url}
    if page.obeys_nofollow:
        if said.robots.nofollow or header.nofollow:
            return [], False
        left_out |= said.nofollow
    links: list[str] = []
    length = 0
    for link in said.links:
        length += len(link)
        if length > MAX_LINKS_LENGTH:
            return links, True
        if link not in left_out:
            links.append(link)
    return links, False

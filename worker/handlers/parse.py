"""`parse`: a fetched page → one record with its title and links. `parse_pages`: the same of pages
of a crawl, and one message to the owner of their shards with the links to follow.

All of it follows from the job's arguments alone, so a repeat makes the same records and message.
"""

import asyncio
from collections.abc import Iterable, Iterator

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.messages import (
    NO_ANSWER,
    NO_CRAWL,
    PARSE_PAGES,
    FetchedPage,
    PagesMessage,
    ParsedMessage,
    ParsedPage,
    pages_job,
    parsed_job,
)
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobtypes import PARSE_QUEUE
from manyhands.shared.urls import parse_url
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead
from manyhands.worker.jobs.registry import job
from manyhands.worker.pages.bodies import BadBody, unpack
from manyhands.worker.pages.html import (
    MAX_CRAWLED_LINKS,
    MAX_DIRECTIVES_LENGTH,
    MAX_LINKS,
    Extract,
    extract,
)
from manyhands.worker.pages.page_ids import page_id, parsed_id
from manyhands.worker.pages.robots_tags import RobotsDirectives, directives
from manyhands.worker.records import FIRST_VISIT, PageRecord

# Of the links of a page and of a message together: short references on a page with a long URL make
# long links.
MAX_LINKS_LENGTH = 1_000_000


# Not in a thread: the parser holds Python's lock for the few milliseconds that a page takes, so
# the loop would wait as long, and for the change of threads besides.
@job("parse")
async def parse(
    url: str,
    final_url: str,
    status: int,
    content_type: str,
    body: str,
    is_truncated: bool,
    fetched_at: str,
    context: JobContext,
) -> None:
    try:
        said = _extract(body, content_type, final_url, MAX_LINKS)
    except (BadBody, InvalidUrl) as error:
        raise Dead(str(error)) from error
    context.emit(
        PageRecord(
            id=page_id(context.id),
            url=url,
            final_url=final_url,
            status=status,
            content_type=content_type,
            title=said.title,
            language=said.language,
            links=said.links,
            is_truncated=is_truncated or bool(said.cuts),
            fetched_at=fetched_at,
        )
    )


@job(PARSE_PAGES, queue=PARSE_QUEUE)
async def parse_pages(answer_to: str, pages: list[FetchedPage], context: JobContext) -> None:
    if context.deliveries > 1 and len(pages) > 1:
        # It may be one of them that ended its worker: the others are not to suffer with it again.
        for number, page in enumerate(pages):
            alone = PagesMessage(answer_to=answer_to, pages=[page])
            context.push(pages_job(alone, PARSE_QUEUE, f"{context.id}.{number}"))
        return
    parsed = []
    for page in pages:
        parsed.append(_parse_page(page, context))
        # Others have their turn between two pages.
        await asyncio.sleep(0)
    if answer_to == NO_ANSWER:
        return
    for number, together in enumerate(_in_messages(parsed)):
        message = ParsedMessage.model_construct(pages=together)
        context.push(parsed_job(message, answer_to, f"{parsed_id(context.id)}.{number}"))


def _in_messages(parsed: Iterable[ParsedPage]) -> Iterator[list[ParsedPage]]:
    together: list[ParsedPage] = []
    length = 0
    for page in parsed:
        length += (of_page := sum(map(len, page.links)))
        if together and length > MAX_LINKS_LENGTH:
            yield together
            together, length = [], of_page
        together.append(page)
    yield together


def _parse_page(page: FetchedPage, context: JobContext) -> ParsedPage:
    links: list[str] = []
    cuts = page.cuts
    problem = ""
    try:
        said = _extract(page.body, page.content_type, page.url, MAX_CRAWLED_LINKS)
    except (BadBody, InvalidUrl) as error:
        # The crawl counts its pages: it must hear of this one, too.
        problem = f"not parsed: bad {'body' if isinstance(error, BadBody) else 'URL'}"
    else:
        header = directives(page.robots_tag[:MAX_DIRECTIVES_LENGTH])
        # A page of no crawl has nothing but its record: without a place for it the job fails.
        if page.crawl == NO_CRAWL or context.can_emit(PageRecord):
            context.emit(_record(page, said, header))
        links, has_more = _to_follow(page, said, header)
        cuts = (*cuts, *said.cuts)
        if has_more and Cut.LINK_LIMIT not in cuts:
            cuts = (*cuts, Cut.LINK_LIMIT)
    return ParsedPage(page.crawl, page.key, page.url, page.depth, links, problem, cuts)


def _extract(body: str, content_type: str, url: str, max_links: int) -> Extract:
    page_url = parse_url(url)
    html = unpack(body)
    return extract(html, content_type, page_url, max_links) if html else Extract(None, [])


def _record(page: FetchedPage, said: Extract, header: RobotsDirectives) -> PageRecord:
    """Who asks not to be indexed has no title in it."""
    is_indexable = not (said.robots.noindex or header.noindex)
    is_of_crawl = page.crawl != NO_CRAWL
    is_cut = bool(said.cuts) or len(said.links) > MAX_LINKS
    return PageRecord(
        id=page.visit,
        url=page.url,
        final_url=page.url,
        status=page.status,
        content_type=page.content_type,
        title=said.title if is_indexable else None,
        language=said.language,
        links=said.links[:MAX_LINKS],
        is_truncated=page.is_truncated or is_cut,
        fetched_at=page.fetched_at,
        crawl=page.crawl if is_of_crawl else None,
        visit=FIRST_VISIT if is_of_crawl else None,
        depth=page.depth if is_of_crawl else None,
        is_indexable=is_indexable,
    )


def _to_follow(
    page: FetchedPage, said: Extract, header: RobotsDirectives
) -> tuple[list[str], bool]:
    """The links, and whether there would be more."""
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

"""`parse`: a fetched page → one record with its title and links; for a page of a crawl also one
message to the owner of its shard with the links to follow.

Both follow from the job's arguments alone, so a repeat makes the same ones.
"""

from typing import Any

from shared.crawl.messages import PageOfCrawl, ParsedMessage, parsed_job
from shared.errors import InvalidUrl
from shared.urls import parse_url
from worker.bodies import BadBody, unpack
from worker.context import JobContext
from worker.crawl.robots_tags import RobotsDirectives, directives
from worker.html import MAX_CRAWLED_LINKS, MAX_DIRECTIVES_LENGTH, MAX_LINKS, Extract, extract
from worker.outcomes import Dead
from worker.page_ids import page_id, parsed_id
from worker.registry import job

# Of a message's links together: short references on a page with a long URL make long links.
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
    crawl: PageOfCrawl | None = None,
) -> None:
    try:
        max_links = MAX_LINKS if crawl is None else MAX_CRAWLED_LINKS
        said = _extract(body, content_type, final_url, max_links)
    except (BadBody, InvalidUrl) as error:
        if crawl is None:
            raise Dead(str(error)) from error
        # The crawl counts its pages: it must hear of this one, too.
        kind = "body" if isinstance(error, BadBody) else "URL"
        _answer(context, crawl, url, [], error=f"not parsed: bad {kind}")
        return
    record = {
        "id": page_id(context.id),
        "url": url,
        "final_url": final_url,
        "status": status,
        "content_type": content_type,
        "title": said.title,
        "language": said.language,
        "links": said.links[:MAX_LINKS],
        "is_truncated": is_truncated,
        "fetched_at": fetched_at,
    }
    if crawl is None:
        context.emit(record)
        return
    if context.can_emit:
        context.emit(record | _of_crawl(crawl, said))
    _answer(context, crawl, url, _to_follow(crawl, said, {url, final_url}))


def _extract(body: str, content_type: str, final_url: str, max_links: int) -> Extract:
    page_url = parse_url(final_url)
    html = unpack(body)
    return extract(html, content_type, page_url, max_links) if html else Extract(None, [])


def _of_crawl(page: PageOfCrawl, said: Extract) -> dict[str, Any]:
    """What the record of such a page has besides, or instead: who asks not to be indexed has no
    title in it."""
    is_indexable = not (said.robots.noindex or _header(page).noindex)
    added: dict[str, Any] = {
        "crawl": page.crawl,
        "depth": page.depth,
        "is_indexable": is_indexable,
    }
    return added if is_indexable else added | {"title": None}


def _to_follow(page: PageOfCrawl, said: Extract, own: set[str]) -> list[str]:
    left_out = own
    if page.obeys_nofollow:
        if said.robots.nofollow or _header(page).nofollow:
            return []
        left_out = own | said.nofollow
    links: list[str] = []
    length = 0
    for link in said.links:
        length += len(link)
        if length > MAX_LINKS_LENGTH:
            break
        if link not in left_out:
            links.append(link)
    return links


def _header(page: PageOfCrawl) -> RobotsDirectives:
    return directives(page.robots_tag[:MAX_DIRECTIVES_LENGTH])


def _answer(
    context: JobContext, page: PageOfCrawl, url: str, links: list[str], error: str = ""
) -> None:
    message = ParsedMessage(
        crawl=page.crawl, key=page.key, url=url, depth=page.depth, links=links, error=error
    )
    context.push(parsed_job(message, page.queue, parsed_id(context.id)))

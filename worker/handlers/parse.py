"""`parse`: a fetched page → one record with its title and links.

The record follows from the job's arguments alone, so a repeat makes the same one.
"""

from shared.errors import InvalidUrl
from shared.urls import parse_url
from worker.bodies import BadBody, unpack
from worker.context import JobContext
from worker.html import Extract, extract
from worker.outcomes import Dead
from worker.page_ids import page_id
from worker.registry import job


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
        said = _extract(body, content_type, final_url)
    except (BadBody, InvalidUrl) as error:
        raise Dead(str(error)) from error
    context.emit(
        {
            "id": page_id(context.id),
            "url": url,
            "final_url": final_url,
            "status": status,
            "content_type": content_type,
            "title": said.title,
            "links": said.links,
            "is_truncated": is_truncated,
            "fetched_at": fetched_at,
        }
    )


def _extract(body: str, content_type: str, final_url: str) -> Extract:
    page_url = parse_url(final_url)
    html = unpack(body)
    return extract(html, content_type, page_url) if html else Extract(None, [])

"""A fetched page → what carries it to the parse stage: a job, or a part of one. Pure."""

from datetime import datetime

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.messages import NO_CRAWL, FetchedPage
from manyhands.shared.jobs import Job, rfc3339
from manyhands.shared.jobtypes import JOB_TYPES, PARSE_QUEUE, PARSE_VERSION, ParseArguments
from manyhands.worker.pages.bodies import pack
from manyhands.worker.pages.html import is_html
from manyhands.worker.pages.page_ids import parse_id


def parse_job(
    *,
    url: str,
    final_url: str,
    status: int,
    content_type: str,
    body: bytes,
    cut: Cut | None,
    arrival: Arrival,
    fetched_at: datetime,
    truncate_bytes: int,
    fetch_id: str,
) -> Job:
    """Nobody waits for an answer."""
    kind = JOB_TYPES["parse"]
    packed, cut = pack_if_parsed(body, status, content_type, cut, truncate_bytes)
    arguments = ParseArguments(
        url=url,
        final_url=final_url,
        status=status,
        content_type=content_type,
        body=packed,
        is_truncated=cut is not None,
        fetched_at=rfc3339(fetched_at),
        cuts=None if cut is None else [cut],
        arrival=list(arrival),
    )
    return Job(
        jobtype=kind.name,
        args=arguments.to_list(),
        queue=PARSE_QUEUE,
        jid=parse_id(fetch_id),
        retry=kind.retry,
        reserve_for=kind.reserve_for_s,
        version=PARSE_VERSION,
    )


def page_of_job(
    *,
    fetch_id: str,
    key: str,
    asked_url: str,
    url: str,
    status: int,
    content_type: str,
    body: str,
    is_truncated: bool,
    fetched_at: str,
    cuts: tuple[str, ...],
    arrival: Arrival | None,
) -> FetchedPage:
    """Its record has the id of the fetch job; nothing in it is followed. `key` is how the store
    knows it, if that is to hear that it was parsed."""
    return FetchedPage(
        visit=fetch_id,
        crawl=NO_CRAWL,
        key=key,
        url=url,
        depth=0,
        status=status,
        content_type=content_type,
        robots_tag="",
        obeys_nofollow=False,
        is_truncated=is_truncated,
        fetched_at=fetched_at,
        body=body,
        cuts=cuts,
        arrival=arrival,
        asked_url=asked_url,
    )


def pack_if_parsed(
    body: bytes, status: int, content_type: str, cut: Cut | None, truncate_bytes: int
) -> tuple[str, Cut | None]:
    """And what was cut of it at last. An error page, or one that is not HTML, is recorded but not
    parsed."""
    is_parsed = status < 400 and is_html(content_type)
    packed, is_cut = pack_page(body if is_parsed else b"", truncate_bytes)
    return packed, Cut.PARSE_LIMIT if is_cut else cut


def pack_page(body: bytes, truncate_bytes: int) -> tuple[str, bool]:
    """The part of it that is parsed, and whether anything was cut."""
    return pack(body[:truncate_bytes]), len(body) > truncate_bytes

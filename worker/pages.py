"""A page that was fetched → the `parse` job that carries it. Pure."""

from datetime import datetime

from shared.crawl.messages import PageOfCrawl
from shared.jobs import Job, rfc3339
from shared.jobtypes import JOB_TYPES, PARSE_QUEUE, ParseArguments
from worker.bodies import pack
from worker.html import is_html
from worker.page_ids import parse_id


def parse_job(
    *,
    url: str,
    final_url: str,
    status: int,
    content_type: str,
    body: bytes,
    is_truncated: bool,
    fetched_at: datetime,
    truncate_bytes: int,
    fetch_id: str,
    crawl: PageOfCrawl | None = None,
) -> Job:
    """An error page is recorded, but nothing of it is parsed; nor is what is not HTML."""
    is_parsed = status < 400 and is_html(content_type)
    kind = JOB_TYPES["parse"]
    arguments = ParseArguments(
        url=url,
        final_url=final_url,
        status=status,
        content_type=content_type,
        body=pack(body[:truncate_bytes] if is_parsed else b""),
        is_truncated=is_truncated or (is_parsed and len(body) > truncate_bytes),
        fetched_at=rfc3339(fetched_at),
        crawl=crawl,
    )
    return Job(
        jobtype=kind.name,
        args=arguments.to_list(),
        queue=PARSE_QUEUE,
        jid=parse_id(fetch_id),
        retry=kind.retry,
        reserve_for=kind.reserve_for_s,
    )

"""An answer → what archives keep of it. Pure."""

from datetime import datetime

from manyhands.shared.jobs import rfc3339
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.records import Capture


def capture_of(
    answer: Answer,
    *,
    url: str,
    id: str,
    fetched_at: datetime,
    crawl: int | None = None,
    depth: int | None = None,
) -> Capture:
    return Capture(
        id=id,
        url=url,
        fetched_at=rfc3339(fetched_at),
        address=answer.phases.address,
        request=answer.request,
        head=answer.head,
        body=answer.body or answer.unwanted,
        is_truncated=answer.is_truncated,
        crawl=crawl,
        depth=depth,
        is_left_out=answer.is_left_out,
    )

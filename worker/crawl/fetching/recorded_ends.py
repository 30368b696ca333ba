"""What came to no page → what the parse stage makes a record of. Pure.

It takes the way of the pages: then all sinks have it, and the process that fetches needs none of
them.
"""

from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.worker.net.arrivals import announced_size, arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.bodies import pack

_KINDS = {UrlState.FAILED: RecordKind.FAILED, UrlState.SKIPPED: RecordKind.OTHER}
_NO_BODY = pack(b"")


def is_recorded(claimed: ClaimedUrl, settled: Settled) -> bool:
    """A fetch job that comes to nothing is a dead job."""
    return settled.state in _KINDS and not claimed.job


def end_of(
    claimed: ClaimedUrl,
    answer: Answer | None,
    settled: Settled,
    *,
    visit: str,
    fields: tuple[str, ...],
    fetched_at: str,
) -> FetchedPage:
    """`visit` is that of its page, which may come after all, if the URL is queued once more: so
    this has an id of its own, the same whenever it is made again."""
    kind = _KINDS[settled.state]
    arrival = None
    if answer is not None:
        arrival = arrival_of(answer, has_all_headers="all_headers" in fields)
        arrival = arrival._replace(size=announced_size(answer))
    return FetchedPage(
        visit=f"{visit}.{kind}",
        crawl=claimed.crawl,
        key=claimed.key.hex(),
        url=claimed.url,
        depth=claimed.depth,
        status=settled.status,
        content_type="" if answer is None else answer.content_type,
        robots_tag="",
        obeys_nofollow=False,
        is_truncated=False,
        fetched_at=fetched_at,
        body=_NO_BODY,
        fields=fields,
        arrival=arrival,
        kind=kind,
        reason=settled.reason,
    )

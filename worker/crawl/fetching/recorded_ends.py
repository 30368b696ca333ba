"""What came to no page has a record, too: it takes the way of the pages, so that all sinks have it
and the process that fetches needs none of them. The broker has it before the store knows of the
end: after a crash in between it is made again, under the same id."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, LeaseLost, Settled
from manyhands.shared.jobs import rfc3339, utc_now
from manyhands.shared.tasks import Tasks
from manyhands.shared.urls import Url
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling, StoreFailed
from manyhands.worker.net.arrivals import announced_size, arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.bodies import pack
from manyhands.worker.records import page_visit_id

# Ends of URLs that were not requested and whose record is on its way. While there are so many, no
# others are ended.
MOST_UNREQUESTED = 1000
_NO_BODY = pack(b"")


@dataclass(slots=True, eq=False)
class RecordedEnds:
    """`tag` gives that of the store; `are_on`: there are sinks that records go to.

    State: how many ends without a request are under way, and whether the last have begun."""

    pages: PagePusher
    settling: Settling
    crawls: LiveCrawls
    store_failed: StoreFailed
    tasks: Tasks
    tag: Callable[[], str]
    are_on: bool
    unrequested: int = 0
    is_stopping: bool = False

    @property
    def room(self) -> int:
        """For ends without a request."""
        return 0 if self.is_stopping else MOST_UNREQUESTED - self.unrequested

    async def record(
        self, shard: OwnedShard, claimed: ClaimedUrl, settled: Settled, answer: Answer | None
    ) -> None:
        """Return when the broker has it, if there is anything to record."""
        crawl = self.crawls.by_id.get(claimed.crawl)
        if self.are_on and crawl is not None and is_recorded(claimed, settled):
            await self.pages.push(self._end_of(crawl, claimed, settled, answer), shard.number)

    async def record_redirect(
        self, shard: OwnedShard, claimed: ClaimedUrl, target: Url, answer: Answer
    ) -> None:
        """Return when the broker has it. The target will have a record of its own, or has one."""
        crawl = self.crawls.by_id.get(claimed.crawl)
        if self.are_on and crawl is not None:
            settled = Settled(claimed.id, UrlState.REDIRECTED, answer.status)
            end = self._end_of(crawl, claimed, settled, answer)
            assert end.arrival is not None
            arrival = end.arrival._replace(redirects=(claimed.url,))
            await self.pages.push(end._replace(url=target.text, arrival=arrival), shard.number)

    def _end_of(
        self, crawl: LiveCrawl, claimed: ClaimedUrl, settled: Settled, answer: Answer | None
    ) -> FetchedPage:
        return end_of(
            claimed,
            answer,
            settled,
            visit=page_visit_id(self.tag(), claimed.crawl, claimed.key.hex()),
            fields=crawl.spec.records.fields,
            fetched_at=rfc3339(utc_now()),
        )

    def end_unrequested(self, shard: OwnedShard, claimed: ClaimedUrl, settled: Settled) -> None:
        """It ends without a request, as soon as its record is safe."""
        if self.is_stopping:
            self.settling.settle(shard, claimed.put_back())
            return
        if not (self.are_on and is_recorded(claimed, settled)):
            self.settling.settle(shard, settled)
            return
        self.unrequested += 1
        token = object()
        shard.under_way.add(token)
        self.tasks.spawn(self._end(shard, token, claimed, settled))

    async def _end(
        self, shard: OwnedShard, token: object, claimed: ClaimedUrl, settled: Settled
    ) -> None:
        try:
            await self.record(shard, claimed, settled, None)
            # Shielded: others wait for the same write.
            await asyncio.shield(self.settling.settle(shard, settled))
        except Exception as error:
            if not isinstance(error, LeaseLost):
                self.store_failed(shard, error)
        finally:
            self.unrequested -= 1
            shard.under_way.discard(token)


def is_recorded(claimed: ClaimedUrl, settled: Settled) -> bool:
    """A fetch job that comes to nothing is a dead job."""
    return settled.state in (UrlState.FAILED, UrlState.SKIPPED, UrlState.DISALLOWED) and (
        not claimed.job
    )


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
    this has an id of its own, the same whenever it is made again. Pure."""
    kind = _kind_of(settled.state, answer)
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


def _kind_of(state: UrlState, answer: Answer | None) -> RecordKind:
    if state is UrlState.FAILED:
        return RecordKind.FAILED
    if state is UrlState.REDIRECTED:
        return RecordKind.REDIRECT
    return RecordKind.REFUSED if answer is None else RecordKind.OTHER

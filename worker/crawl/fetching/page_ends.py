"""Ends a page's request: judges the answer and carries the verdict out. A redirect is admitted, a
page goes to the archives and the parse stage, and the store records it."""

import asyncio
import random
from dataclasses import dataclass
from datetime import datetime

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import OF_ARRIVAL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import LeaseLost, Settled
from manyhands.shared.jobs import rfc3339, utc_now
from manyhands.worker.crawl.fetching import verdicts
from manyhands.worker.crawl.fetching.archive import Archive
from manyhands.worker.crawl.fetching.job_ends import JobEnds
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.fetching.page_fetch import Fetched
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.recorded_ends import RecordedEnds
from manyhands.worker.crawl.fetching.verdicts import Redirect, Verdict
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl
from manyhands.worker.crawl.frontier.schedule import Origin
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling, StoreFailed
from manyhands.worker.net.arrivals import arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.documents import kind_of, pack_sitemap
from manyhands.worker.pages.html import is_html
from manyhands.worker.pages.parse_jobs import pack_page
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown


@dataclass(slots=True, eq=False)
class PageEnds:
    """`retry_s` is the wait before a second attempt; at most `truncate_bytes` of a page are
    parsed."""

    admission: Admission
    notes: HostNotes
    archive: Archive
    pages: PagePusher
    ends: RecordedEnds
    settling: Settling
    store_failed: StoreFailed
    jobs: JobEnds
    retry_s: float
    truncate_bytes: int

    def judge(self, origin: Origin, page: PageToFetch, fetched: Fetched) -> Verdict:
        state = origin.state
        was_in_trouble = bool(state.trouble)
        verdict = verdicts.verdict_of(
            page.url,
            fetched.outcome,
            state,
            sent_at=fetched.sent_at,
            now=fetched.ended_at,
            retry_s=self.retry_s,
            patience_s=page.crawl.patience_s,
            jitter=random.random(),
            most_redirects=self.jobs.max_redirects,
            reads=page.crawl.spec.discovery.documents,
        )
        if was_in_trouble and not state.trouble:
            self.notes.back(origin)
        elif state.trouble and not was_in_trouble:
            self.notes.in_trouble(origin)
        return verdict

    async def carry_out(
        self, shard: OwnedShard, page: PageToFetch, fetched: Fetched, verdict: Verdict
    ) -> bool:
        """Return once the store has it: True if the URL is queued again. Until then the URL counts
        as in flight, and a crash makes it be fetched again."""
        if verdict.is_no_page:
            _came_to_nothing(page.crawl)
        settled = verdict.settled
        answer = fetched.outcome
        is_page = settled is None and verdict.redirect is None
        if isinstance(answer, Answer) and not is_page:
            try:
                await self.archive.keep_other(page.url, answer)
            except SinkDown:
                return await self._put_back(shard, page, verdict)
        if settled is None:
            assert isinstance(answer, Answer), "only an answer can be handed on"
            if verdict.redirect is not None and page.url.job:
                settled = await self.jobs.redirect(page.url, verdict.redirect.target, answer.status)
            elif verdict.redirect is not None:
                await self._redirect(shard, page, verdict.redirect, answer)
                return False
            else:
                settled = await self._hand_on(shard, page, answer)
        came = answer if isinstance(answer, Answer) else None
        await self.ends.record(shard, page.url, settled, came)
        return await self._settle(shard, settled)

    def failed(self, shard: OwnedShard, error: Exception) -> None:
        """It could not be carried out."""
        # After a lost lease, the next owner fetches it again.
        if not isinstance(error, LeaseLost):
            self.store_failed(shard, error)

    async def _put_back(self, shard: OwnedShard, page: PageToFetch, verdict: Verdict) -> bool:
        """The answer is not in the archives, and we are about to stop."""
        if not verdict.is_no_page:
            _came_to_nothing(page.crawl)
        return await self._settle(shard, verdicts.put_off(page.url))

    async def _settle(self, shard: OwnedShard, settled: Settled) -> bool:
        # Shielded: others wait for the same write.
        await asyncio.shield(self.settling.settle(shard, settled))
        return settled.state is UrlState.QUEUED

    async def _redirect(
        self, shard: OwnedShard, page: PageToFetch, redirect: Redirect, answer: Answer
    ) -> None:
        target = redirect.target
        await self.ends.record_redirect(shard, page.url, target, answer)
        await self.admission.redirected(shard.number, page.crawl, page.url, target, answer.status)

    async def _hand_on(self, shard: OwnedShard, page: PageToFetch, answer: Answer) -> Settled:
        """First the sinks take the page, then the broker, then the store: after a crash in between
        it is fetched again, and no second record is made."""
        fetched_at = utc_now()
        fetched = None if page.url.job else await self._fetched(page, answer, fetched_at)
        try:
            await self.archive.keep_page(page.url, answer, fetched_at)
        except SinkDown:
            _came_to_nothing(page.crawl)
            return verdicts.put_off(page.url)
        except RecordsRefused as refused:
            _came_to_nothing(page.crawl)
            return verdicts.ended(page.url, UrlState.FAILED, str(refused))
        if fetched is None:
            return await self.jobs.hand_to_parse(shard.number, page.url, answer)
        size = len(answer.body)
        answer.becomes(len(fetched.body))
        await self.pages.push(fetched, shard.number)
        return Settled(
            page.url.id, UrlState.PARSING, answer.status, size=size, attempts=page.url.attempts
        )

    async def _fetched(
        self, page: PageToFetch, answer: Answer, fetched_at: datetime
    ) -> FetchedPage:
        url, crawl = page.url, page.crawl
        key = url.key.hex()
        body, cut = await self._packed(answer)
        chosen = crawl.chosen
        handlers = crawl.spec.handlers or ""
        return FetchedPage(
            visit=self.archive.page_id(url),
            crawl=crawl.id,
            key=key,
            url=url.url,
            depth=url.depth,
            status=answer.status,
            content_type=answer.content_type,
            robots_tag=answer.robots_tag,
            obeys_nofollow=crawl.spec.politeness.obeys_nofollow,
            is_truncated=cut is not None,
            fetched_at=rfc3339(fetched_at),
            body=body,
            cuts=() if cut is None else (cut,),
            follows=crawl.spec.discovery.follows,
            refresh=answer.refresh,
            fields=crawl.spec.records.fields,
            arrival=(
                None
                if chosen.isdisjoint(OF_ARRIVAL) and not handlers
                else arrival_of(answer, has_all_headers=handlers != "" or "all_headers" in chosen)
            ),
            handlers=handlers,
            note=url.note,
            attempts=url.attempts,
        )

    async def _packed(self, answer: Answer) -> tuple[str, Cut | None]:
        """The body, and why it is not all of it."""
        if not is_html(answer.content_type) and kind_of(answer.body) is Source.SITEMAPS:
            # Of tens of megabytes, maybe: not in the event loop.
            body, is_cut = await asyncio.to_thread(pack_sitemap, answer.body)
            return body, Cut.SITEMAP_BYTES if is_cut else answer.cut
        body, is_cut = pack_page(answer.body, self.truncate_bytes)
        return body, Cut.PARSE_LIMIT if is_cut else answer.cut


def _came_to_nothing(crawl: LiveCrawl) -> None:
    if crawl.allowance is not None:
        crawl.allowance.came_to_nothing()

"""Ends a page's request: judges the answer and carries the verdict out. A redirect is admitted, a
page goes to the archives and the parse stage, and the store records it."""

import asyncio
import random
from dataclasses import dataclass

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import OF_ARRIVAL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import LeaseLost, Settled
from manyhands.shared.jobs import rfc3339, utc_now
from manyhands.worker.crawl.fetching import verdicts
from manyhands.worker.crawl.fetching.job_ends import JobEnds, capture
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.fetching.page_fetch import Fetched
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.fetching.recorded_ends import end_of, is_recorded
from manyhands.worker.crawl.fetching.verdicts import Redirect, Verdict
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl
from manyhands.worker.crawl.frontier.schedule import Origin
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import Settling, StoreFailed
from manyhands.worker.net.arrivals import arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.documents import kind_of, pack_sitemap
from manyhands.worker.pages.html import is_html
from manyhands.worker.pages.parse_jobs import pack_page
from manyhands.worker.records import Capture, page_visit_id
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from manyhands.worker.sinks.sinks import Sinks


@dataclass(slots=True, eq=False)
class PageEnds:
    """`retry_s` is the wait before a second attempt; at most `truncate_bytes` of a page are parsed.
    `ends_are_recorded`: what comes to no page has a record, too."""

    admission: Admission
    notes: HostNotes
    sinks: Sinks
    pages: PagePusher
    settling: Settling
    control: Control
    store_failed: StoreFailed
    jobs: JobEnds
    retry_s: float
    truncate_bytes: int
    ends_are_recorded: bool

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
        if settled is not None and self.ends_are_recorded and is_recorded(page.url, settled):
            await self.pages.push(self._end(page, answer, settled), shard.number)
        if settled is None:
            assert isinstance(answer, Answer), "only an answer can be handed on"
            if verdict.redirect is not None and page.url.job:
                settled = await self.jobs.redirect(page.url, verdict.redirect.target, answer.status)
            elif verdict.redirect is not None:
                await self._redirect(shard, page, verdict.redirect, answer.status)
                return False
            else:
                settled = await self._hand_on(shard, page, answer)
        # Shielded: others wait for the same write.
        await asyncio.shield(self.settling.settle(shard, settled))
        return settled.state is UrlState.QUEUED

    def failed(self, shard: OwnedShard, error: Exception) -> None:
        """It could not be carried out."""
        # After a lost lease, the next owner fetches it again.
        if not isinstance(error, LeaseLost):
            self.store_failed(shard, error)

    async def _redirect(
        self, shard: OwnedShard, page: PageToFetch, redirect: Redirect, status: int
    ) -> None:
        await self.admission.redirected(shard.number, page.crawl, page.url, redirect.target, status)

    async def _hand_on(self, shard: OwnedShard, page: PageToFetch, answer: Answer) -> Settled:
        """First the sinks take the page, then the broker, then the store: after a crash in between
        it is fetched again, and no second record is made."""
        fetched = None if page.url.job else await self._fetched(page, answer)
        try:
            if self.sinks.takes(Capture):
                made = _capture(fetched, answer) if fetched else capture(page.url, answer)
                await self._archive(made)
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

    def _end(self, page: PageToFetch, outcome: object, settled: Settled) -> FetchedPage:
        return end_of(
            page.url,
            outcome if isinstance(outcome, Answer) else None,
            settled,
            visit=page_visit_id(self.control.tag, page.crawl.id, page.url.key.hex()),
            fields=page.crawl.spec.records.fields,
            fetched_at=rfc3339(utc_now()),
        )

    async def _archive(self, made: Capture) -> None:
        """Return when the archives have it."""
        await self.sinks.room()
        await self.sinks.write([made])

    async def _fetched(self, page: PageToFetch, answer: Answer) -> FetchedPage:
        url, crawl = page.url, page.crawl
        key = url.key.hex()
        body, cut = await self._packed(answer)
        chosen = crawl.chosen
        handlers = crawl.spec.handlers or ""
        return FetchedPage(
            visit=page_visit_id(self.control.tag, crawl.id, key),
            crawl=crawl.id,
            key=key,
            url=url.url,
            depth=url.depth,
            status=answer.status,
            content_type=answer.content_type,
            robots_tag=answer.robots_tag,
            obeys_nofollow=crawl.spec.politeness.obeys_nofollow,
            is_truncated=cut is not None,
            fetched_at=rfc3339(utc_now()),
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


def _capture(fetched: FetchedPage, answer: Answer) -> Capture:
    return Capture(
        id=fetched.visit,
        url=fetched.url,
        fetched_at=fetched.fetched_at,
        address=answer.phases.address,
        request=answer.request,
        head=answer.head,
        body=answer.body,
        is_truncated=answer.is_truncated,
        crawl=fetched.crawl,
        depth=fetched.depth,
    )

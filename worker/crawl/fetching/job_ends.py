"""What becomes of a fetch job's answer: a page for the parse stage, or a fetch job for the target
of a redirect. Both are in the broker before the store knows of it: after a crash in between they
are made again, the record under the same id, the job under the same jid."""

from dataclasses import dataclass

from manyhands.shared.crawl.fetch_jobs import FetchJob
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.shared.jobs import rfc3339, utc_now
from manyhands.shared.urls import Url, parse_url
from manyhands.worker.crawl.fetching.parse_batches import PagePusher
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.jobs.stage_services import Push
from manyhands.worker.net.arrivals import arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.parse_jobs import pack_if_parsed, page_of_job


@dataclass(slots=True, eq=False)
class JobEnds:
    """At most `truncate_bytes` of a page are parsed, and `max_redirects` are followed in a row."""

    admission: Admission
    push: Push
    pages: PagePusher
    truncate_bytes: int
    max_redirects: int

    async def redirect(self, claimed: ClaimedUrl, target: Url, status: int) -> Settled:
        job = FetchJob.of_text(claimed.job)
        job = job._replace(redirects=[*job.redirects, claimed.url])
        await self.push([job.redirected_to(target.text, self.admission.shards)])
        return Settled(claimed.id, UrlState.REDIRECTED, status, attempts=claimed.attempts)

    async def hand_to_parse(self, shard: int, claimed: ClaimedUrl, answer: Answer) -> Settled:
        """The parse stage need not answer: the page is in the broker."""
        job = FetchJob.of_text(claimed.job)
        size = len(answer.body)
        body, cut = pack_if_parsed(
            *(answer.body, answer.status, answer.content_type, answer.cut, self.truncate_bytes)
        )
        page = page_of_job(
            fetch_id=job.id,
            key=claimed.key.hex(),
            asked_url=parse_url(job.url).text,
            url=claimed.url,
            status=answer.status,
            content_type=answer.content_type,
            body=body,
            is_truncated=cut is not None,
            fetched_at=rfc3339(utc_now()),
            cuts=() if cut is None else (cut,),
            arrival=arrival_of(answer, redirects=job.redirects),
        )
        answer.becomes(len(body))
        await self.pages.push(page, shard)
        return Settled(
            claimed.id, UrlState.PARSING, answer.status, size=size, attempts=claimed.attempts
        )

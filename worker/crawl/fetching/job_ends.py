"""What becomes of a fetch job's answer: a parse job that carries the page, or a fetch job for the
target of a redirect. Both are in the broker before the store knows of it: after a crash in between
they are made again, under the same jids."""

from collections.abc import Callable
from dataclasses import dataclass

from manyhands.shared.crawl.fetch_jobs import ANSWER_TO, FetchJob
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.shared.jobs import utc_now
from manyhands.shared.urls import Url, parse_url
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.jobs.stage_services import Push
from manyhands.worker.net.arrivals import arrival_of
from manyhands.worker.net.fetcher import Answer
from manyhands.worker.pages.parse_jobs import parse_job


@dataclass(slots=True, eq=False)
class JobEnds:
    """At most `truncate_bytes` of a page are parsed, and `max_redirects` are followed in a row.
    `answers_to` gives the queue in which the parse stage says that it has a page of a shard."""

    admission: Admission
    push: Push
    answers_to: Callable[[int], str]
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
        made = parse_job(
            url=parse_url(job.url).text,
            final_url=claimed.url,
            status=answer.status,
            content_type=answer.content_type,
            body=answer.body,
            cut=answer.cut,
            arrival=arrival_of(answer, redirects=job.redirects),
            fetched_at=utc_now(),
            truncate_bytes=self.truncate_bytes,
            fetch_id=job.id,
        )
        answer_to = [self.answers_to(shard), claimed.key.hex(), claimed.url]
        made.custom = {"mh": {"id": made.jid, "deliveries": 0, ANSWER_TO: answer_to}}
        answer.becomes(sum(len(text) for text in made.args if isinstance(text, str)))
        await self.push([made])
        return Settled(
            claimed.id, UrlState.PARSING, answer.status, size=size, attempts=claimed.attempts
        )

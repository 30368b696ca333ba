"""Every answer goes to the sinks that keep answers, if there are any: pages, redirects, errors,
what is no HTML, and robots.txt files."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from manyhands.shared.crawl.fetch_jobs import FetchJob
from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.shared.jobs import utc_now
from manyhands.shared.logs import get_logger
from manyhands.shared.urls import Url
from manyhands.worker.crawl.politeness.robots_fetch import NotKept
from manyhands.worker.net.captures import capture_of
from manyhands.worker.net.fetcher import Answer, HopFetcher
from manyhands.worker.records import Capture, page_visit_id
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from manyhands.worker.sinks.sinks import Sinks


@dataclass(slots=True, eq=False)
class Archive:
    """`sinks` are all those of the process; `tag` gives that of the store."""

    sinks: Sinks
    tag: Callable[[], str]

    async def keep_page(self, claimed: ClaimedUrl, answer: Answer, fetched_at: datetime) -> None:
        """Under the id of its record. Return when the archives have it. Raises SinkDown or
        RecordsRefused."""
        await self._keep(claimed, answer, self.page_id(claimed), fetched_at)

    async def keep_other(self, claimed: ClaimedUrl, answer: Answer) -> None:
        """What is no page: the page may come yet. If the archives can never take it, the log says
        so. Raises SinkDown."""
        number = f"{claimed.attempts}"
        if claimed.job:
            job = FetchJob.of_text(claimed.job)
            number = f"{job.turn}.{job.hop}.{number}"
        try:
            await self._keep(claimed, answer, f"{self.page_id(claimed)}.answer.{number}")
        except RecordsRefused as refused:
            _say_refused(claimed.url, refused)

    async def keep_robots(self, url: str, answer: Answer) -> None:
        """Raises SinkDown."""
        if self.sinks.takes(Capture):
            # Each is asked for anew, even after a crash.
            capture_id = f"{self.tag()}.robots.{secrets.token_hex(12)}"
            try:
                await self._write(capture_of(answer, url=url, id=capture_id, fetched_at=utc_now()))
            except RecordsRefused as refused:
                _say_refused(url, refused)

    async def _keep(
        self,
        claimed: ClaimedUrl,
        answer: Answer,
        capture_id: str,
        fetched_at: datetime | None = None,
    ) -> None:
        if self.sinks.takes(Capture):
            is_of_crawl = not claimed.job
            await self._write(
                capture_of(
                    answer,
                    url=claimed.url,
                    id=capture_id,
                    fetched_at=fetched_at or utc_now(),
                    crawl=claimed.crawl if is_of_crawl else None,
                    depth=claimed.depth if is_of_crawl else None,
                )
            )

    async def _write(self, capture: Capture) -> None:
        await self.sinks.room()
        await self.sinks.write([capture])

    def page_id(self, claimed: ClaimedUrl) -> str:
        """Of the record of its page, too."""
        if claimed.job:
            return FetchJob.of_text(claimed.job).id
        return page_visit_id(self.tag(), claimed.crawl, claimed.key.hex())


@dataclass(slots=True, eq=False)
class RobotsFetcher:
    """A `HopFetcher` for robots.txt files, which are archived before they are obeyed."""

    fetcher: HopFetcher
    archive: Archive

    async def get(
        self,
        url: Url,
        *,
        user_agent: str,
        max_bytes: int,
        check: Callable[[], None],
        wants_body: Callable[[int, str], bool],
    ) -> Answer:
        """Raises NotKept, besides a FetchError."""
        answer = await self.fetcher.get(
            url, user_agent=user_agent, max_bytes=max_bytes, check=check, wants_body=wants_body
        )
        try:
            await self.archive.keep_robots(url.text, answer)
        except SinkDown as error:
            raise NotKept(str(error)) from error
        return answer


def _say_refused(url: str, refused: RecordsRefused) -> None:
    get_logger("crawl").warning("an answer is in no archive", url=url, reason=str(refused))

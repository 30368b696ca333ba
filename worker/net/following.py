"""Fetches a page, following redirects hop by hop. For `fetch` jobs; a crawl admits every redirect's
target as a separate URL."""

import asyncio

from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobs import utc_now
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import Url, parse_url, resolve_reference
from manyhands.worker.net.arrivals import arrival_of
from manyhands.worker.net.fetcher import (
    REDIRECTS,
    Answer,
    HopFetcher,
    Page,
    PermanentFetchError,
    is_kept,
    raise_if_temporary,
)
from manyhands.worker.net.reasons import time_out


class FollowingFetcher:
    """A `Fetcher`. It has no state."""

    def __init__(self, hops: HopFetcher, settings: FetchSettings) -> None:
        self._hops = hops
        self._settings = settings

    async def fetch(self, url: str) -> Page:
        first = parse_url(url)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                answers = await self._follow(first)
        except TimeoutError:
            raise time_out("whole document", self._settings.timeout_s) from None
        *hops, answer = answers
        return Page(
            url=first.text,
            final_url=answer.url,
            status=answer.status,
            content_type=answer.content_type,
            body=answer.body,
            cut=answer.cut,
            fetched_at=utc_now(),
            arrival=arrival_of(answer, redirects=[hop.url for hop in hops]),
            answers=tuple(answers),
            hold=answer.hold,
        )

    async def _follow(self, first: Url) -> list[Answer]:
        """Those of all hops."""
        current = first
        answers: list[Answer] = []
        for _ in range(self._settings.max_redirects + 1):
            answer = await self._hops.get(
                current,
                user_agent=self._settings.agent,
                max_bytes=self._settings.max_bytes,
                check=_always,
                wants_body=is_kept,
            )
            answers.append(answer)
            if answer.location is None or answer.status not in REDIRECTS:
                raise_if_temporary(answer.status, answer.retry_after, utc_now())
                return answers
            current = _redirected(current, answer.location)
        raise PermanentFetchError(
            f"more than {self._settings.max_redirects} redirects", reason="too many redirects"
        )


def _always() -> None:
    """A `fetch` job has no lease that could be lost."""


def _redirected(current: Url, location: str) -> Url:
    try:
        return resolve_reference(current, location)
    except InvalidUrl as error:
        raise PermanentFetchError(
            f"redirected to no usable URL: {error}", reason="redirected to no usable URL"
        ) from None

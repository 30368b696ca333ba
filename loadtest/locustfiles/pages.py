"""Users of a load test who want pages fetched, for Locust: one at a time, and lists of them.

`python -m loadtest pages` starts it. LOADTEST_PAGES names a file with the pages, of which each is
asked for once; every answer is written down in the one that LOADTEST_PAGE_ANSWERS names.
"""

import json
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import gevent  # type: ignore[import-untyped]
from locust import events, task
from locust.exception import StopUser

from loadtest.load.answers import told_of_list, told_of_single
from loadtest.load.ledger import Outcome
from loadtest.load.pages import (
    ANSWERS_VARIABLE,
    NO_JID,
    PAGES_VARIABLE,
    PageAnswer,
    jids_of,
    write_page_answers,
)
from loadtest.locustfiles.jobs import JobUser

LIST_PAGES = 20
JSON = {"Content-Type": "application/json"}

_pages = iter(Path(os.environ[PAGES_VARIABLE]).read_text().splitlines())
_answers = Path(os.environ[ANSWERS_VARIABLE]).open("a")  # noqa: SIM115 - open until the end


@events.test_stop.add_listener  # type: ignore[untyped-decorator]
def _flush(**_: Any) -> None:
    _answers.flush()


class PageUser(JobUser):
    abstract = True

    def post_pages(
        self,
        path: str,
        pages: int,
        make_body: Callable[[Sequence[str]], object],
        told: Callable[[int, bytes], list[Outcome]],
    ) -> None:
        urls = list(islice(_pages, pages))
        if len(urls) < pages:
            raise StopUser
        outcomes, jids = [Outcome.BROKEN] * pages, [NO_JID] * pages
        try:
            response = self.client.post(path, json.dumps(make_body(urls)), headers=JSON)
            body = response.content or b""
            outcomes, jids = told(response.status_code, body), jids_of(body, pages)
        except gevent.GreenletExit:
            # Locust ends a user whose pause is just over, although it has begun a request.
            outcomes = [Outcome.ABANDONED] * pages
            raise
        finally:
            write_page_answers(_answers, map(PageAnswer, outcomes, jids, urls))


class OnePageUser(PageUser):
    """Ten POSTs a second, one page each."""

    weight = 3
    per_s = 10

    @task
    def post(self) -> None:
        self.post_pages("/jobs/fetch", 1, lambda urls: {"url": urls[0]}, told_of_single)


class PageListUser(PageUser):
    """One list a second."""

    weight = 1
    per_s = 1

    @task
    def post(self) -> None:
        self.post_pages(
            "/jobs",
            LIST_PAGES,
            lambda urls: [{"jobtype": "fetch", "args": {"url": url}} for url in urls],
            lambda status, body: told_of_list(LIST_PAGES, status, body),
        )

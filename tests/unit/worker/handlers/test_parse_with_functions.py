"""Pages of a crawl that names a module of page functions."""

from typing import Any

import pytest

from manyhands import Page, Retry
from manyhands.shared.crawl.messages import (
    PAGES_VERSION,
    PARSED_VERSION,
    FetchedPage,
    PagesMessage,
    ParsedPage,
    pages_job,
)
from manyhands.shared.jobs import FIRST_VERSION, Job
from manyhands.shared.jobtypes import PARSE_QUEUE
from manyhands.worker.handlers import parse as module
from manyhands.worker.handlers.parse import parse_pages
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import make_handler
from manyhands.worker.page_functions.deaths import MOST_DEATHS, Deaths
from manyhands.worker.page_functions.registry import PAGE_FUNCTIONS
from manyhands.worker.pages.bodies import pack
from manyhands.worker.records import PageRecord, PlainRecord
from manyhands.worker.testing import MemorySinks, make_delivery

ANSWER_TO = "crawl.0123456789.00"
LIMIT_S = 0.1


class RawSinks(MemorySinks):
    """Keeps records as they are."""

    async def write(self, records: Any) -> None:
        self.records += records


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(PAGE_FUNCTIONS, "functions", [])
    monkeypatch.setattr(module, "FUNCTION_S", LIMIT_S, raising=False)
    monkeypatch.setattr(module, "DEATHS", Deaths(tmp_path / "deaths"))


def fetched(path: str, **changes: Any) -> FetchedPage:
    return FetchedPage(
        visit=f"store.1.{path}.1",
        crawl=1,
        key="00" * 16,
        url=f"https://shop.example/{path}",
        depth=0,
        status=200,
        content_type="text/html",
        robots_tag="",
        obeys_nofollow=True,
        is_truncated=False,
        fetched_at="2026-01-01T00:00:00Z",
        body=pack(b"<title>A</title><a href=/next>next</a>"),
        handlers=__name__,
    )._replace(**changes)


async def parsed(*pages: FetchedPage, deliveries: int = 1) -> tuple[JobContext, list[Job]]:
    """Over the wire, as the worker gets it."""
    job = pages_job(PagesMessage(answer_to=ANSWER_TO, pages=list(pages)), PARSE_QUEUE, "job-1")
    mh = {"id": "job-1", "deliveries": deliveries - 1}
    delivery = make_delivery("parse_pages", job.args, custom={"mh": mh})
    context = JobContext(delivery, RawSinks())
    handler = make_handler("parse_pages", parse_pages, PARSE_QUEUE)
    await parse_pages(*handler.arguments(job.args, context))
    return context, context.children


def told(job: Job) -> list[ParsedPage]:
    assert job.jobtype == "parsed"
    return [ParsedPage(*page) for page in job.args[0]]


async def test_records_and_notes_go_with_the_page():
    @PAGE_FUNCTIONS.page("shop.example/*")
    def function(page: Page) -> None:
        page.emit(page.note, kind="note")
        page.follow("/next", note=1)

    context, [job] = await parsed(fetched("a", note='"b"'))

    [record, item] = context.records
    assert isinstance(record, PageRecord) and record.kind == "page"
    assert isinstance(item, PlainRecord) and item.body["item"] == "b"
    assert job.version == PARSED_VERSION
    [page] = told(job)
    assert page.links == ["https://shop.example/next"]
    assert [tuple(noted) for noted in page.noted] == [("https://shop.example/next", "1")]


async def test_a_page_that_no_function_gets_is_as_in_any_crawl():
    @PAGE_FUNCTIONS.page("else.example/*")
    def function(page: Page) -> None:
        raise AssertionError

    context, [job] = await parsed(fetched("a"))
    plain, [plain_job] = await parsed(fetched("a", handlers=""))

    assert context.records == plain.records
    assert told(job) == told(plain_job)
    assert job.version == FIRST_VERSION


async def test_a_module_that_is_not_loaded_fails_the_page():
    context, [job] = await parsed(fetched("a", handlers="os"))
    [page] = told(job)
    assert page.setback is not None
    assert page.setback[0].startswith("no page functions of the module os")
    [record] = context.records
    assert isinstance(record, PageRecord) and record.kind == "failed"


async def test_a_page_to_be_tried_again_leaves_no_record():
    @PAGE_FUNCTIONS.page("*")
    def function(page: Page) -> None:
        raise Retry(after_s=9)

    context, [job] = await parsed(fetched("a"))
    [page] = told(job)
    assert context.records == []
    assert page.setback is not None and page.setback[2] == 9


async def test_pages_behind_one_that_took_too_long_get_a_job_of_their_own():
    @PAGE_FUNCTIONS.page("*/slow")
    def function(page: Page) -> None:
        while True:
            pass

    _, jobs = await parsed(*map(fetched, ("a", "slow", "b", "c")))

    again, job = jobs
    assert (again.jobtype, again.version) == ("parse_pages", PAGES_VERSION)
    assert [page[0] for page in again.args[1]] == ["store.1.b.1", "store.1.c.1"]
    assert [page.url[-1] for page in told(job)] == ["a", "w"]


async def test_pages_that_come_back_come_alone_and_one_that_ends_processes_is_given_up():
    @PAGE_FUNCTIONS.page("*")
    def function(page: Page) -> None:
        raise AssertionError

    _, alone = await parsed(fetched("a"), fetched("b"), deliveries=2)
    assert [len(job.args[1]) for job in alone] == [1, 1]
    never_left = [module.DEATHS.at("store.1.a.1") for _ in range(MOST_DEATHS)]
    for one in never_left:
        one.__enter__()
    _, [job] = await parsed(fetched("a"), deliveries=3)
    [page] = told(job)
    assert page.setback is not None and page.setback[0].endswith("ended its process 2 times")

"""The fetch job: which answers and errors end it how, and the parse job that it makes."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobs import encode_job
from manyhands.shared.settings import FetchSettings, Settings
from manyhands.worker.handlers import fetch as handler
from manyhands.worker.handlers.parse import parse
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead, Retry
from manyhands.worker.jobs.registry import make_handler
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.net.fetcher import (
    ForbiddenAddress,
    Page,
    PermanentFetchError,
    TemporaryFetchError,
)
from manyhands.worker.pages.bodies import pack, unpack
from manyhands.worker.records import Capture
from manyhands.worker.testing import make_delivery, set_up
from tests.unit.worker.crawl.politeness.answers import answer

URL = "http://example.com/"
WHEN = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


def page(**changes: Any) -> Page:
    fields: dict[str, Any] = {
        "url": URL,
        "final_url": "http://example.com/home",
        "status": 200,
        "content_type": "text/html",
        "body": b"<p>x",
        "cut": None,
        "fetched_at": WHEN,
        "arrival": Arrival(size=4, etag='"x"', redirects=(URL,)),
    }
    return Page(**(fields | changes))


class ScriptedFetcher:
    def __init__(self, answer: Page | Exception) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def fetch(self, url: str) -> Page:
        self.asked.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(autouse=True)
async def process() -> AsyncIterator[ProcessSetup]:
    process = set_up(Settings(fetch=FetchSettings(polite=False)))
    yield process
    await process.resources.close()


@pytest.fixture
async def context() -> JobContext:
    return JobContext(make_delivery("fetch", [URL], jid="fetch-0001"), None)


async def run(monkeypatch: pytest.MonkeyPatch, context: JobContext, answer: Page | Exception):
    fetcher = ScriptedFetcher(answer)
    monkeypatch.setattr(handler, "FETCHER", fetcher)
    await handler.fetch(URL, context)
    assert fetcher.asked == [URL]


async def test_a_page_becomes_one_parse_job(monkeypatch, context):
    await run(monkeypatch, context, page())
    (child,) = context.children
    assert (child.jobtype, child.queue, child.jid) == ("parse", "parse", "fetch-0001.parse")
    *arguments, body, is_truncated, fetched_at, cuts, arrival = child.args
    assert arguments == [URL, "http://example.com/home", 200, "text/html"]
    assert unpack(body) == b"<p>x"
    assert (is_truncated, fetched_at) == (False, "2026-11-16T12:00:00Z")
    assert (cuts, arrival) == (None, list(page().arrival))
    assert encode_job(child)


async def test_the_parse_job_fits_its_handler(monkeypatch, context):
    await run(monkeypatch, context, page())
    (child,) = context.children
    handler_of_parse = make_handler("parse", parse)
    given = handler_of_parse.arguments(child.args, context)
    assert given == [*child.args[:7], context, *child.args[7:]]


async def test_a_repeat_makes_the_same_parse_job(monkeypatch, context):
    await run(monkeypatch, context, page())
    again = make_delivery(
        "fetch", [URL], jid="another-jid", custom={"mh": {"id": "fetch-0001", "deliveries": 1}}
    )
    repeated = JobContext(again, None)
    await run(monkeypatch, repeated, page())
    first, second = context.children[0], repeated.children[0]
    assert first.jid == second.jid
    assert first.to_wire()["custom"] == second.to_wire()["custom"]


@pytest.mark.parametrize(
    "error",
    [
        InvalidUrl("not a URL"),
        ForbiddenAddress("127.0.0.1 is not a public address"),
        PermanentFetchError("more than 5 redirects"),
    ],
)
async def test_what_can_never_succeed_is_dead_with_the_reason(monkeypatch, context, error):
    with pytest.raises(Dead, match=str(error)):
        await run(monkeypatch, context, error)
    assert context.children == []


async def test_a_server_that_says_when_is_asked_again_then(monkeypatch, context):
    with pytest.raises(Retry, match="answered 429") as raised:
        await run(monkeypatch, context, TemporaryFetchError("the server answered 429", 90.0))
    assert raised.value.after_s == 90
    assert context.children == []


async def test_any_other_temporary_error_is_left_to_the_delays_of_the_server(monkeypatch, context):
    with pytest.raises(TemporaryFetchError, match="time-out"):
        await run(monkeypatch, context, TemporaryFetchError("time-out"))
    assert context.children == []


class Archive:
    def takes(self, kind: type) -> bool:
        return kind is Capture


async def test_a_page_is_captured_where_somebody_archives(monkeypatch):
    context = JobContext(make_delivery("fetch", [URL], jid="fetch-0001"), Archive())
    redirect, last = answer(302, location="/home"), answer(200, b"<p>x", is_truncated=True)
    redirect.url, last.url, last.head = URL, "http://example.com/home", b"HTTP/1.1 200 OK"
    await run(monkeypatch, context, page(answers=(redirect, last), cut=Cut.DAMAGE))
    [hop, *captures] = context.records
    assert isinstance(hop, Capture)
    assert (hop.id, hop.url) == ("fetch-0001.answer.0", URL)
    assert captures == [
        Capture(
            id="fetch-0001",
            url="http://example.com/home",
            fetched_at="2026-11-16T12:00:00Z",
            address="",
            request=b"",
            head=b"HTTP/1.1 200 OK",
            body=b"<p>x",
            is_truncated=True,
        )
    ]
    assert len(context.children) == 1


async def test_who_archives_pages_may_want_no_records_of_them(monkeypatch):
    context = JobContext(make_delivery("parse", jid="fetch-0001.parse"), Archive())
    await parse(URL, URL, 200, "text/html", pack(b"<p>x"), False, "2026-11-16T12:00:00Z", context)
    assert context.records == []


async def test_jobs_that_want_to_be_unique_are_fetched_and_told_of_once_and_in_all(
    monkeypatch: pytest.MonkeyPatch, process: ProcessSetup
) -> None:
    monkeypatch.setattr(handler, "FETCHER", ScriptedFetcher(page()))
    with structlog.testing.capture_logs() as lines:
        for custom in ({"unique_for_s": 60}, {"mine": 1}, {"unique_for_s": 60}):
            context = JobContext(make_delivery("fetch", [URL], custom=custom), None)
            await handler.fetch(URL, context)
            assert len(context.children) == 1
        (first,) = lines
        assert "FETCH_POLITE=false" in first["event"]
        await process.resources.close()
    assert lines[1]["jobs"] == 2

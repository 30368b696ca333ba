"""How a page's request ends: what the archives, the broker and the store are given."""

from pathlib import Path

import pytest
import structlog

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.spec import RecordSpec
from manyhands.shared.crawl.states import UrlState
from manyhands.worker.crawl.fetching import verdicts
from manyhands.worker.crawl.fetching.next_url import PageToFetch
from manyhands.worker.crawl.fetching.page_fetch import Fetched
from manyhands.worker.crawl.frontier.schedule import Request
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    PermanentFetchError,
    TemporaryFetchError,
)
from manyhands.worker.pages.extraction import extract
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from tests.unit.worker.crawl.fetching.bench import (
    PAGE,
    RETRY_S,
    ROBOTS,
    SITE,
    TRUNCATE_BYTES,
    Bench,
    bench_of,
)
from tests.unit.worker.crawl.politeness.answers import answer

NOW = 1_800_000_000.0


def html(body: bytes = b"<p>hello", *, is_truncated: bool = False) -> Answer:
    return answer(200, body, content_type="text/html", is_truncated=is_truncated)


def fetched(outcome: Answer | FetchError | None) -> Fetched:
    return Fetched(outcome, sent_at=NOW - 1, ended_at=NOW)


async def carry_out(
    bench: Bench, request: Request, page: PageToFetch, outcome: Answer | FetchError
) -> bool:
    """Whether it is queued again."""
    given = fetched(outcome)
    verdict = bench.page_ends.judge(request.origin, page, given)
    return await bench.page_ends.carry_out(request.shard, page, given, verdict)


async def ended(bench: Bench, outcome: Answer | FetchError) -> bool:
    request = await bench.take()
    return await carry_out(bench, request, bench.page(request), outcome)


async def test_the_archive_has_a_page_before_the_broker(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        assert not await ended(bench, html())

        assert bench.outside.order == ["archive", "broker"]
        [capture], [page] = bench.outside.captures, bench.outside.pages
        assert (capture.body, capture.url, capture.id) == (b"<p>hello", PAGE, page[0])
        assert (await bench.urls())[PAGE].state is UrlState.PARSING


async def test_without_archives_a_page_goes_to_the_broker_alone(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        await ended(bench, html())

        assert bench.outside.order == ["broker"]


async def test_a_page_that_the_archive_cannot_take_now_is_put_back(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        bench.outside.sink_error = SinkDown("stopping")
        assert await ended(bench, html())

        url = (await bench.urls())[PAGE]
        assert (url.state, url.attempts, bench.outside.order) == (UrlState.QUEUED, 0, [])
        assert bench.allowance.left == 1


async def test_a_page_that_the_archive_never_takes_has_failed(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        bench.outside.sink_error = RecordsRefused({0: "too large"})
        assert not await ended(bench, html())

        url = (await bench.urls())[PAGE]
        assert (url.state, url.reason) == (UrlState.FAILED, "too large")
        assert (bench.outside.order, bench.allowance.left) == ([], 1)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (answer(302, location="/other"), UrlState.REDIRECTED),
        (answer(404, content_type="text/html"), UrlState.FAILED),
        (answer(200, content_type="image/png"), UrlState.SKIPPED),
        (answer(503), UrlState.QUEUED),
    ],
    ids=["redirect", "404", "image", "503"],
)
async def test_the_archive_has_every_answer_also_of_what_is_no_page(
    tmp_path: Path, outcome: Answer, state: UrlState
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        outcome.unwanted, outcome.is_left_out = b"as far as it was read", True
        await ended(bench, outcome)

        assert (await bench.urls())[PAGE].state is state
        [capture] = bench.outside.captures
        assert (capture.url, capture.body) == (PAGE, b"as far as it was read")
        assert (capture.is_left_out, capture.is_truncated, capture.crawl) == (True, False, 1)
        # The page may come yet, and has an id of its own.
        assert capture.id.endswith(".1.answer.0")


async def test_an_answer_that_the_archive_cannot_take_now_is_asked_for_again(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        bench.outside.sink_error = SinkDown("stopping")
        assert await ended(bench, answer(404))

        assert (await bench.urls())[PAGE].state is UrlState.QUEUED
        assert bench.allowance.left == 1


async def test_an_error_that_the_archive_never_takes_is_an_error_even_so(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.outside.has_archive = True
        bench.outside.sink_error = RecordsRefused({0: "its head has no status line"})
        with structlog.testing.capture_logs() as lines:
            assert not await ended(bench, answer(404))

        assert (await bench.urls())[PAGE].reason == "http 404"
        assert [line["reason"] for line in lines] == ["its head has no status line"]


async def test_the_archive_has_a_robots_txt_before_it_is_obeyed(tmp_path: Path) -> None:
    robots = answer(200, b"User-agent: *\nDisallow: /private")
    async with bench_of(tmp_path, {ROBOTS: robots}) as bench:
        bench.outside.has_archive = True
        bench.robots_turns.begin(await bench.take())
        await bench.tasks.all_ended()

        [capture] = bench.outside.captures
        assert (capture.url, capture.body, capture.crawl) == (ROBOTS, robots.body, None)


async def test_what_may_not_be_requested_has_a_record_before_it_ends(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.ends.are_on = True
        request = await bench.take()
        url = bench.page(request).url
        refused = verdicts.ended(url, UrlState.DISALLOWED, "robots.txt")
        bench.outside.answers.clear()
        bench.ends.end_unrequested(request.shard, url, refused)
        await bench.outside.asked.wait()
        assert request.shard.in_flight > 0
        assert (await bench.urls())[PAGE].state is UrlState.CLAIMED

        bench.outside.answers.set()
        await bench.tasks.all_ended()
        assert (await bench.urls())[PAGE].state is UrlState.DISALLOWED
        [page] = bench.outside.pages
        assert (page.kind, page.reason, page.status) == ("refused", "robots.txt", 0)
        assert page.visit.endswith(".1.refused")


async def test_a_redirect_has_a_record_with_its_target(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.ends.are_on = True
        assert not await ended(bench, answer(301, location="/other"))

        [page] = bench.outside.pages
        page = page._replace(arrival=Arrival(*page.arrival or ()))
        record = extract(page).record
        assert record is not None
        assert (record.kind, record.status) == ("redirect", 301)
        assert (record.url, record.final_url) == (PAGE, f"{SITE}/other")
        assert record.id.endswith(".1.redirect")
        found = await bench.urls()
        assert found[PAGE].state is UrlState.REDIRECTED
        assert found[f"{SITE}/other"].state is UrlState.QUEUED


async def test_what_is_cut_is_named_and_the_size_is_that_of_the_whole(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        size = TRUNCATE_BYTES + 50
        await ended(bench, html(b"x" * size))

        [page] = bench.outside.pages
        assert page.cuts == (Cut.PARSE_LIMIT,)
        counters = await bench.store.change(0, lambda store: store.counters(1))
        assert (counters["bytes"], counters["pages"]) == (size, 1)


async def test_an_answer_that_was_cut_in_the_fetch_says_so(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        await ended(bench, html(is_truncated=True))

        [page] = bench.outside.pages
        assert page.cuts == (Cut.FETCH_LIMIT,)


async def test_the_parse_stage_is_told_how_a_page_came_if_its_crawl_wants_to_know(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        await ended(bench, html(b"<p>hello"))

        [page] = bench.outside.pages
        assert page.arrival is not None
        assert (page.fields, Arrival(*page.arrival).size) == (("default",), 8)


async def test_for_links_alone_nothing_is_told(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        links_alone = RecordSpec(fields=("links",))
        bench.crawl.spec = bench.crawl.spec.model_copy(update={"records": links_alone})
        await ended(bench, html(b"<p>hello"))

        [page] = bench.outside.pages
        assert (page.fields, page.arrival) == (("links",), None)


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (PermanentFetchError("", reason="forbidden address"), "failed", "forbidden address"),
        (answer(404, content_type="text/html"), "failed", "http 404"),
        (answer(200, content_type="image/png"), "other", "content type image/png"),
    ],
)
async def test_what_came_to_no_page_goes_to_the_parse_stage_for_its_record(
    tmp_path: Path, outcome: Answer | FetchError, kind: str, reason: str
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        bench.ends.are_on = True
        assert not await ended(bench, outcome)

        [page] = bench.outside.pages
        assert (page.kind, page.reason) == (kind, reason)
        assert page.visit.endswith(f".1.{kind}")
        assert (await bench.urls())[PAGE].state in (UrlState.FAILED, UrlState.SKIPPED)


async def test_an_end_is_recorded_only_where_there_are_sinks_and_when_it_is_final(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        assert not await ended(bench, answer(404))
        assert bench.outside.pages == []
    async with bench_of(tmp_path / "other", {}) as bench:
        bench.ends.are_on = True
        assert await ended(bench, answer(500))
        assert bench.outside.pages == []


async def test_a_retry_is_queued_for_later_reckoned_from_the_end_of_the_fetch(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {}) as bench:
        request = await bench.take()
        page = bench.page(request)
        given = fetched(TemporaryFetchError("", reason="time-out: read"))
        verdict = bench.page_ends.judge(request.origin, page, given)

        assert verdict.settled is not None
        assert verdict.settled.not_before == NOW + RETRY_S
        assert await bench.page_ends.carry_out(request.shard, page, given, verdict)
        assert (await bench.urls())[PAGE].reason == "time-out: read"
        assert (bench.allowance.left, bench.outside.pages) == (1, [])


async def test_the_store_forgets_the_trouble_of_a_host_that_is_back(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {}) as bench:
        request = await bench.take()
        page, origin = bench.page(request), request.origin
        unreached = TemporaryFetchError("", reason="connection refused")
        until = bench.page_ends.judge(origin, page, fetched(unreached)).put_off_until
        assert (origin.state.trouble, until is not None) == ("connection refused", True)
        bench.page_ends.notes.keep(origin)
        assert await carry_out(bench, request, page, TemporaryFetchError("", reason="time-out: x"))
        assert b"connection refused" in (await bench.origin()).notes

        bench.page_ends.judge(origin, page, fetched(html()))
        await bench.store.change(0, lambda _: None)
        assert b"connection refused" not in (await bench.origin()).notes

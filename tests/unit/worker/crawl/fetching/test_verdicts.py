"""What an answer means for its URL."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from manyhands.shared.crawl.discovery import DOCUMENTS, Source
from manyhands.shared.crawl.fetch_jobs import FetchJob, back_off_s
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.worker.crawl.fetching.verdicts import (
    MAX_REDIRECTS,
    MOST_ATTEMPTS,
    MOST_REFUSALS,
    Redirect,
    Verdict,
    judge,
    put_off,
    try_again,
    verdict_of,
)
from manyhands.worker.crawl.politeness.delays import FIRST_BLOCK_S, OriginState
from manyhands.worker.net.fetcher import (
    Answer,
    FetchError,
    ForbiddenAddress,
    Phases,
    TemporaryFetchError,
)

URL = ClaimedUrl(5, 1, b"k" * 16, "http://example.org/a/b", 2, 0, 0)
HTML = "text/html; charset=utf-8"
NOW = 1000.0


def answer(status: int, location: str | None = None, content_type: str = HTML) -> Answer:
    return Answer(
        url=URL.url,
        status=status,
        content_type=content_type,
        location=location,
        retry_after=None,
        robots_tag="",
        cache_control="",
        body=b"",
        is_truncated=False,
        wire_bytes=0,
        phases=Phases(),
    )


def settled(given: Settled | Redirect | None) -> Settled:
    assert isinstance(given, Settled)
    return given


@pytest.mark.parametrize("reads", [DOCUMENTS, frozenset[str](), {Source.SITEMAPS}])
def test_a_document_is_parsed_if_the_crawl_reads_its_kind(reads: Collection[str]) -> None:
    for kind, body in ((Source.FEEDS, b"<rss>"), (Source.SITEMAPS, b"<urlset>"), (None, b"<a>")):
        given = judge(URL, replace(answer(200, content_type="text/xml"), body=body), NOW, 30, reads)
        if kind in reads:
            assert given is None
        else:
            assert settled(given).reason == "content type text/xml"


@pytest.mark.parametrize("status", [200, 203, 206])
def test_html_is_a_page_to_parse(status: int) -> None:
    assert judge(URL, answer(status), NOW, 30) is None


@pytest.mark.parametrize("content_type", ["image/png", "application/zip", "text/css;x"])
def test_what_is_not_html_is_skipped(content_type: str) -> None:
    ended = settled(judge(URL, answer(200, content_type=content_type), NOW, 30))

    assert ended.state is UrlState.SKIPPED
    assert ended.status == 200
    assert ended.reason.startswith("content type ")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_4xx_is_final(status: int) -> None:
    ended = settled(judge(URL, answer(status), NOW, 30))

    assert (ended.state, ended.status) == (UrlState.FAILED, status)


@pytest.mark.parametrize("status", [408, 425, 500, 502, 504])
def test_what_may_pass_is_tried_again_later_and_later(status: int) -> None:
    first = settled(judge(URL, answer(status), NOW, 30))
    second = settled(judge(URL._replace(attempts=1), answer(status), NOW, 30))

    assert first.state is second.state is UrlState.QUEUED
    assert (first.not_before, second.not_before) == (NOW + 30, NOW + 120)
    assert (first.attempts, second.attempts) == (1, 2)


def test_the_last_attempt_is_the_last() -> None:
    ended = try_again(URL._replace(attempts=MOST_ATTEMPTS - 1), "time-out: connect", NOW, 30)

    assert (ended.state, ended.reason) == (UrlState.FAILED, "time-out: connect")


def test_to_be_put_off_spends_no_attempt() -> None:
    again = put_off(URL._replace(attempts=1), "http 429")

    assert (again.state, again.attempts, again.not_before) == (UrlState.QUEUED, 1, 0.0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/c", "http://example.org/c"),
        ("c", "http://example.org/a/c"),
        ("https://Other.example/#x", "https://other.example/"),
        ("//other.example", "http://other.example/"),
    ],
)
def test_a_redirect_leads_to_a_url_of_its_own(status: int, location: str, target: str) -> None:
    given = judge(URL, answer(status, location), NOW, 30)

    assert isinstance(given, Redirect)
    assert given.target.text == target


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (None, "redirect without a target"),
        ("javascript:alert(1)", "redirect to no URL"),
        ("http://user:secret@example.org/", "redirect to no URL"),
        ("/a/b", "redirect to itself"),
        ("/a/b#top", "redirect to itself"),
    ],
)
def test_a_redirect_that_leads_nowhere_has_failed(location: str | None, reason: str) -> None:
    ended = settled(judge(URL, answer(302, location), NOW, 30))

    assert (ended.state, ended.reason) == (UrlState.FAILED, reason)


def test_endless_redirects_end() -> None:
    ended = settled(judge(URL._replace(redirects=MAX_REDIRECTS), answer(302, "/c"), NOW, 30))

    assert ended.reason == "too many redirects"


def test_a_304_that_nobody_asked_for_is_no_redirect() -> None:
    assert not isinstance(judge(URL, answer(304, "/c"), NOW, 30), Redirect)


# With the state of its origin


def verdict(
    outcome: Answer | FetchError | None, state: OriginState, attempts: int = 0, now: float = NOW
) -> Verdict:
    return verdict_of(
        URL._replace(attempts=attempts),
        outcome,
        state,
        sent_at=now - 1,
        now=now,
        retry_s=30,
        patience_s=3600,
        jitter=0.0,
    )


def test_a_page_is_handed_on_and_ends_the_trouble_of_its_host() -> None:
    state = OriginState(trouble="http 503", trouble_since=NOW - 50, refusals=2)

    assert verdict(answer(200), state) == Verdict(None, is_no_page=False)
    assert (state.trouble, state.refusals) == ("", 0)


def test_a_url_whose_lease_ran_out_is_put_back_and_its_host_is_not_blamed() -> None:
    state = OriginState()
    given = verdict(None, state, attempts=1)

    assert (settled(given.settled).state, settled(given.settled).attempts) == (UrlState.QUEUED, 1)
    assert (given.is_no_page, given.put_off_until, state) == (True, None, OriginState())


def test_an_address_that_may_not_be_asked_fails_the_url_at_once() -> None:
    given = verdict(ForbiddenAddress("10.0.0.1 is private"), OriginState())

    ended = settled(given.settled)
    assert (ended.state, ended.reason) == (UrlState.FAILED, "forbidden address")
    assert (given.is_no_page, given.put_off_until) == (True, None)


def test_a_fetch_that_broke_off_spends_an_attempt_of_the_url_and_spares_its_host() -> None:
    state = OriginState()
    given = verdict(TemporaryFetchError("", reason="time-out: read"), state)

    again = settled(given.settled)
    assert (again.state, again.attempts, again.not_before) == (UrlState.QUEUED, 1, NOW + 30)
    assert (given.is_no_page, given.put_off_until, state) == (True, None, OriginState())


def test_a_host_that_cannot_be_reached_is_put_off_and_the_url_spends_no_attempt() -> None:
    state = OriginState()
    failure = TemporaryFetchError("", reason="connection refused")
    first = verdict(failure, state)
    second = verdict(failure, state, now=NOW + 30)

    assert (settled(first.settled).attempts, settled(first.settled).not_before) == (0, 0.0)
    assert settled(first.settled).reason == state.trouble == "connection refused"
    assert (first.put_off_until, second.put_off_until) == (NOW + 30, NOW + 30 + 120)
    assert first.is_no_page


@pytest.mark.parametrize("status", [429, 503])
def test_a_host_that_sends_us_away_is_put_off_with_the_url(status: int) -> None:
    state = OriginState()
    given = verdict(answer(status), state)

    again = settled(given.settled)
    assert given.put_off_until == again.not_before == NOW + FIRST_BLOCK_S
    assert (again.state, again.attempts, given.is_no_page) == (UrlState.QUEUED, 1, True)
    assert state.trouble == f"http {status}"


def test_a_url_that_is_sent_away_for_the_last_time_is_a_page_that_failed() -> None:
    given = verdict(answer(503), OriginState(), attempts=MOST_REFUSALS - 1)

    assert settled(given.settled).state is UrlState.FAILED
    assert (given.is_no_page, given.put_off_until) == (False, NOW + FIRST_BLOCK_S)


@pytest.mark.parametrize(
    ("status", "attempts", "is_no_page"),
    [(404, 0, False), (500, 0, True), (500, MOST_ATTEMPTS - 1, False)],
)
def test_only_what_is_tried_again_leaves_its_page_to_another(
    status: int, attempts: int, is_no_page: bool
) -> None:
    given = verdict(answer(status), OriginState(), attempts)

    assert (given.is_no_page, given.put_off_until) == (is_no_page, None)


def test_a_redirect_is_no_page() -> None:
    given = verdict(answer(301, "/c"), OriginState())

    assert given.redirect is not None
    assert given.redirect.target.text == "http://example.org/c"
    assert (given.settled, given.is_no_page) == (None, True)


# Fetch jobs

JOB = FetchJob("the job", URL.url, 0, 0, retry=2, reserve_for=300, created_at="", custom={})


def of_job(outcome: Answer | FetchError, attempts: int = 0, redirects: int = 0) -> Verdict:
    claimed = URL._replace(job=JOB.to_text(), attempts=attempts, redirects=redirects)
    return verdict_of(
        claimed,
        outcome,
        OriginState(),
        sent_at=NOW,
        now=NOW,
        retry_s=1,
        patience_s=3600,
        jitter=0.0,
        most_redirects=2,
    )


@pytest.mark.parametrize("status", [200, 204, 304, 403, 404, 410])
def test_any_answer_that_is_final_is_the_page_of_a_job(status: int) -> None:
    verdict = of_job(answer(status, content_type="application/zip"))
    assert verdict.settled is None
    assert verdict.redirect is None


@pytest.mark.parametrize("status", [408, 425, 500, 502])
def test_a_job_is_tried_again_as_often_as_its_retry_says(status: int) -> None:
    first, last = (of_job(answer(status), attempts=attempts).settled for attempts in (0, 2))
    assert first is not None and last is not None
    assert (first.state, first.not_before) == (UrlState.QUEUED, NOW + back_off_s(1, 0.0))
    assert (last.state, last.reason) == (UrlState.FAILED, f"http {status}")


def test_a_server_that_says_when_is_asked_then() -> None:
    settled = of_job(replace(answer(500), retry_after="77")).settled
    assert settled is not None
    assert settled.not_before == NOW + 77


def test_a_block_spends_a_retry_of_a_job() -> None:
    first, last = (of_job(answer(429), attempts=attempts) for attempts in (0, 2))
    assert first.settled is not None and last.settled is not None
    assert (first.settled.state, first.put_off_until) == (UrlState.QUEUED, first.settled.not_before)
    assert last.settled.state is UrlState.FAILED


def test_a_job_follows_as_many_redirects_as_the_settings_allow() -> None:
    assert of_job(answer(302, "/there"), redirects=1).redirect is not None
    settled = of_job(answer(302, "/there"), redirects=2).settled
    assert settled is not None
    assert settled.reason == "too many redirects"
    # Without a target it is a page.
    page = of_job(answer(302, None))
    assert page.settled is None and page.redirect is None

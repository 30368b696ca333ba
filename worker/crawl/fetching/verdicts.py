"""What an answer, or the lack of one, means for its URL and its host. Pure."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import NamedTuple

from manyhands.shared.crawl.discovery import NO_SOURCES
from manyhands.shared.crawl.fetch_jobs import FetchJob, back_off_s
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Settled
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Url, parse_url, resolve_reference
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.reachability import is_of_host
from manyhands.worker.net.fetcher import (
    REDIRECTS,
    TEMPORARY_STATUSES,
    Answer,
    FetchError,
    PermanentFetchError,
    parse_retry_after,
)
from manyhands.worker.pages.documents import kind_of
from manyhands.worker.pages.html import is_html

MAX_REDIRECTS = 5
MOST_ATTEMPTS = 3
# Attempts for a URL answered with 429 or 503, which is mostly not about the URL.
MOST_REFUSALS = 5
# Each further attempt waits this many times longer.
BACKOFF = 4
MAX_REASON_LENGTH = 80


class Tries(NamedTuple):
    """How often a URL is tried, how often if it is answered with 429 or 503, and the wait after so
    many attempts."""

    most: int
    most_refusals: int
    wait_s: Callable[[int], float]


class Redirect(NamedTuple):
    """Its target is admitted as a separate URL."""

    target: Url


class Verdict(NamedTuple):
    """What becomes of a URL: `settled`, or a `redirect`; neither: a page to parse. Its host is left
    alone until `put_off_until`, if given. `is_no_page`: a crawl with a limit may fetch another in
    its place."""

    settled: Settled | None
    is_no_page: bool
    redirect: Redirect | None = None
    put_off_until: float | None = None


def verdict_of(
    claimed: ClaimedUrl,
    outcome: Answer | FetchError | None,
    state: OriginState,
    *,
    sent_at: float,
    now: float,
    retry_s: float,
    patience_s: float,
    jitter: float,
    most_redirects: int = MAX_REDIRECTS,
    reads: Collection[str] = NO_SOURCES,
) -> Verdict:
    """`state` is the origin's and is updated. `most_redirects` is for fetch jobs, `reads` are the
    sources of URLs that the crawl reads besides pages. An outcome of None means that the lease ran
    out before the answer was here: the URL is tried again if the lease is only late, and the store
    raises LeaseLost if it is lost."""
    if outcome is None:
        return Verdict(put_off(claimed), is_no_page=True)
    tries = _tries_of(claimed, retry_s, jitter)
    if isinstance(outcome, PermanentFetchError):
        return Verdict(ended(claimed, UrlState.FAILED, outcome.reason), is_no_page=True)
    if isinstance(outcome, FetchError):
        if not is_of_host(outcome.reason):
            return Verdict(_again(claimed, outcome.reason, now, tries), is_no_page=True)
        # The URL waits for as long as its crawl has patience.
        state.not_reached(
            outcome.reason, now, retry_s=retry_s, patience_s=patience_s, jitter=jitter
        )
        settled = put_off(claimed, outcome.reason)
        return Verdict(settled, is_no_page=True, put_off_until=state.blocked_until)
    if state.answered(outcome.status, outcome.retry_after, sent_at, now, jitter):
        until = state.blocked_until
        settled = sent_away(claimed, outcome.status, until, tries.most_refusals)
        is_no_page = settled.state is UrlState.QUEUED
        return Verdict(settled, is_no_page=is_no_page, put_off_until=until)
    if claimed.job:
        ending = judge_job(claimed, outcome, now, tries, most_redirects)
    else:
        ending = judge(claimed, outcome, now, retry_s, reads)
    if isinstance(ending, Redirect):
        return Verdict(None, is_no_page=True, redirect=ending)
    is_no_page = ending is not None and ending.state is UrlState.QUEUED
    return Verdict(ending, is_no_page=is_no_page)


def judge(
    claimed: ClaimedUrl,
    answer: Answer,
    now: float,
    retry_s: float,
    reads: Collection[str] = NO_SOURCES,
) -> Settled | Redirect | None:
    """None: a page to parse, or a document that is read. Answers that block the whole host (429,
    503) do not get here."""
    status = answer.status
    if status in REDIRECTS:
        return _redirected(claimed, answer)
    if status >= 500 or status in TEMPORARY_STATUSES:
        return try_again(claimed, f"http {status}", now, retry_s, status)
    if status >= 400:
        return ended(claimed, UrlState.FAILED, f"http {status}", status)
    if not is_html(answer.content_type) and kind_of(answer.body) not in reads:
        kind = answer.content_type.partition(";")[0].strip().lower() or "none"
        return ended(claimed, UrlState.SKIPPED, f"content type {kind}", status)
    return None


def judge_job(
    claimed: ClaimedUrl, answer: Answer, now: float, tries: Tries, most_redirects: int
) -> Settled | Redirect | None:
    """Of a fetch job any answer is a page that does not ask for another attempt, whatever its
    status and content type."""
    status = answer.status
    if status in REDIRECTS and answer.location is not None:
        return _redirected(claimed, answer, most_redirects)
    if status >= 500 or status in TEMPORARY_STATUSES:
        after_s = parse_retry_after(answer.retry_after, datetime.fromtimestamp(now, UTC))
        return _again(claimed, f"http {status}", now, tries, status, after_s)
    return None


def try_again(
    claimed: ClaimedUrl, reason: str, now: float, retry_s: float, status: int = 0
) -> Settled:
    """Queue it again for later; fail it after the last attempt."""
    return _again(claimed, reason, now, _tries_in_a_crawl(retry_s), status)


def _again(
    claimed: ClaimedUrl,
    reason: str,
    now: float,
    tries: Tries,
    status: int = 0,
    after_s: float | None = None,
) -> Settled:
    """`after_s` is what the server asked for."""
    attempts = claimed.attempts + 1
    if attempts >= tries.most:
        return Settled(claimed.id, UrlState.FAILED, status, _short(reason), attempts=attempts)
    not_before = now + (tries.wait_s(attempts) if after_s is None else after_s)
    return Settled(
        claimed.id,
        UrlState.QUEUED,
        status,
        _short(reason),
        attempts=attempts,
        not_before=not_before,
    )


def put_off(claimed: ClaimedUrl, reason: str = "") -> Settled:
    return claimed.put_back(_short(reason))


def sent_away(claimed: ClaimedUrl, status: int, until: float, most: int = MOST_REFUSALS) -> Settled:
    """The host asks to be left alone until then. Its other waiting URLs go first."""
    attempts = claimed.attempts + 1
    if attempts >= most:
        return Settled(claimed.id, UrlState.FAILED, status, f"http {status}", attempts=attempts)
    reason = f"http {status}: host put off"
    return Settled(claimed.id, UrlState.QUEUED, status, reason, 0, attempts, until)


def ended(claimed: ClaimedUrl, state: UrlState, reason: str, status: int = 0) -> Settled:
    return Settled(claimed.id, state, status, _short(reason), attempts=claimed.attempts)


def _tries_of(claimed: ClaimedUrl, retry_s: float, draw: float) -> Tries:
    if not claimed.job:
        return _tries_in_a_crawl(retry_s)
    most = FetchJob.of_text(claimed.job).most_attempts
    return Tries(most, most, lambda attempts: back_off_s(attempts, draw))


def _tries_in_a_crawl(retry_s: float) -> Tries:
    return Tries(MOST_ATTEMPTS, MOST_REFUSALS, lambda attempts: retry_s * BACKOFF ** (attempts - 1))


def _redirected(
    claimed: ClaimedUrl, answer: Answer, most_redirects: int = MAX_REDIRECTS
) -> Settled | Redirect:
    if answer.location is None:
        return ended(claimed, UrlState.FAILED, "redirect without a target", answer.status)
    if claimed.redirects >= most_redirects:
        return ended(claimed, UrlState.FAILED, "too many redirects", answer.status)
    try:
        target = resolve_reference(parse_url(claimed.url), answer.location)
    except InvalidUrl:
        return ended(claimed, UrlState.FAILED, "redirect to no URL", answer.status)
    if target.text == claimed.url:
        return ended(claimed, UrlState.FAILED, "redirect to itself", answer.status)
    return Redirect(target)


def _short(reason: str) -> str:
    return reason[:MAX_REASON_LENGTH]

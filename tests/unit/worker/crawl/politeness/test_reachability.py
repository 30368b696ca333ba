"""Hosts that cannot be reached or send us away: when they are tried again, and when they are given
up."""

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.patience import Trouble, has_limit, patience_s, trouble_of
from manyhands.shared.crawl.spec import CrawlSpec, LimitSpec, PolitenessSpec, ScopeSpec
from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.reachability import (
    MOST_REFUSALS,
    NO_SUCH_HOST,
    is_of_host,
    next_try_at,
)
from manyhands.worker.net import dns
from manyhands.worker.net.reasons import of_os_error, time_out

NOW = 1_800_000_000.0
MINUTES = 300.0
HOURS = 21_600.0
CONTACT = "me@example.org"


def refused(patience: float, most: int = 50) -> Iterator[float]:
    """When a host that refuses every connection is tried, until a crawl gives it up."""
    state, now = OriginState(), NOW
    for _ in range(most):
        yield now - NOW
        state.not_reached("connection refused", now, retry_s=30, patience_s=patience, jitter=0.0)
        if state.gives_up(state.blocked_until, patience):
            return
        now = state.blocked_until
    raise AssertionError("it is never given up")


def test_a_dead_host_is_tried_for_minutes_by_a_crawl_with_a_limit_and_for_hours_by_one_without():
    assert list(refused(MINUTES)) == [0, 30, 150, 300]
    tries = list(refused(HOURS))
    assert tries[-1] == HOURS
    assert len(tries) <= 12


def test_without_patience_there_is_one_try():
    assert list(refused(0.0)) == [0]


@given(st.floats(0, 30 * 86_400), st.integers(1, 50), st.floats(0, 10**6), st.floats(0, 1))
def test_a_next_try_is_always_later(patience, failures, passed, jitter):
    now = NOW + passed
    at = next_try_at(failures, NOW, now, retry_s=30, patience_s=patience, jitter=jitter)
    assert now + 1 < at <= now + 3600 * 1.1


def test_any_answer_of_the_host_ends_its_trouble():
    state = OriginState()
    state.not_reached("connection refused", NOW, retry_s=30, patience_s=MINUTES, jitter=0.0)
    assert not state.answered(404, None, NOW + 30, NOW + 30, 0.0)
    assert (state.trouble, state.trouble_since, state.unreached) == ("", 0.0, 0)
    state.not_reached("connection refused", NOW + 400, retry_s=30, patience_s=MINUTES, jitter=0.0)
    assert state.trouble_since == NOW + 400
    assert state.blocked_until == NOW + 430


def test_a_robots_txt_that_cannot_be_had_is_such_a_trouble_and_says_so():
    state = OriginState()
    retry_at = state.robots_failed(NOW, retry_s=30, patience_s=MINUTES, jitter=0.0)
    state.robots_missing("connection refused")
    assert state.trouble == "robots.txt: connection refused"
    assert not state.gives_up(retry_at, MINUTES)
    retry_at = state.robots_failed(NOW + 300, retry_s=30, patience_s=MINUTES, jitter=0.0)
    assert state.gives_up(retry_at, MINUTES)
    assert not state.gives_up(retry_at, HOURS)
    state.robots_known()
    assert state == OriginState()


def test_a_host_that_does_not_exist_is_given_up_at_once():
    assert NO_SUCH_HOST == dns.NO_SUCH_HOST
    state = OriginState()
    retry_at = state.robots_failed(NOW, retry_s=30, patience_s=HOURS, jitter=0.0)
    state.robots_missing(NO_SUCH_HOST)
    assert state.gives_up(retry_at, HOURS)


def sent_away(retry_after: str | None, patience: float) -> tuple[int, float]:
    """How often a host is asked that always answers 503, and for how many seconds."""
    state, now, asked = OriginState(), NOW, 0
    while asked < 1000:
        asked += 1
        assert state.answered(503, retry_after, now, now, 0.0)
        if state.gives_up(state.blocked_until, patience):
            return asked, now - NOW
        now = state.blocked_until
    raise AssertionError("it is never given up")


@pytest.mark.parametrize("retry_after", [None, "1", "3", "60", "soon", "86400"])
@pytest.mark.parametrize("patience", [MINUTES, HOURS])
def test_a_host_that_always_sends_us_away_is_given_up(retry_after, patience):
    asked, seconds = sent_away(retry_after, patience)
    assert asked <= MOST_REFUSALS
    assert seconds <= patience


def test_a_host_that_wants_more_time_than_there_is_is_given_up_at_once():
    assert sent_away("3600", MINUTES) == (1, 0.0)


def test_answers_that_were_on_their_way_are_one_refusal():
    state = OriginState()
    for _ in range(32):
        state.answered(429, "5", NOW, NOW + 1, 0.0)
    assert state.refusals == 1
    assert not state.gives_up(state.blocked_until, MINUTES)


def test_a_url_that_is_always_answered_with_503_fails_by_its_own_budget():
    url = ClaimedUrl(5, 1, b"k" * 16, "http://example.org/", 2, 0, 0)
    states = []
    for attempts in range(5):
        settled = endings.sent_away(url._replace(attempts=attempts), 503, NOW)
        states.append(settled.state.name)
        assert settled.attempts == attempts + 1
    assert states == ["QUEUED"] * 4 + ["FAILED"]
    assert (settled.status, settled.reason) == (503, "http 503")


@pytest.mark.parametrize(
    "error",
    [
        of_os_error(OSError(errno.ECONNREFUSED, "")),
        of_os_error(OSError(errno.EHOSTUNREACH, "")),
        of_os_error(OSError(errno.ETIMEDOUT, "")),
        time_out("connect", 10),
    ],
)
def test_without_a_connection_it_is_the_hosts_fault(error):
    assert is_of_host(error.reason)


@pytest.mark.parametrize(
    "error",
    [
        of_os_error(OSError(errno.ECONNRESET, "")),
        of_os_error(OSError(errno.EMFILE, "")),
        time_out("whole document", 30),
    ],
)
def test_with_a_connection_or_for_want_of_our_own_it_is_not(error):
    assert not is_of_host(error.reason)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, False),
        ({"scope": ScopeSpec(max_depth=20, within="domains")}, False),
        ({"limits": LimitSpec(pages=10)}, True),
        ({"limits": LimitSpec(duration_s=10)}, True),
        ({"scope": ScopeSpec(max_depth=1)}, True),
        ({"scope": ScopeSpec(within="seeds")}, True),
    ],
)
def test_a_crawl_has_a_limit_if_it_asks_for_a_part_of_the_web(spec, expected):
    found = CrawlSpec(contact=CONTACT, **spec)
    assert has_limit(found) is expected
    seconds = patience_s(found, limited_s=MINUTES, unlimited_s=HOURS)
    assert seconds == (MINUTES if expected else HOURS)


def test_what_the_crawl_says_itself_counts_first():
    spec = CrawlSpec(contact=CONTACT, politeness=PolitenessSpec(patience_s=7))
    assert patience_s(spec, limited_s=MINUTES, unlimited_s=HOURS) == 7


def test_others_can_read_the_trouble_in_the_notes():
    state = OriginState()
    assert trouble_of(state.to_bytes()) is None
    state.not_reached("connection refused", NOW, retry_s=30, patience_s=MINUTES, jitter=0.0)
    assert trouble_of(state.to_bytes()) == Trouble("connection refused", NOW)
    state.answered(200, None, NOW, NOW, 0.0)
    assert trouble_of(state.to_bytes()) is None


@given(st.binary())
def test_notes_that_cannot_be_read_are_no_trouble(notes):
    assert trouble_of(notes) is None

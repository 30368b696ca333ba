"""The delay of a domain, what is remembered of an origin, and waiting for a robots.txt. What 429
and 503 do is in test_too_many_requests.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.crawl.politeness.delays import OriginState, delay_of

NOW = 1_800_000_000.0
DAY = 86_400.0


def delay(
    wanted_s: float = 1.0,
    rule_s: float | None = None,
    crawl_delay_s: float | None = None,
    cap_s: float = 30.0,
    over_cap: str = "clamp",
) -> float | None:
    return delay_of(
        wanted_s=wanted_s,
        rule_s=rule_s,
        crawl_delay_s=crawl_delay_s,
        cap_s=cap_s,
        over_cap=over_cap,
    )


# CRAWLING.md 5.1, row "Crawl-delay": max(own, theirs), honoured up to the cap, then clamp or skip.


@pytest.mark.parametrize(
    ("own_s", "theirs_s", "expected"), [(1, None, 1), (1, 5, 5), (5, 1, 5), (0, 0, 0), (1, 30, 30)]
)
def test_crawl_delay_is_honoured_if_it_is_longer_than_ours(own_s, theirs_s, expected):
    assert delay(wanted_s=own_s, crawl_delay_s=theirs_s) == expected
    assert delay(wanted_s=own_s, crawl_delay_s=theirs_s, over_cap="skip") == expected


def test_crawl_delay_over_the_cap_is_clamped():
    assert delay(crawl_delay_s=300) == 30


def test_crawl_delay_over_the_cap_skips_the_host():
    assert delay(crawl_delay_s=300, over_cap="skip") is None


@pytest.mark.parametrize("over_cap", ["clamp", "skip"])
def test_crawl_delay_over_the_cap_is_no_matter_if_we_are_as_slow(over_cap):
    assert delay(wanted_s=300, crawl_delay_s=300, over_cap=over_cap) == 300


@pytest.mark.parametrize(
    ("rule_s", "theirs_s", "expected"),
    [(0.1, None, 0.1), (20, None, 20), (0.1, 5, 5), (20, 5, 20), (0.0, 300, 30), (100, 300, 100)],
)
def test_the_operators_rule_wins_but_not_over_the_crawl_delay(rule_s, theirs_s, expected):
    assert delay(wanted_s=1.0, rule_s=rule_s, crawl_delay_s=theirs_s) == expected


@given(st.floats(0, 3600), st.none() | st.floats(0, 3600), st.floats(0, 10**6), st.floats(0, 3600))
def test_a_delay_is_never_shorter_than_the_crawl_delay_within_the_cap(own, rule, theirs, cap):
    found = delay(own, rule, theirs, cap)
    assert found is not None
    assert found >= min(theirs, cap)
    assert found >= (own if rule is None else rule)


# What is remembered


def test_an_origin_that_was_no_trouble_takes_no_space():
    assert OriginState().to_bytes() == b""
    assert OriginState.from_bytes(b"") == OriginState()


def test_a_state_comes_back_as_it_was():
    state = OriginState()
    state.answered(429, None, NOW, NOW, 0.5)
    failed(state, NOW, 0.3)
    state.not_reached("time-out: dns", NOW, retry_s=30, patience_s=DAY, jitter=0.1)
    assert OriginState.from_bytes(state.to_bytes()) == state


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"blocked_until": "soon"}',
        b'{"incidents": -1}',
        b'{"incidents": 1.5}',
        b'{"blocked_until": 1e999}',
    ],
)
def test_a_damaged_state_is_a_fresh_one(data):
    assert OriginState.from_bytes(data) == OriginState()


@given(st.binary())
def test_any_bytes_are_a_state(data):
    assert isinstance(OriginState.from_bytes(data), OriginState)


def test_a_state_of_another_version_keeps_what_is_known_of_it():
    state = OriginState.from_bytes(b'{"blocked_until": 5.0, "new_thing": [1]}')
    assert state == OriginState(blocked_until=5.0)


# Waiting for a robots.txt


def failed(state: OriginState, now: float, jitter: float = 0.0) -> float:
    return state.robots_failed(now, retry_s=30, patience_s=30 * DAY, jitter=jitter)


def test_robots_that_cannot_be_had_are_waited_for_longer_each_time():
    state = OriginState()
    now = NOW
    waits = []
    for _ in range(6):
        until = failed(state, now)
        waits.append(until - now)
        now = until
    assert waits == [30, 120, 480, 1920, 3600, 3600]
    assert (state.robots_failures, state.robots_failing_since) == (6, NOW)


def test_waiting_for_robots_is_jittered_by_a_tenth_at_most():
    assert failed(OriginState(), NOW, 1.0) - NOW == pytest.approx(33)


def test_robots_that_are_known_end_it():
    state = OriginState()
    failed(state, NOW)
    state.robots_known()
    assert state == OriginState()


def test_a_pause_of_days_between_two_failures_counts_anew():
    state = OriginState()
    first = failed(state, NOW)
    later = first + DAY + 1
    assert failed(state, later) == later + 30
    assert state.robots_failing_since == later


def test_robots_that_fail_do_not_block_the_origin_by_themselves():
    """A stale copy may be in use; whoever has none waits by `RobotsRules.expires_at`."""
    state = OriginState()
    failed(state, NOW)
    assert state.blocked_until == 0.0

"""429 and 503, row by row of CRAWLING.md 5.2."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.crawl.politeness.delays import (
    FIRST_BLOCK_S,
    LONGEST_BLOCK_S,
    QUIET_S,
    OriginState,
)

NOW = 1_800_000_000.0
MINUTE = 60.0
DAY = 86_400.0


def refuse(
    state: OriginState,
    now: float,
    retry_after: str | None = None,
    *,
    sent_at: float | None = None,
    status: int = 429,
    jitter: float = 0.0,
) -> float:
    """How long the origin is blocked from now on."""
    sent_at = now if sent_at is None else sent_at
    assert state.answered(status, retry_after, sent_at, now, jitter)
    return state.blocked_until - now


# Row "signal belongs to the host queue, not the URL".


def test_signal_blocks_the_origin_and_the_caller_learns_it():
    state = OriginState()
    assert state.answered(429, "120", NOW - 1, NOW, 0.0)
    assert state.blocked_until == NOW + 120


def test_signal_survives_a_restart():
    state = OriginState()
    refuse(state, NOW)
    refuse(state, NOW + 60)
    again = OriginState.from_bytes(state.to_bytes())
    assert again == state
    assert refuse(again, again.blocked_until) == 240


# Row "Retry-After: delta-seconds or HTTP-date; cap 24 h; zero or malformed is absent".


def test_retry_after_in_seconds():
    assert refuse(OriginState(), NOW, "7") == 7


def test_retry_after_as_a_date():
    assert refuse(OriginState(), NOW, formatdate(NOW + 300, usegmt=True)) == 300


@pytest.mark.parametrize(
    "value", ["86401", "999999999999999999999999", formatdate(NOW + 9 * DAY, usegmt=True)]
)
@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_retry_after_is_capped_at_24_hours(value, jitter):
    assert refuse(OriginState(), NOW, value, jitter=jitter) == DAY


@pytest.mark.parametrize(
    "value", ["0", "-5", "1.5", "soon", "", "1 minute", formatdate(NOW - 9, usegmt=True)]
)
def test_retry_after_of_zero_past_or_malformed_is_absent(value):
    state = OriginState()
    assert refuse(state, NOW, value) == FIRST_BLOCK_S
    assert refuse(state, state.blocked_until, value) == 2 * FIRST_BLOCK_S


def test_retry_after_is_no_reason_to_escalate_as_long_as_it_is_true():
    """The server says itself when to come back, however often."""
    state = OriginState()
    now = NOW
    for _ in range(20):
        assert refuse(state, now, "5") == 5
        assert not state.answered(200, None, now + 6, now + 6, 0.0)
        now += 7
    assert refuse(state, now) == FIRST_BLOCK_S


def test_a_server_that_sends_us_away_whenever_it_said_to_come_back_is_left_alone_for_longer():
    state = OriginState()
    blocks = [refuse(state, max(NOW, state.blocked_until), "5") for _ in range(7)]
    assert blocks == [5, 5, 5, 8, 16, 32, 64]


def test_retry_after_never_shortens_a_block():
    state = OriginState()
    refuse(state, NOW, "3600")
    refuse(state, NOW + 1, "5", sent_at=NOW - 1)
    assert state.blocked_until == NOW + 3600


# Row "no header: 60 s, ×2 per new incident, cap 1 day, forgive after 30 quiet min, jitter 10 %".


def test_no_header_doubles_with_every_new_incident_up_to_a_day():
    state = OriginState()
    now = NOW
    blocks = []
    for _ in range(15):
        blocks.append(refuse(state, now))
        now = state.blocked_until
    assert blocks[:11] == [60.0 * 2**n for n in range(11)]
    assert blocks[11:] == [LONGEST_BLOCK_S] * 4 == [DAY] * 4


def test_no_header_is_forgiven_after_30_quiet_minutes():
    state = OriginState()
    refuse(state, NOW)
    refuse(state, state.blocked_until)
    assert refuse(state, state.blocked_until + QUIET_S) == FIRST_BLOCK_S


def test_no_header_is_not_forgiven_before_even_if_all_went_well():
    """Quiet is counted from the end of the block: while it lasts nobody asks."""
    state = OriginState()
    refuse(state, NOW)
    ended = state.blocked_until
    for second in range(1, 1799, 100):
        assert not state.answered(200, None, ended + second, ended + second, 0.0)
    assert refuse(state, ended + QUIET_S - 1) == 2 * FIRST_BLOCK_S


def test_no_header_is_jittered_by_a_tenth_at_most():
    assert refuse(OriginState(), NOW, jitter=1.0) == pytest.approx(66)
    assert refuse(OriginState(), NOW, jitter=0.5) == pytest.approx(63)
    assert refuse(OriginState(), NOW, "100", jitter=1.0) == pytest.approx(110)


# Row "failures of requests in flight inside one block window escalate at most once".


def test_in_flight_failures_of_one_window_are_one_incident():
    state = OriginState()
    refuse(state, NOW + 1, sent_at=NOW)
    for late in range(2, 50):
        refuse(state, NOW + late, sent_at=NOW + 0.5)
    assert state.incidents == 1
    assert state.blocked_until == NOW + 1 + 60
    assert refuse(state, NOW + 100) == 120


def test_in_flight_failure_that_arrives_after_the_block_blocks_again_but_no_longer():
    state = OriginState()
    refuse(state, NOW, sent_at=NOW - 1)
    assert refuse(state, NOW + 90, sent_at=NOW - 1) == 60
    assert state.incidents == 1


def test_in_flight_failure_with_a_header_may_still_prolong_the_block():
    state = OriginState()
    refuse(state, NOW, sent_at=NOW - 1)
    refuse(state, NOW + 1, "600", sent_at=NOW - 1)
    assert state.blocked_until == NOW + 601
    assert state.incidents == 1


def test_in_flight_failure_of_a_window_that_a_header_made_is_none_of_ours_to_escalate():
    state = OriginState()
    refuse(state, NOW, "600", sent_at=NOW - 1)
    refuse(state, NOW + 1, sent_at=NOW - 1)
    assert (state.incidents, state.blocked_until) == (0, NOW + 600)
    assert refuse(state, NOW + 700, sent_at=NOW - 1) == 60


@given(
    st.lists(
        st.tuples(
            st.sampled_from([429, 503, 200, 500]),
            st.sampled_from([None, "0", "30", "junk", "99999999"]),
            st.floats(0, 3000),
            st.floats(0, 100),
            st.floats(0, 1),
        ),
        max_size=30,
    )
)
def test_a_block_is_never_shortened_and_ends_within_a_day(events):
    state = OriginState()
    now = NOW
    for status, retry_after, passed_s, took_s, jitter in events:
        now += passed_s
        before = state.blocked_until
        is_refused = state.answered(status, retry_after, now - took_s, now, jitter)
        assert is_refused is (status in (429, 503))
        assert before <= state.blocked_until <= max(before, now + DAY)
        assert state.blocked_until > now or not is_refused
        assert OriginState.from_bytes(state.to_bytes()) == state


# Row "codes 429 and 503; not 403; connection errors are no signal".


@pytest.mark.parametrize("status", [429, 503])
def test_codes_429_and_503_are_the_signal(status):
    assert refuse(OriginState(), NOW, status=status) == 60


@pytest.mark.parametrize("status", [200, 301, 403, 404, 408, 425, 500, 502, 504])
def test_codes_other_than_these_are_none_even_with_a_header(status):
    state = OriginState()
    assert not state.answered(status, "60", NOW, NOW, 0.0)
    assert state == OriginState()

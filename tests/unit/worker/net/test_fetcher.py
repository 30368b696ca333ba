"""Which answers are temporary, and when to come back."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.net.fetcher import (
    LONGEST_RETRY_AFTER_S,
    TemporaryFetchError,
    parse_retry_after,
    raise_if_temporary,
)

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_a_status_that_may_change_is_temporary(status):
    with pytest.raises(TemporaryFetchError, match=str(status)) as raised:
        raise_if_temporary(status, "120", NOW)
    assert raised.value.retry_after_s == 120


@pytest.mark.parametrize("status", [200, 204, 300, 304, 400, 401, 403, 404, 410, 451])
def test_any_other_status_is_an_answer(status):
    raise_if_temporary(status, "120", NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", None),
        ("1", 1),
        (" 30 ", 30),
        ("86400", 86400),
        ("86401", LONGEST_RETRY_AFTER_S),
        ("9" * 5000, LONGEST_RETRY_AFTER_S),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("Mon, 16 Nov 2026 12:01:30 GMT", 90),
        ("Mon, 16 Nov 2026 11:59:00 GMT", None),
        ("Mon, 16 Nov 2026 12:00:00 -0000", None),
        ("Fri, 16 Nov 2035 12:00:00 GMT", LONGEST_RETRY_AFTER_S),
        ("Mon, 99 Nov 2026 12:00:00 GMT", None),
        ("Mon, 16 Nov 99999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_more_than_a_day(value, seconds):
    assert parse_retry_after(value, NOW) == seconds


@given(st.text(max_size=40))
def test_any_header_is_a_delay_or_none(value):
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 < seconds <= LONGEST_RETRY_AFTER_S

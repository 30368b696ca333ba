"""Where a record goes that did not succeed, and what stands in its headers then."""

from datetime import UTC, datetime, timedelta

import pytest

from manyhands.worker.jobs.message import Message
from manyhands.worker.jobs.outcomes import Dead, Defer, Failed, Move, Retry
from manyhands.worker.source.kafka.failures import (
    MOST_ERROR_CHARS,
    Failing,
    History,
    Outgoing,
    history_of,
)
from manyhands.worker.source.kafka.topics import side_topics

SIDE = side_topics("g", (5, 30, 300))
NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
FAILED = Failed("ValueError", "no luck")
MESSAGE = Message("orders", 3, 77, b"k", (("trace", b"t"), ("trace", b"u"), ("none", None)))


def failing(message: Message = MESSAGE, retries: int = 2) -> Failing:
    return Failing(message, b"value", history_of(message), retries)


def again(outgoing: Outgoing, offset: int = 0) -> Message:
    """The same record, as its topic gives it back."""
    return Message(outgoing.topic, 0, offset, outgoing.key, outgoing.headers)


def test_a_record_that_fails_waits_longer_each_time_and_is_given_up_in_the_end():
    message, topics = MESSAGE, []
    for _ in range(3):
        outgoing, is_dead = failing(message).again(FAILED, SIDE, NOW)
        topics.append((outgoing.topic, is_dead))
        message = again(outgoing)
    assert topics == [("g-retry-5s", False), ("g-retry-30s", False), ("g-dead", True)]
    told = history_of(message)
    assert told.origin == "orders/3/77"
    assert told.topic == "orders"
    assert told.failures == 3
    assert told.due is None


def test_key_value_and_foreign_headers_stay():
    outgoing, _ = failing().again(FAILED, SIDE, NOW)
    assert (outgoing.key, outgoing.value) == (b"k", b"value")
    assert outgoing.headers[:3] == MESSAGE.headers


def test_the_first_failure_is_kept_beside_the_last():
    first, _ = failing().again(Failed("A", "one"), SIDE, NOW)
    later = NOW + timedelta(minutes=1)
    second, _ = failing(again(first)).again(Failed("B", "two"), SIDE, later)
    told = history_of(again(second))
    assert (told.first_error, told.last_error) == ("A: one", "B: two")
    assert (told.first_failed_at, told.failed_at) == (
        "2026-11-19T12:00:00Z",
        "2026-11-19T12:01:00Z",
    )


def test_a_retry_waits_as_long_as_the_handler_asked_and_spends_a_retry():
    outgoing, is_dead = failing().again(Retry(200, "later"), SIDE, NOW)
    assert (outgoing.topic, is_dead) == ("g-retry-30s", False)
    told = history_of(again(outgoing))
    assert told.due == NOW + timedelta(seconds=200)
    assert (told.failures, told.last_error) == (1, "Retry: later")


def test_what_has_to_wait_on_goes_to_the_delay_that_is_left():
    outgoing, _ = failing().again(Retry(40), SIDE, NOW)
    waited = NOW + timedelta(seconds=31)
    told = history_of(again(outgoing))
    assert told.due is not None
    rest = failing(again(outgoing)).waiting(told, told.due, SIDE, waited)
    assert rest.topic == "g-retry-5s"
    assert history_of(again(rest)) == told


def test_a_deferred_record_spends_nothing():
    outgoing, is_dead = failing().again(Defer(NOW + timedelta(hours=1)), SIDE, NOW)
    assert (outgoing.topic, is_dead) == ("g-retry-300s", False)
    assert history_of(again(outgoing)).failures == 0


def test_dead_is_given_up_at_once():
    outgoing = failing().dead(Dead("for good"), SIDE, NOW)
    assert outgoing.topic == "g-dead"
    assert history_of(again(outgoing)).last_error == "Dead: for good"


def test_a_moved_record_has_no_history():
    failed, _ = failing().again(FAILED, SIDE, NOW)
    assert failing(again(failed)).moved(Move("elsewhere")) == Outgoing(
        "elsewhere", b"k", b"value", MESSAGE.headers
    )


def test_a_long_error_is_cut():
    outgoing, _ = failing().again(Failed("E", "x" * 10_000), SIDE, NOW)
    assert len(history_of(again(outgoing)).last_error) == MOST_ERROR_CHARS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mh-failures", b"-1"),
        ("mh-failures", b"\xff"),
        ("mh-failures", "٣".encode()),
        ("mh-due", b"tomorrow"),
        ("mh-due", b"2026-11-19T12:00:00"),
        ("mh-origin", None),
    ],
)
def test_headers_like_ours_that_cannot_be_read_say_nothing(name, value):
    assert history_of(Message("orders", 3, 77, None, ((name, value),))) == History("orders/3/77")

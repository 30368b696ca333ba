"""WORKER_TOPICS, and the topics of a group beside them."""

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.worker.source.kafka.topics import (
    Order,
    Topic,
    all_topics,
    parse_topics,
    side_topics,
)

SIDE = side_topics("g", (5, 30, 300))


def test_each_topic_may_say_its_order():
    assert parse_topics("a, b:none ,c:partition") == (
        Topic("a", Order.KEY),
        Topic("b", Order.NONE),
        Topic("c", Order.PARTITION),
    )


@pytest.mark.parametrize("text", ["a b", "ä", "a:", "a:b:c", ".", "x" * 201, "a,b,a"])
def test_what_cannot_be_right_is_refused(text):
    with pytest.raises(ConfigError, match="WORKER_TOPICS"):
        parse_topics(text)


def test_a_group_has_a_topic_for_each_delay_and_one_for_what_is_given_up():
    assert SIDE.retries == ("g-retry-5s", "g-retry-30s", "g-retry-300s")
    assert SIDE.dead == "g-dead"
    assert SIDE.delay_of("g-retry-30s") == 30
    assert SIDE.delay_of("g-dead") is None


def test_each_failure_waits_longer_and_the_last_delay_is_repeated():
    assert [SIDE.after_failures(failures) for failures in (1, 2, 3, 4, 99)] == [
        5,
        30,
        300,
        300,
        300,
    ]


@pytest.mark.parametrize(("wait_s", "delay_s"), [(0, 5), (5, 5), (29, 5), (31, 30), (10**6, 300)])
def test_a_wait_is_made_up_of_delays_that_are_not_longer(wait_s, delay_s):
    assert SIDE.not_longer_than(wait_s) == delay_s


@pytest.mark.parametrize("delays", [(), (0,), (5, 5), (30, 5)])
def test_delays_must_grow(delays):
    with pytest.raises(ConfigError, match="KAFKA_RETRY_DELAYS_S"):
        side_topics("g", delays)


def test_a_group_whose_name_no_topic_may_have_is_refused():
    with pytest.raises(ConfigError, match="WORKER_SOURCE: group: 'a/b'"):
        side_topics("a/b", (5,))


def test_the_topics_of_the_retries_are_consumed_too_and_that_of_the_dead_is_not():
    assert set(all_topics([Topic("a")], SIDE)) == {"a", *SIDE.retries}


@pytest.mark.parametrize("name", ["g-dead", "g-retry-5s"])
def test_nobody_may_take_what_has_failed_as_if_it_were_new(name):
    with pytest.raises(ConfigError, match="keeps what has failed"):
        all_topics([Topic(name)], SIDE)

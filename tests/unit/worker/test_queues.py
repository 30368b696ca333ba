"""The order of queues in a FETCH: strict, or by weight, and never to anybody's starvation."""

from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.errors import ConfigError
from worker.queues import MAX_WEIGHT, QueueOrder


def test_without_weights_the_order_is_strict():
    order = QueueOrder.parse("critical, default ,bulk")
    assert order.names == ["critical", "default", "bulk"]
    assert order.rounds() == [["critical", "default", "bulk"]]


def test_a_single_queue_needs_no_rounds():
    assert QueueOrder.parse("only").rounds() == [["only"]]
    assert QueueOrder.parse("only:7").rounds() == [["only"]]


def test_weights_spread_the_heads_evenly():
    heads = [names[0] for names in QueueOrder.parse("a:3,b:1").rounds()]
    assert Counter(heads) == {"a": 3, "b": 1}
    assert heads != ["b", "a", "a", "a"]


weights = st.dictionaries(
    st.text("abcdefgh.-_09", min_size=1, max_size=4), st.integers(1, 12), min_size=2, max_size=6
)


@given(weights)
def test_each_queue_is_first_as_often_as_its_weight_says(weights):
    text = ",".join(f"{name}:{weight}" for name, weight in weights.items())
    rounds = QueueOrder.parse(text).rounds()
    assert Counter(names[0] for names in rounds) == weights
    assert all(sorted(names) == sorted(weights) for names in rounds)


@given(weights)
def test_no_queue_waits_longer_than_its_share_for_its_turn(weights):
    text = ",".join(f"{name}:{weight}" for name, weight in weights.items())
    heads = [names[0] for names in QueueOrder.parse(text).rounds()]
    total = sum(weights.values())
    twice = heads + heads
    for name, weight in weights.items():
        turns = [at for at, head in enumerate(twice) if head == name]
        longest = max(later - earlier for earlier, later in pairwise(turns))
        assert longest <= 2 * total / weight + len(weights)


def test_the_queues_behind_the_head_take_turns():
    rounds = QueueOrder.parse("a:4,b:1,c:1").rounds()
    seconds = {names[1] for names in rounds if names[0] == "a"}
    assert seconds == {"b", "c"}


def test_the_fetch_lines_go_round_for_ever():
    lines = QueueOrder.parse("a:2,b:1").fetch_lines()
    first = [next(lines) for _ in range(3)]
    assert sorted(first) == [b"FETCH a b\r\n", b"FETCH a b\r\n", b"FETCH b a\r\n"]
    assert list(islice(lines, 3)) == first


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no queue"),
        (" , ", "no queue"),
        ("a,a", "twice"),
        ("a:1,a:2", "twice"),
        ("a:1,b", "weight"),
        ("a:0,b:1", "weight"),
        (f"a:{MAX_WEIGHT + 1}", "weight"),
        ("a:-1", "weight"),
        ("a:1.5", "weight"),
        ("a:", "weight"),
        ("a:x", "weight"),
        ("a:1:2", "weight"),
        ("a b", "queue name"),
        ("a;b", "queue name"),
        (":3", "queue name"),
        ("*", "queue name"),
    ],
)
def test_bad_queues_are_a_configuration_error_that_names_the_variable(text, says):
    with pytest.raises(ConfigError, match=says) as refused:
        QueueOrder.parse(text)
    assert "WORKER_QUEUES" in str(refused.value)


@given(st.text("abc019 :,-.²٣", max_size=12))
@example("a:²")
def test_any_text_is_an_order_or_a_configuration_error(text):
    try:
        order = QueueOrder.parse(text)
    except ConfigError:
        return
    assert order.rounds()

"""The order of queues in a FETCH: strict, or by weight, and never to anybody's starvation."""

from collections import Counter
from itertools import groupby, islice, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manyhands.shared.errors import ConfigError
from manyhands.worker.source.queue_order import FETCHES_IN_A_ROW, MAX_WEIGHT, QueueOrder


def order(text: str, shards: int = 3) -> QueueOrder:
    return QueueOrder.parse(text, shards)


def test_without_weights_the_order_is_strict():
    strict = order("critical, default ,bulk")
    assert strict.names == ["critical", "default", "bulk"]
    assert strict.rounds() == [["critical", "default", "bulk"]]


def test_a_single_queue_needs_no_rounds():
    assert order("only").rounds() == [["only"]]
    assert order("only:7").rounds() == [["only"]]


def test_weights_spread_the_heads_evenly():
    heads = [names[0] for names in order("a:3,b:1").rounds()]
    assert Counter(heads) == {"a": 3, "b": 1}
    assert heads != ["b", "a", "a", "a"]


weights = st.dictionaries(
    st.text("abcdefgh.-_09", min_size=1, max_size=4), st.integers(1, 12), min_size=2, max_size=6
)


@given(weights)
def test_each_queue_is_first_as_often_as_its_weight_says(weights):
    text = ",".join(f"{name}:{weight}" for name, weight in weights.items())
    rounds = order(text).rounds()
    assert Counter(names[0] for names in rounds) == weights
    assert all(sorted(names) == sorted(weights) for names in rounds)


@given(weights)
def test_no_queue_waits_longer_than_its_share_for_its_turn(weights):
    text = ",".join(f"{name}:{weight}" for name, weight in weights.items())
    heads = [names[0] for names in order(text).rounds()]
    total = sum(weights.values())
    twice = heads + heads
    for name, weight in weights.items():
        turns = [at for at, head in enumerate(twice) if head == name]
        longest = max(later - earlier for earlier, later in pairwise(turns))
        assert longest <= 2 * total / weight + len(weights)


def test_the_queues_behind_the_head_take_turns():
    rounds = order("a:4,b:1,c:1").rounds()
    seconds = {names[1] for names in rounds if names[0] == "a"}
    assert seconds == {"b", "c"}


def test_the_fetch_lines_go_round_for_ever():
    lines = order("a:2,b:1").fetch_lines()
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
        ("parse.*", "queue name"),
        ("fetch.*,fetch.*", "twice"),
        ("fetch.*,fetch.01", "twice"),
        ("fetch.*:3,parse", "weight"),
        ("fetch.*:0", "weight"),
    ],
)
def test_bad_queues_are_a_configuration_error_that_names_the_variable(text, says):
    with pytest.raises(ConfigError, match=says) as refused:
        order(text)
    assert "WORKER_QUEUES" in str(refused.value)


# All shards


def test_all_shards_take_turns_at_the_head():
    assert order("fetch.*").rounds() == [
        ["fetch.00", "fetch.01", "fetch.02"],
        ["fetch.01", "fetch.02", "fetch.00"],
        ["fetch.02", "fetch.00", "fetch.01"],
    ]
    assert order("fetch.*:7").rounds() == order("fetch.*").rounds()


def test_all_shards_are_those_of_the_setting():
    assert order("fetch.*", 64).names == [f"fetch.{number:02}" for number in range(64)]
    assert order("fetch.*", 1).rounds() == [["fetch.00"]]


@pytest.mark.parametrize("text", ["parse,fetch.*,low", "fetch.*,parse"])
def test_a_strict_order_stays_strict_around_shards_that_take_turns(text):
    rounds = order(text).rounds()
    entries = text.split(",")
    at = entries.index("fetch.*")
    assert len(rounds) == 3
    for names in rounds:
        assert [*names[:at], "fetch.*", *names[at + 3 :]] == entries
    assert {names[at] for names in rounds} == {"fetch.00", "fetch.01", "fetch.02"}


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 20))
def test_the_weight_of_all_shards_is_that_of_them_together(fetch, parse, shards):
    rounds = order(f"fetch.*:{fetch},parse:{parse}", shards).rounds()
    heads = Counter(names[0] for names in rounds)
    of_shards = [heads[name] for name in order("fetch.*", shards).names]
    assert heads["parse"] * fetch == sum(of_shards) * parse
    assert len(set(of_shards)) == 1
    assert all(len(set(names)) == shards + 1 == len(names) for names in rounds)


def test_the_fetch_lines_of_shards_go_through_the_same_rounds():
    shards = order("fetch.*:3,parse:1", 5)
    rounds = shards.rounds()
    lines = shards.fetch_lines()
    for names in rounds + rounds:
        assert next(lines) == b"FETCH " + " ".join(names).encode() + b"\r\n"


def test_queues_that_take_turns_are_first_for_some_fetches_in_a_row():
    names = ["fetch.00", "fetch.01", "fetch.02"]
    lines = QueueOrder.in_turns(names).fetch_lines()
    round_of_lines = [next(lines) for _ in range(len(names) * FETCHES_IN_A_ROW)]
    runs = [(line, len(list(same))) for line, same in groupby(round_of_lines)]
    assert [line.split()[1].decode() for line, _ in runs] == names
    assert {length for _, length in runs} == {FETCHES_IN_A_ROW}
    assert next(lines) == round_of_lines[0]


def test_many_shards_with_odd_weights_are_not_all_kept_in_memory():
    lines = order("fetch.*:97,parse:100", 1024).fetch_lines()
    assert len(next(lines)) < 20_000


@given(st.text("abc019 :,-.²٣", max_size=12))
@example("a:²")
def test_any_text_is_an_order_or_a_configuration_error(text):
    try:
        parsed = order(text)
    except ConfigError:
        return
    assert parsed.rounds()

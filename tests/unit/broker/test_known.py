"""The jids of recent pushes."""

import pytest

from manyhands.broker import known
from manyhands.broker.known import KnownJids


@pytest.fixture(autouse=True)
def generations_of_three(monkeypatch):
    monkeypatch.setattr(known, "GENERATION", 3)


def those_known(jids: KnownJids, count: int) -> list[int]:
    return [number for number in range(count) if str(number) in jids]


def added(count: int) -> KnownJids:
    jids = KnownJids()
    for number in range(count):
        jids.add(str(number))
    return jids


def test_nothing_is_known_at_first():
    assert "0" not in KnownJids()


@pytest.mark.parametrize(
    ("count", "remembered"),
    [
        (3, [0, 1, 2]),
        (4, [0, 1, 2, 3]),
        (6, [0, 1, 2, 3, 4, 5]),
        (7, [3, 4, 5, 6]),
        (9, [3, 4, 5, 6, 7, 8]),
        (10, [6, 7, 8, 9]),
    ],
)
def test_one_to_two_generations_are_remembered(count, remembered):
    assert those_known(added(count), count) == remembered


def test_a_jid_of_either_generation_can_be_forgotten():
    jids = added(5)
    jids.discard("0")
    jids.discard("4")
    jids.discard("never seen")
    assert those_known(jids, 5) == [1, 2, 3]


def test_all_can_be_forgotten():
    jids = added(5)
    jids.clear()
    assert those_known(jids, 5) == []


def test_a_long_jid_is_known_by_its_digest_only():
    jids = KnownJids()
    long = "x" * 100_000
    jids.add(long)
    assert long in jids
    assert long + "x" not in jids
    assert max(map(len, jids._young)) <= known.SHORT_JID
    jids.discard(long)
    assert long not in jids

"""Groups are as full as their limits allow, in order."""

from manyhands.shared.grouping import grouped


def of(items: list[str], **limits: int) -> list[list[str]]:
    return list(grouped(items, len, **limits))


def test_a_group_ends_before_it_would_be_too_large():
    assert of(["aa", "bb", "c", "dddd", "e"], most_size=4) == [["aa", "bb"], ["c"], ["dddd"], ["e"]]


def test_a_group_has_only_so_many_items():
    assert of(["a", "b", "c"], most_size=100, most_items=2) == [["a", "b"], ["c"]]


def test_an_item_that_is_too_large_is_a_group_by_itself():
    assert of(["a", "bbbbb", "c"], most_size=2) == [["a"], ["bbbbb"], ["c"]]


def test_nothing_makes_no_group():
    assert of([], most_size=1) == []

"""Cursors: what was given is read, and all else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.api.crawls.paging import MAX_CURSOR_LENGTH, MAX_ID, cursor, read_cursor
from manyhands.api.problems import Problem

IDS = st.integers(0, MAX_ID)


@given(st.lists(IDS, min_size=1, max_size=3))
def test_what_a_cursor_holds_comes_back(numbers):
    text = cursor(*numbers)
    assert len(text) <= MAX_CURSOR_LENGTH
    assert read_cursor(text, len(numbers)) == tuple(numbers)


@given(st.text(max_size=60), st.integers(1, 3))
def test_any_other_text_is_refused_or_holds_so_many_numbers(text, count):
    try:
        numbers = read_cursor(text, count)
    except Problem as problem:
        assert (problem.status, problem.more["field"]) == (422, "cursor")
    else:
        assert len(numbers) == count


@pytest.mark.parametrize(
    "text", ["", "é", "!", "A", cursor(1, 2), "LTE", "MS4", cursor(MAX_ID + 1), "MQ==x"]
)
def test_a_cursor_of_another_listing_is_refused(text):
    with pytest.raises(Problem):
        read_cursor(text, 1)

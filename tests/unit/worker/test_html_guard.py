"""What makes a parser of HTML slow is taken out; everything else stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.html_guard import (
    GUARDED_FROM,
    MAX_DEPTH,
    MAX_SEPARATORS,
    MAX_UNCOUNTED_TAGS,
    WINDOW,
    tamed,
)

ATTRIBUTES = " ".join(f"a{number}" for number in range(MAX_SEPARATORS + 1))


@pytest.mark.parametrize(
    "html",
    [
        "<p>short</p>",
        "<div>" * (GUARDED_FROM // 5 - 1),
        "<p><b>x</b><br><img src=x></p>\n" * MAX_UNCOUNTED_TAGS,
        "<a href=x>" * MAX_UNCOUNTED_TAGS,
        "<ul>" + "<li>one<li>two" * MAX_UNCOUNTED_TAGS,
        "<table>" + "<tr><td>one<td>two" * MAX_UNCOUNTED_TAGS,
        "<div>" * MAX_DEPTH + "<p>x</p>" * MAX_UNCOUNTED_TAGS,
        "<p>x</p>" * GUARDED_FROM + f"<img src='data:{'x' * 10 * WINDOW}'><p>y</p>",
        "<p>x</p>" * GUARDED_FROM + f"<script>{'[1, 2, 3], ' * WINDOW}</script><p>y</p>",
        "<p>x</p>" * GUARDED_FROM + "a b " * WINDOW,
    ],
)
def test_pages_of_people_are_left_alone(html):
    assert tamed(html) == html


def test_a_page_is_cut_where_it_gets_too_deep():
    shallow = "<p>x</p>" * GUARDED_FROM
    deep = "<div>" * (MAX_DEPTH + 1)
    assert tamed(shallow + deep + "<p>y</p>") == shallow + "<div>" * MAX_DEPTH


@pytest.mark.parametrize("piece", ["<div></x>", "<DIV/>", "<g><i></b>", "<x></x><x>"])
def test_only_an_end_tag_of_the_same_name_closes(piece):
    html = piece * GUARDED_FROM
    assert len(tamed(html)) < len(piece) * (MAX_DEPTH + 2)


@pytest.mark.parametrize(
    ("monster", "left"),
    [
        (f"<a {ATTRIBUTES * 2}>", ">"),
        (f"</a {ATTRIBUTES * 2}>", ">"),
        (f"<a b<c {ATTRIBUTES * 2}>", ">"),
        (f"<a/{ATTRIBUTES.replace(' ', '/') * 2}>", ">"),
        (f"<a {ATTRIBUTES * 2} </{ATTRIBUTES * 2}>", ">"),
        (f"<script>x<y {ATTRIBUTES * 2}</script>", "<script>x</script>"),
    ],
)
def test_a_tag_with_thousands_of_attributes_is_left_out(monster, left):
    before, after = "<p>x</p>" * (GUARDED_FROM // 8), "<p>y</p>"
    assert tamed(before + monster + after) == before + left + after
    assert tamed(monster + before) == left + before
    assert tamed(before + monster + after + monster) == before + left + after + left


@given(st.text("<>/ab \"'", max_size=50), st.integers(1, 3))
def test_what_is_left_is_part_of_what_there_was(piece, times):
    html = piece * (times * GUARDED_FROM // max(1, len(piece)))
    remaining = iter(html)
    assert all(character in remaining for character in tamed(html))

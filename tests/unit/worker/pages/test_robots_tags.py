"""`X-Robots-Tag` and meta robots, in the forms that sites write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.pages.robots_tags import RobotsDirectives, directives

NEITHER = RobotsDirectives(nofollow=False, noindex=False)
NOFOLLOW = RobotsDirectives(nofollow=True, noindex=False)
NOINDEX = RobotsDirectives(nofollow=False, noindex=True)
BOTH = RobotsDirectives(nofollow=True, noindex=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NEITHER),
        ("all", NEITHER),
        ("index, follow", NEITHER),
        ("noarchive, nosnippet", NEITHER),
        ("nofollow", NOFOLLOW),
        ("NoFollow", NOFOLLOW),
        ("noindex", NOINDEX),
        ("noindex,nofollow", BOTH),
        (" noindex ,  nofollow ", BOTH),
        ("noindex nofollow", BOTH),
        ("none", BOTH),
        ("NONE", BOTH),
        ("nofollowing", NEITHER),
        ("follow, nofollow", NOFOLLOW),
    ],
)
def test_directives_for_everybody(text, expected):
    assert directives(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("manyhands: nofollow", NOFOLLOW),
        ("Manyhands: noindex, nofollow", BOTH),
        ("Manyhands/0.1: none", BOTH),
        ("manyhands:noindex", NOINDEX),
        ("robots: noindex", NOINDEX),
        ("googlebot: nofollow", NEITHER),
        ("otherbot: noindex, nofollow", NEITHER),
        ("many: none", NEITHER),
        ("googlebot: nofollow, manyhands: noindex", NOINDEX),
        ("nofollow, googlebot: noindex", NOFOLLOW),
    ],
)
def test_directives_with_a_name_are_for_that_name(text, expected):
    assert directives(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("noindex, nofollow", BOTH),
        ("noindex, manyhands: nofollow", BOTH),
        ("googlebot: noindex, otherbot: nofollow, manyhands: none", BOTH),
        ("googlebot: noindex, otherbot: nofollow", NEITHER),
    ],
)
def test_several_headers_are_joined_by_commas(text, expected):
    assert directives(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unavailable_after: 25 Jun 2030 15:00:00 PST", NEITHER),
        ("unavailable_after: Saturday, 25-Jun-30 15:00:00 PST, nofollow", NOFOLLOW),
        ("max-snippet: 20, nofollow", NOFOLLOW),
        ("max-image-preview:large, max-video-preview:-1, noindex", NOINDEX),
        ("nofollow, max-snippet:-1", NOFOLLOW),
    ],
)
def test_a_directive_with_a_value_is_no_name(text, expected):
    assert directives(text) == expected


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(directives(text), RobotsDirectives)

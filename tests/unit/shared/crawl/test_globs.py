"""Patterns of whole URLs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.globs import Glob, Globs
from manyhands.shared.urls import MAX_URL_LENGTH, parse_url

PREFIX = "http://a.example/"


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("*", "http://a.example/"),
        ("http://a.example/", "http://a.example/"),
        ("http://a.example/*", "http://a.example/"),
        ("HTTP://A.Example/X*", "http://a.example/Xy"),
        ("*/private/*", "http://a.example/private/x"),
        ("*.pdf", "http://a.example/x.pdf"),
        ("http*://*.example/*/b*c", "https://a.example/a/b/c"),
        ("http://a.example/ä*", "http://a.example/%C3%A4x"),
        ("http://a.example/%7eu/%c3%a4*", "http://a.example/~u/%C3%A4"),
        ("https://a.example:443/*", "https://a.example/"),
        ("http://a.example:443/*", "http://a.example:443/x"),
        ("**x**", "http://a.example/x"),
        ("*a?b=*", "http://a.example/a?b=1"),
    ],
)
def test_a_star_stands_for_any_characters(pattern, url):
    assert Glob(pattern).fits(url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("http://a.example/", "http://a.example/x"),
        ("http://a.example/x*x", "http://a.example/x"),
        ("http://a.example/ab*ba", "http://a.example/aba"),
        ("*/ab*bc*", "http://a.example/abc"),
        ("*/X/*", "http://a.example/x/"),
        ("*.pdf", "http://a.example/x.pdf?y"),
        ("*a?b*", "http://a.example/axb"),
        ("*[ab]*", "http://a.example/"),
    ],
)
def test_everything_else_stands_for_itself(pattern, url):
    assert not Glob(pattern).fits(url)


@given(st.text("ab*", min_size=1, max_size=8), st.text("ab", max_size=10))
def test_a_pattern_means_what_a_regular_expression_would_say(pattern, rest):
    expected = re.fullmatch(re.escape(PREFIX) + pattern.replace("*", ".*"), PREFIX + rest)
    assert Glob(PREFIX + pattern).fits(PREFIX + rest) is (expected is not None)


@pytest.mark.timeout(10)
def test_a_hostile_pattern_meets_a_hostile_url():
    """As a regular expression this would not end before the sun does."""
    url = "http://a.example/" + "a" * (MAX_URL_LENGTH - 20)
    assert not Glob("*a" * 249 + "*b").fits(url)
    assert not Glob("*" + "a" * 497 + "b*").fits(url)
    assert Glob("*a" * 250).fits(url)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("http://a b/*", "white space"),
        ("*\n", "white space"),
        ("http://a.example/#x", "fragment"),
        ("http://bücher.example/*", "xn--"),
        ("https://a.example", r"add /\* for the whole host"),
    ],
)
def test_a_pattern_that_can_fit_nothing_is_refused(pattern, says):
    with pytest.raises(ValueError, match=says):
        Glob(pattern)


def test_a_pattern_that_fits_is_named_as_it_was_written():
    globs = Globs([Glob("*/x"), Glob("*"), Glob("HTTP://A.example/x"), Glob("http://b.example/*")])
    assert globs.match(parse_url("http://a.example/x")) == "HTTP://A.example/x"
    assert globs.match(parse_url("http://c.example/x")) == "*/x"
    assert globs.match(parse_url("http://b.example/y")) == "http://b.example/*"
    assert globs.match(parse_url("http://c.example/y")) == "*"


def test_patterns_of_one_piece_are_asked_like_any_other():
    globs = Globs([Glob("*/tag/*"), Glob("**ä**")])
    assert globs
    assert globs.match(parse_url("http://a.example/tag/x")) == "*/tag/*"
    assert globs.match(parse_url("http://a.example/ä")) == "**ä**"
    assert globs.match(parse_url("http://a.example/tags")) is None


def test_no_patterns_fit_nothing():
    assert not Globs([])
    assert Globs([]).match(parse_url("http://a.example/")) is None
    assert Globs([Glob("http://a.example/x*")])

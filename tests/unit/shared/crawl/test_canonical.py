"""Which URLs are the same page."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manyhands.shared.crawl import canonical
from manyhands.shared.crawl.canonical import (
    RULES_VERSION,
    TRACKING_PARAMETERS,
    fingerprint,
    origin_of,
    page_key,
)
from manyhands.shared.crawl.store.model import KEY_BYTES, NewUrl
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Url, parse_url


def of(text: str) -> str:
    return fingerprint(parse_url(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://a.example/", "http://a.example/"),
        ("http://a.example/?b=2&a=1", "http://a.example/?a=1&b=2"),
        ("http://a.example/?b=2&a=2&a=1", "http://a.example/?a=1&a=2&b=2"),
        ("http://a.example/p?utm_source=x", "http://a.example/p"),
        ("http://a.example/p?UTM_Source=x&id=3&gclid=y", "http://a.example/p?id=3"),
        ("http://a.example/p?utm%5Fsource=x", "http://a.example/p"),
        ("http://a.example/p?fbclid", "http://a.example/p"),
        ("http://a.example/p?PHPSESSID=abc&x=1", "http://a.example/p?x=1"),
        ("http://a.example/p?ASPSESSIONIDAABB=abc", "http://a.example/p"),
        ("http://a.example/p;jsessionid=12?x=1", "http://a.example/p?x=1"),
        ("http://a.example/p;JSESSIONID=12/q;v=1", "http://a.example/p/q;v=1"),
        ("http://a.example/p?a=;jsessionid=12", "http://a.example/p?a=;jsessionid=12"),
        ("http://a.example/d/..;jsessionid=1/x", "http://a.example/x"),
        (f"http://a.example/f?sid={'0a' * 16}&t=1", "http://a.example/f?t=1"),
        ("http://a.example/f?sid=12", "http://a.example/f?sid=12"),
        ("http://a.example/?&&a=1&", "http://a.example/?a=1"),
        ("http://a.example/?pk_id=4&session_id=2", "http://a.example/?pk_id=4&session_id=2"),
    ],
)
def test_parameters_are_sorted_and_those_of_visits_stripped(text, expected):
    assert of(text) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://a.example/", "https://a.example/"),
        ("http://a.example/p", "http://a.example/P"),
        ("http://a.example/p", "http://a.example/p/"),
        ("http://a.example/p", "http://a.example:8080/p"),
        ("http://a.example/?a", "http://a.example/?a="),
        ("http://a.example/", "http://www.a.example/"),
        ("http://a.example/p?a=B", "http://a.example/p?a=b"),
    ],
)
def test_what_may_be_two_pages_is_not_made_one(one, other):
    assert of(one) != of(other)
    assert page_key(parse_url(one)) != page_key(parse_url(other))


NAMES = st.text(string.ascii_letters + string.digits + "_[]%é;", min_size=1, max_size=8)
PARAMETERS = st.lists(
    st.tuples(NAMES, st.text(string.printable + "é", max_size=8)).map("=".join), max_size=6
)
PATHS = st.text(string.ascii_letters + "/.;=%é", max_size=20)


def url_of(path: str, parameters: list[str]) -> Url | None:
    try:
        return parse_url(f"http://a.example/{path}?{'&'.join(parameters)}")
    except InvalidUrl:
        return None


@given(PATHS, PARAMETERS)
@example("..;jsessionid=1/;jsessionid=2", [])
@example("a;jsess;jsessionid=x;ionid=5", [])
def test_a_fingerprint_is_a_canonical_url_with_the_same_fingerprint(path, parameters):
    url = url_of(path, parameters)
    if url is not None:
        once = fingerprint(url)
        assert parse_url(once).text == once
        assert of(once) == once


@given(PATHS, PARAMETERS, st.data())
def test_neither_order_nor_tracking_parameters_change_the_key(path, parameters, data):
    added = data.draw(st.lists(st.sampled_from(sorted(TRACKING_PARAMETERS)), max_size=3))
    shuffled = data.draw(
        st.permutations([*parameters, *(f"{name}=x&utm_{name}" for name in added)])
    )
    plain, dressed = url_of(path, parameters), url_of(path, shuffled)
    if plain is not None and dressed is not None and "#" not in "".join(parameters):
        assert page_key(plain) == page_key(dressed)


def test_a_key_is_the_same_for_ever():
    """Another one would fetch again whatever was fetched before."""
    assert RULES_VERSION == 1
    key = page_key(parse_url("https://www.example.com/a?b=1&utm_source=x"))
    assert key.hex() == "7fc9ddca84629c232f9ef7a26c85bc99"


def test_keys_of_an_origin_begin_alike():
    one, two = (page_key(parse_url(f"http://a.example/{name}")) for name in "xy")
    other = page_key(parse_url("http://a.example:81/x"))
    assert len(one) == KEY_BYTES
    assert one[: canonical.ORIGIN_KEY_BYTES] == two[: canonical.ORIGIN_KEY_BYTES]
    assert one[canonical.ORIGIN_KEY_BYTES :] != two[canonical.ORIGIN_KEY_BYTES :]
    assert one[: canonical.ORIGIN_KEY_BYTES] != other[: canonical.ORIGIN_KEY_BYTES]


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://a/", "http://a"),
        ("https://a.example/x?y=/z", "https://a.example"),
        ("http://a.example:80/", "http://a.example"),
        ("http://a.example:8080/x", "http://a.example:8080"),
        ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443"),
    ],
)
def test_the_origin(text, origin):
    assert origin_of(parse_url(text).text) == origin


def test_a_url_to_admit_is_fetched_as_it_is_and_known_by_its_key():
    url = parse_url("https://news.bbc.co.uk/a?utm_source=x")
    assert new_url(url, 3, redirects=1, scope_name="bbc.co.uk") == NewUrl(
        key=page_key(parse_url("https://news.bbc.co.uk/a")),
        url="https://news.bbc.co.uk/a?utm_source=x",
        origin="https://news.bbc.co.uk",
        domain="bbc.co.uk",
        depth=3,
        redirects=1,
        scope_name="bbc.co.uk",
    )

"""URLs that are not worth a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.traps import (
    MAX_LENGTH,
    MAX_PARAMETERS,
    MAX_PATH_LENGTH,
    MAX_SEGMENTS,
    is_named_like_a_file,
    trap_of,
)
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url

HOST = "http://a.example"


def numbers(count: int, joint: str) -> str:
    return joint.join(str(number) for number in range(count))


@pytest.mark.parametrize(
    "rest",
    [
        "/",
        "/index.html",
        "/en/docs/en",
        "/2024/2024-05/2024",
        "/" + numbers(MAX_SEGMENTS, "/"),
        "/" + "x" * MAX_PATH_LENGTH,
        "/?" + numbers(MAX_PARAMETERS, "&"),
        "/?" + "x" * (MAX_LENGTH - len(HOST) - 2),
        "/wiki/Node.js",
        "/goto/example.com",
        "/archive.zip/",
        "/a?file=x.zip",
        "/zip",
        "/a//b/",
        "/x.tar.gz.html",
        "/a.zip",
    ],
)
def test_ordinary_urls_are_no_traps(rest):
    assert trap_of(parse_url(HOST + rest)) is None


@pytest.mark.parametrize(
    ("rest", "trap"),
    [
        ("/?" + "x" * (MAX_LENGTH - len(HOST) - 1), "long URL"),
        ("/" + "x" * (MAX_PATH_LENGTH + 1), "long path"),
        ("/" + numbers(MAX_SEGMENTS + 1, "/"), "deep path"),
        ("/a/b/a/b/a/b", "repeated segment"),
        ("/a/a/a", "repeated segment"),
        ("/a/x/a/y/a/z", "repeated segment"),
        ("/a////b", "repeated segment"),
        ("/?" + numbers(MAX_PARAMETERS + 1, "&"), "many parameters"),
    ],
)
def test_traps_are_called_by_their_kind(rest, trap):
    assert trap_of(parse_url(HOST + rest)) == trap


@pytest.mark.parametrize(
    ("rest", "is_file"),
    [
        ("/a.zip", True),
        ("/a.JPG?size=2", True),
        ("/x.tar.gz", True),
        ("/.pdf", True),
        ("/pdf", False),
        ("/archive.zip/", False),
        ("/a?file=x.zip", False),
        ("/x.tar.gz.html", False),
        ("/wiki/Node.js", False),
    ],
)
def test_what_is_named_like_a_file(rest, is_file):
    assert is_named_like_a_file(parse_url(HOST + rest)) is is_file


def test_the_host_is_no_part_of_the_path():
    assert not is_named_like_a_file(parse_url("http://cdn.zip/"))
    assert trap_of(parse_url("http://a/a/a")) is None


@given(st.text(max_size=60))
def test_any_url_is_a_trap_or_none(rest):
    try:
        url = parse_url(f"{HOST}/{rest}")
    except InvalidUrl:
        return
    assert trap_of(url) is None or url.text != f"{HOST}/"

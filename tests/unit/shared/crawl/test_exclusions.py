"""The operator's list of what must not be crawled."""

import pytest

from manyhands.shared.crawl.exclusions import MAX_LINE_LENGTH, Exclusions
from manyhands.shared.urls import parse_url

LIST = """
# Asked not to be crawled
example.com            # with all hosts below
www.other.example
Bücher.example
192.0.2.7
[2001:DB8::1]

*/cart/*
https://shop.example/checkout*
"""


def matched(text: str, lines: str) -> str | None:
    return Exclusions.parse(lines.splitlines()).match(parse_url(text))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://example.com/", "example.com"),
        ("https://a.b.example.com:8443/x", "example.com"),
        ("http://www.other.example/", "www.other.example"),
        ("http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://192.0.2.7/", "192.0.2.7"),
        ("http://[2001:db8::1]/", "2001:db8::1"),
        ("http://any.example/cart/1", "*/cart/*"),
        ("https://shop.example/checkout/2", "https://shop.example/checkout*"),
        ("http://notexample.com/", None),
        ("http://other.example/", None),
        ("http://2.7/", None),
        ("http://shop.example/checkout/2", None),
        ("http://com/", None),
    ],
)
def test_the_rule_that_excludes_a_url_is_named(url, rule):
    assert matched(url, LIST) == rule


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not a name", "line 2: not the name of a host"),
        ("example.com:80", "line 2: not the name of a host"),
        ("*.example.com", r"line 2: .*without \*. it is the domain"),
        ("https://shop.example/#x", "line 2: .*fragment"),
        ("https://shop.example", r"line 2: .*add /\* for the whole host"),
        ("https://höst.example/*", "line 2: .*ASCII"),
        ("https://a b/*", "line 2: .*white space"),
        ("user@example.com", "line 2: not the name of a host"),
        ("http://x/" + "x" * MAX_LINE_LENGTH, "line 2: .*characters"),
    ],
)
def test_a_line_that_means_nothing_is_an_error_with_its_number(line, says):
    with pytest.raises(ValueError, match=says) as refusal:
        Exclusions.parse(["example.org", line])
    assert line not in str(refusal.value), "who names a file may not be who may read it"


def test_an_empty_list_excludes_nothing():
    assert Exclusions().match(parse_url("http://a.example/")) is None
    assert matched("http://a.example/", "# nothing\n\n") is None

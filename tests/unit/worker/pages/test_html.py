"""Bytes of a page → title, language, links, and what it asks of robots."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.urls import MAX_URL_LENGTH, parse_url
from manyhands.worker.pages.charset import decode
from manyhands.worker.pages.html import (
    LANGUAGE_MIN_CHARACTERS,
    MAX_ANCHORS,
    MAX_CRAWLED_LINKS,
    MAX_LINKS,
    MAX_TITLE_LENGTH,
    Extract,
    extract,
    is_html,
)

PAGE = parse_url("http://example.com/dir/page")
HTML = "text/html"


def links(html: str) -> list[str]:
    return extract(html.encode(), HTML, PAGE).links


def title(html: str) -> str | None:
    return extract(html.encode(), HTML, PAGE).title


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/html", True),
        ("Text/HTML; charset=utf-8", True),
        (" text/html ", True),
        ("application/xhtml+xml", True),
        ("", True),
        ("text/plain", False),
        ("application/pdf", False),
        ("text/htmlx", False),
        ("application/json; profile=text/html", False),
    ],
)
def test_what_is_html(content_type, expected):
    assert is_html(content_type) is expected


def test_a_page_gives_its_title_and_links():
    html = """<!doctype html><html><head><title> A  page
        of mine </title></head><body><a href="/a">a</a><map><area href="b?x=1&amp;y=2"></map>
        <a href="https://other.example/c#part">c</a></body></html>"""
    assert extract(html.encode(), HTML, PAGE) == Extract(
        "A page of mine",
        ["http://example.com/a", "http://example.com/dir/b?x=1&y=2", "https://other.example/c"],
    )


def test_nothing_has_no_title_and_no_links():
    assert extract(b"", HTML, PAGE) == Extract(None, [])
    assert title("<title>  </title>") is None


def test_links_keep_their_order_and_come_once():
    html = '<a href="/b">1</a><a href="/a">2</a><a href="/b#x">3</a><a href="/%62">4</a>'
    assert links(html) == ["http://example.com/b", "http://example.com/a"]


@pytest.mark.parametrize(
    "href",
    [
        "mailto:a@b.example",
        "javascript:void(0)",
        "tel:+123",
        "data:text/html,x",
        "ftp://x.example/",
        "http://user:pw@x.example/",
        "http://[::1",
        "http://x.example:99999/",
        "\\\\x.example\\share",
    ],
)
def test_what_cannot_be_fetched_is_no_link(href):
    assert links(f'<a href="{href}">x</a><a href="/ok">y</a>') == ["http://example.com/ok"]


def test_only_anchors_and_areas_are_links():
    html = """<head><base href="/dir/"><link href="/l"><meta name="x" href="/m"></head>
        <body href="/b"><a name="x">no</a><svg><use href="#u"/><a xlink:href="/in-svg">x</a></svg>
        <p href="/p">"""
    assert links(html) == ["http://example.com/in-svg"]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("/other/", "http://example.com/other/a"),
        ("https://cdn.example/x/y", "https://cdn.example/x/a"),
        ("", "http://example.com/dir/a"),
        ("mailto:x@y.example", "http://example.com/dir/a"),
        ("http://[", "http://example.com/dir/a"),
        ("javascript:alert(1)", "http://example.com/dir/a"),
        ("data:text/html,x", "http://example.com/dir/a"),
        ("x" * (MAX_URL_LENGTH * 5), "http://example.com/dir/a"),
    ],
)
def test_a_base_is_honoured_when_it_is_one(base, expected):
    assert links(f'<head><base href="{base}"></head><a href="a">x</a>') == [expected]


def test_only_the_first_base_counts():
    html = '<base href="/one/"><base href="/two/"><a href="a">x</a>'
    assert links(html) == ["http://example.com/one/a"]


def test_a_base_counts_wherever_it_stands():
    html = '<p>x<base target=_top><base href="/one/"><a href="a">x</a>'
    assert links(html) == ["http://example.com/one/a"]


def test_there_is_an_end_to_links_and_titles():
    html = "<title>" + "t" * 5000 + "</title>"
    html += "".join(f'<a href="/{number}">x</a>' for number in range(MAX_LINKS + 10))
    found = extract(html.encode(), HTML, PAGE)
    assert len(found.links) == MAX_LINKS
    assert found.title == "t" * MAX_TITLE_LENGTH


def test_a_crawl_may_ask_for_more_links():
    html = "".join(f'<a href="/{number}">x</a>' for number in range(MAX_CRAWLED_LINKS + 10))
    found = extract(html.encode(), HTML, PAGE, MAX_CRAWLED_LINKS)
    assert len(found.links) == MAX_CRAWLED_LINKS
    assert found.links[:MAX_LINKS] == links(html)


@pytest.mark.parametrize(
    ("rel", "is_nofollow"),
    [
        ("nofollow", True),
        ("ugc sponsored NoFollow", True),
        ("noopener\tnofollow", True),
        ("", False),
        ("nofollowing", False),
        ("noopener,nofollow", False),
        ("ugc", False),
    ],
)
def test_a_link_may_ask_not_to_be_followed(rel, is_nofollow):
    found = extract(f'<a href="/a" rel="{rel}">x</a>'.encode(), HTML, PAGE)
    assert found.links == ["http://example.com/a"]
    assert found.nofollow == (frozenset(found.links) if is_nofollow else frozenset())


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_one_link_that_may_be_followed_is_enough(order):
    tags = ["<a href=/a rel=nofollow>1</a>", "<a href=/a>2</a>", "<area href=/a rel=nofollow>"]
    html = "".join(tags[place] for place in order)
    assert extract(html.encode(), HTML, PAGE).nofollow == frozenset()


@pytest.mark.parametrize(
    ("html", "nofollow", "noindex"),
    [
        ('<meta name="robots" content="noindex">', False, True),
        ('<META NAME="Robots" CONTENT="NOFOLLOW, max-snippet:3">', True, False),
        ('<meta name="robots" content="none">', True, True),
        ('<meta name=" manyhands " content="nofollow">', True, False),
        ('<meta name="otherbot" content="none">', False, False),
        ('<meta name="robots"><meta content="none">', False, False),
        ('<meta name="robots" content="index"><meta name="robots" content="none">', True, True),
        ('<p>x<meta name="robots" content="none">', True, True),
        ('<meta name="robots" content="nofollow" href="/x">', True, False),
        ('<meta name="description" content="robots: none">', False, False),
        ("", False, False),
    ],
)
def test_what_a_page_asks_of_robots(html, nofollow, noindex):
    assert extract(html.encode(), HTML, PAGE).robots == (nofollow, noindex)


ENGLISH = "It was the best of times, it was the worst of times, and nobody knew which it was. "
GERMAN = "Es war einmal ein König, der hatte drei Söhne, und der jüngste von ihnen war klug. "


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ('<html lang="en-GB">' + GERMAN * 10, "en"),
        ('<!doctype html><!-- x --><html lang="DE">', "de"),
        ("<html lang=zh_Hant_TW>", "zh"),
        ("<html lang='fil '>", "fil"),
        ("<html lang='not a language'>" + GERMAN * 10, "de"),
        ("<body>" + ENGLISH * 10, "en"),
        ("<body>" + "x" * (LANGUAGE_MIN_CHARACTERS - 1), None),
        ("<frameset><frame src=x></frameset>", None),
        ("", None),
    ],
)
def test_the_language_is_as_the_page_says_or_looks(html, language):
    assert extract(html.encode(), HTML, PAGE).language == language


def test_the_title_of_a_picture_is_not_that_of_the_page():
    picture = "<body><svg><g><title>icon</title></g></svg>"
    assert title(picture) is None
    assert title(picture + "<title>late</title>") == "late"


def test_a_page_that_was_cut_has_what_stands_before_the_cut():
    assert links('<a href="/a">x</a><a href="/half') == ["http://example.com/a"]
    assert title("<title>half a ti") == "half a ti"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("ä€".encode(), "text/html; charset=utf-8"),
        ("ä€".encode(), 'text/html; charset="UTF-8"'),
        ("ä€".encode(), "text/html"),
        ("ä€".encode("cp1252"), "text/html; charset=windows-1252"),
        ("ä€".encode("cp1252"), "text/html; charset=ISO-8859-1"),
        ("ä€".encode("cp1252"), "text/html; charset=us-ascii"),
        ("ä€ and more".encode("cp1252"), "text/html"),
        ("ä€".encode("iso8859-15"), "text/html; charset=ISO-8859-15"),
        ("ä€".encode("utf-16-le"), "text/html; charset=utf-16"),
        ("ä€".encode("utf-16-be"), "text/html; charset=utf-16be"),
        (codecs.BOM_UTF8 + "ä€".encode(), "text/html; charset=iso-8859-1"),
        (codecs.BOM_UTF16_LE + "ä€".encode("utf-16-le"), "text/html; charset=utf-8"),
        (codecs.BOM_UTF16_BE + "ä€".encode("utf-16-be"), "text/html"),
        ("ä€".encode() + "ä".encode()[:1], "text/html"),
    ],
)
def test_the_charset_is_found(body, content_type):
    assert decode(body, content_type).startswith("ä€")


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("koi8-r", "привет"),
        ("windows-1251", "привет"),
        ("shift_jis", "日本語"),
        ("euc-jp", "日本語"),
        ("iso-2022-jp", "日本語"),
        ("gb2312", "中文"),
        ("big5", "中文"),
        ("euc-kr", "한국어"),
        ("tis-620", "ไทย"),
    ],
)
def test_the_charset_of_a_meta_tag_is_used(label, text):
    for meta in (
        f'<meta charset="{label}">',
        f"<META name=x charset={label}>",
        f'<meta http-equiv="Content-Type" content="text/html; charset={label}">',
    ):
        assert decode(meta.encode() + text.encode(label), HTML) == meta + text


def test_the_header_counts_more_than_the_meta_tag():
    body = b"<meta charset=koi8-r>" + "ä".encode()
    assert decode(body, "text/html; charset=utf-8").endswith("ä")


def test_a_meta_tag_that_claims_utf_16_is_not_believed():
    assert decode(b"<meta charset=utf-16>" + "ä".encode(), HTML).endswith("ä")


@pytest.mark.parametrize(
    "label",
    [
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
        "utf-7",
        "zlib",
        "rot13",
        "hex",
        "undefined",
        "mbcs",
        "no-such-thing",
        "utf-8\x00",
    ],
)
def test_a_codec_that_is_no_charset_is_never_used(label):
    assert decode(r"\u0041+AEE-ä".encode(), f"text/html; charset={label}") == r"\u0041+AEE-ä"
    assert "ä" in decode(f"<meta charset={label}>ä".encode(), HTML)


@given(st.binary(max_size=200), st.text(max_size=30))
def test_any_bytes_are_a_page(body, content_type):
    found = extract(body, f"text/html; charset={content_type}", PAGE)
    for link in found.links:
        assert parse_url(link).text == link
    (found.title or "").encode()


# What somebody may have made to keep us busy. Whoever breaks this sees the time limit of the tests.

SIZE = 2 * 1024 * 1024


def filled(piece: str) -> str:
    return piece * (SIZE // len(piece))


@pytest.mark.parametrize(
    "html",
    [
        filled("<div>"),
        filled("<x>"),
        filled("<b><i><u><p>"),
        filled("<div></x>"),
        "".join(f"<b id={number}>" for number in range(SIZE // 12)),
        filled("<table><tr><td>"),
        filled("</div>"),
        filled("<"),
        filled("\x00"),
        filled("<!--"),
        filled("&amp;"),
        filled("<a href='javascript:x'>"),
        "<a " + " ".join(f"a{number}=1" for number in range(SIZE // 10)) + " href=y>",
        "<a href='" + "x" * SIZE + "'>",
        "<a href='data:," + "x" * SIZE + "'>",
        "<base href='" + "x" * SIZE + "'>",
        "<meta name=robots content='" + "x" * SIZE + "'>",
        "<html lang='" + "x" * SIZE + "'>",
    ],
    ids=lambda html: html[:20],
)
def test_a_page_made_to_be_slow_is_not(html):
    assert extract(("<a href=/first>x</a>" + html).encode(), HTML, PAGE).links in (
        ["http://example.com/first"],
        ["http://example.com/first", "http://example.com/dir/y"],
    )


def test_a_million_links_are_looked_at_no_further_than_needed():
    html = "<a href=x>" * 1_000_000 + "<a href=/last>x</a>"
    assert links(html) == ["http://example.com/dir/x"]
    html = "<a href=x>" * (MAX_ANCHORS - 1) + "<a href=/last>x</a><a href=/after>x</a>"
    assert links(html) == ["http://example.com/dir/x", "http://example.com/last"]


def test_bytes_that_are_no_text_are_read_around():
    body = b'<a href="/a">\xff\xfe\x00</a><a href="/\xff\x00b">y</a><title>\x80\x00</title>'
    found = extract(body, "text/html; charset=utf-8", PAGE)
    assert found.links == ["http://example.com/a", "http://example.com/%EF%BF%BD%EF%BF%BDb"]
    assert found.title == "\ufffd\ufffd"

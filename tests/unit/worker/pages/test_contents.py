"""What a record says of a page besides its links."""

import time
from typing import Any

import pytest

from manyhands.shared.crawl.page_fields import CHOICES, DEFAULT
from manyhands.shared.urls import parse_url
from manyhands.worker.pages import contents
from manyhands.worker.pages.contents import Contents, contents_of
from manyhands.worker.pages.html import extract

URL = "http://example.com/dir/page"
SENTENCE = "This sentence is long enough to be taken for a part of what the page is about. "
ARTICLE = f"""<!doctype html><html lang=en><head><title>Home</title>
<meta name=Description content=" What  it is about "><link rel="alternate Canonical" href="/it">
<meta property="og:title" content="Shared"><meta property="og:image" content="/1.png">
<meta property="og:image" content="/2.png">
<script type="application/ld+json">{{"@type":
 "Article"}}</script></head>
<body><nav><a href=/menu>Menu entry</a></nav><main><article><h1>A  heading</h1>
<p>{SENTENCE * 3}<a href="other#part" rel="nofollow sponsored">the <b>other</b> page</a></p>
<h2>Part * one</h2><p>{SENTENCE * 3}</p></article></main>
<footer>All rights reserved by whoever wrote this</footer></body></html>"""


def looked(html: str, *chosen: str) -> Contents:
    tree = extract(html.encode(), "text/html; charset=utf-8", parse_url(URL)).tree
    assert tree is not None
    return contents_of(tree, frozenset(chosen))


def said(html: str, chosen: str) -> Any:
    (value,) = looked(html, chosen).values.values()
    return value


def test_only_what_is_chosen_is_looked_for():
    assert looked(ARTICLE, "links", "title", "language", "size") == Contents({})
    assert set(looked(ARTICLE, "description", "text").values) == {"description", "text"}


def test_every_choice_of_a_page_s_own_is_made():
    made = set(looked(ARTICLE, *CHOICES).values)
    others = {"title", "language", "links", "content_hash"}
    assert made == set(CHOICES) - others - {"redirects", "headers", "size", "timings"} - {
        "all_headers"
    }


def test_links_have_the_text_and_the_rel_of_their_first_place():
    assert said(ARTICLE, "link_texts") == ["Menu entry", "the other page"]
    assert said(ARTICLE, "link_rels") == ["", "nofollow sponsored"]
    twice = "<a href=/a> <img></a><a href=/b>b</a><a href=/a rel=x>a</a>"
    assert looked(twice, "link_texts", "link_rels").values == {
        "link_texts": ["", "b"],
        "link_rels": ["", ""],
    }


def test_what_the_head_says():
    assert said(ARTICLE, "description") == "What it is about"
    assert said(ARTICLE, "canonical") == "http://example.com/it"
    assert said(ARTICLE, "open_graph") == {
        "og:title": ["Shared"],
        "og:image": ["/1.png", "/2.png"],
    }
    assert said(ARTICLE, "json_ld") == '{"@type": "Article"}'


@pytest.mark.parametrize("name", ["description", "canonical", "json_ld"])
def test_what_a_page_does_not_say_is_none(name):
    assert said("<p>x", name) is None


def test_a_canonical_that_is_no_url_is_none():
    assert said('<link rel=canonical href="mailto:x@y.example">', "canonical") is None


def test_headings_have_their_level():
    assert said(ARTICLE, "headings") == ["# A heading", "## Part * one"]


def test_the_text_is_that_of_the_main_content_and_the_full_text_all():
    text, full = said(ARTICLE, "text"), said(ARTICLE, "full_text")
    assert "A heading" in text and SENTENCE.strip() in text
    assert "Menu entry" not in text and "All rights" not in text
    assert "Menu entry" in full and "All rights" in full


def test_markdown_has_headings_and_links_and_no_marks_of_its_own():
    markdown = said(ARTICLE, "markdown")
    assert markdown.startswith("# A heading\n\nThis sentence")
    assert "[the other page](http://example.com/dir/other)" in markdown
    assert "## Part \\* one" in markdown


def test_the_text_is_the_same_beside_markdown():
    beside = looked(ARTICLE, "text", "markdown").values["text"]
    assert beside.split() == said(ARTICLE, "text").split()


def test_near_duplicates_have_near_hashes():
    words = [f"word{number}" for number in range(300)]
    pages = [f"<main><p>{' '.join(some)}</p></main>" for some in (words, [*words[:-1], "x"])]
    first, second = (int(said(page, "simhash"), 16) for page in pages)
    other = int(said(f"<main><p>{' '.join(reversed(words))}</p></main>", "simhash"), 16)
    assert (first ^ second).bit_count() <= 6 < (first ^ other).bit_count()
    assert said("<p>", "simhash") is None


def test_raw_html_is_the_page_as_it_was():
    assert said(ARTICLE, "html") == ARTICLE


def test_a_page_is_bounded_and_says_so(monkeypatch):
    monkeypatch.setattr(contents, "MAX_TEXT_LENGTH", 50)
    found = looked(ARTICLE, "text")
    assert (len(found.values["text"]), found.is_cut) == (50, True)
    assert not looked(ARTICLE, "description").is_cut


def test_a_page_of_too_many_elements_has_its_whole_text_and_says_so(monkeypatch):
    monkeypatch.setattr(contents, "LEVELS_COUNTED_FROM", 1)
    monkeypatch.setattr(contents, "MAX_ELEMENTS", 5)
    found = looked(ARTICLE, "text")
    assert found.is_cut and "All rights" in found.values["text"]


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 1000 + "<p>word</p>" * 180_000,
        "<ol>" + "<li>x" * 400_000,
        "<article>" * 120 + "<p>w</p>" * 29_000,
        "<ol>" + "<li>x" * 29_000,
        "<a href=/1><object>" * 10_000 + "word " * 300_000,
        "".join(f"<a href=/{n}><object>" for n in range(1000)) + "word " * 300_000,
        '<meta property="og:a" content="x">' * 50_000,
        "<h1>" * 50_000 + "word " * 300_000,
        '<script type="application/ld+json">{"a": 1}</script>' * 40_000,
    ],
    ids=["deep", "items", "levels", "fewer items", "links", "other links", "og", "h", "ld"],
)
def test_a_page_made_to_be_slow_is_not(html):
    tree = extract(html.encode(), "text/html", parse_url(URL)).tree
    assert tree is not None
    began = time.process_time()
    contents_of(tree, DEFAULT | {"full_text", "headings", "open_graph", "json_ld"})
    # A tenth of it on a machine that does nothing else.
    assert time.process_time() - began < 10

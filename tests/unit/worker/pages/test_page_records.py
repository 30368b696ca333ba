"""The record of a page: what was found in it, and how it came."""

from typing import Any

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import CHOICES, FIELDS
from manyhands.worker.pages.bodies import pack
from manyhands.worker.pages.extraction import extract
from manyhands.worker.records import PageRecord

HTML = b"""<html lang=en><title>Home</title><meta name=description content=It>
<body><h1>Home</h1><p>Some text <a href=/a rel=next>a link</a>"""
ARRIVAL = Arrival(
    size=1000,
    etag='"x"',
    dns_ms=1,
    connect_ms=2,
    first_byte_ms=3,
    body_ms=4,
    headers=(("Server", "x"), ("Set-Cookie", "a"), ("set-cookie", "b")),
)
ALWAYS = {field.name for field in FIELDS if not field.choice}


def record(*fields: str, html: bytes = HTML, **changes: Any) -> PageRecord:
    page = FetchedPage(
        visit="visit-0001",
        crawl=3,
        key="00ff" * 8,
        url="http://www.example.com/dir/",
        depth=2,
        status=200,
        content_type="text/html",
        robots_tag="",
        obeys_nofollow=True,
        is_truncated=False,
        fetched_at="2026-11-16T12:00:00Z",
        body=pack(html),
        fields=fields,
        arrival=ARRIVAL,
    )
    made = extract(page._replace(**changes)).record
    assert made is not None
    return made


def present(made: PageRecord) -> set[str]:
    """Names of fields that say something."""
    return {field.name for field in FIELDS if getattr(made, field.name) not in (None, [], {})}


def test_links_alone_are_links_alone():
    made = record("links")
    assert made.links == ["http://www.example.com/a"]
    assert present(made) - ALWAYS == {"links"}


def test_links_are_followed_even_if_they_are_not_recorded():
    page = FetchedPage(
        *("visit-0001", 3, "00ff" * 8, "http://www.example.com/dir/", 2, 200, "text/html"),
        *("", True, False, "2026-11-16T12:00:00Z", pack(HTML)),
        fields=("title",),
    )
    found = extract(page)
    assert found.links == ["http://www.example.com/a"]
    assert found.record is not None and (found.record.links, found.record.title) == ([], "Home")


def test_where_records_go_nowhere_none_is_made_and_links_are_followed():
    page = FetchedPage(
        *("visit-0001", 3, "00ff" * 8, "http://www.example.com/dir/", 2, 200, "text/html"),
        *("", True, False, "2026-11-16T12:00:00Z", pack(HTML)),
    )
    found = extract(page, is_recorded=False)
    assert (found.record, found.links) == (None, ["http://www.example.com/a"])


def test_the_default_says_what_was_found_and_how_the_page_came():
    made = record("default")
    assert (made.title, made.language, made.description) == ("Home", "en", "It")
    assert (made.link_texts, made.link_rels) == (["a link"], ["next"])
    assert made.text is not None and "Some text" in made.text
    assert (made.size, made.etag, made.last_modified) == (1000, '"x"', None)
    assert (made.dns_ms, made.connect_ms, made.first_byte_ms, made.body_ms) == (1, 2, 3, 4)
    assert (made.all_headers, made.markdown, made.html) == (None, None, None)


def test_all_headers_are_lists_by_their_names():
    assert record("all_headers").all_headers == {"server": ["x"], "set-cookie": ["a", "b"]}


def test_of_a_page_that_asks_not_to_be_indexed_nothing_of_its_own_is_kept():
    made = record(*CHOICES, robots_tag="noindex")
    assert not made.is_indexable
    assert present(made) - ALWAYS == {
        *("language", "links", "link_texts", "link_rels", "size", "etag", "all_headers"),
        *("dns_ms", "connect_ms", "first_byte_ms", "body_ms", "content_hash"),
    }
    assert record("default", html=b"<meta name=robots content=noindex>" + HTML).text is None


def test_what_was_cut_is_named_in_the_record():
    many = b"".join(b"<a href=/%d>x</a>" % number for number in range(1001))
    made = record("links", html=many, cuts=("parse_limit",), is_truncated=True)
    assert (made.cuts, made.is_truncated) == (["parse_limit", "record_limit"], True)


def test_a_field_of_a_newer_release_costs_the_record_and_is_said():
    page = FetchedPage(
        *("visit-0001", 3, "00ff" * 8, "http://www.example.com/dir/", 2, 200, "text/html"),
        *("", True, False, "2026-11-16T12:00:00Z", pack(HTML)),
        fields=("hologram",),
    )
    found = extract(page)
    assert found.record is None
    assert found.problem.startswith("no record: 'hologram' is no field")
    assert found.links == ["http://www.example.com/a"]

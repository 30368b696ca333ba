"""What WAT files tell of pages, as pages."""

from typing import Any

import orjson
import pytest

from manyhands.shared.urls import parse_url
from manyhands.worker.pages.html import extract
from manyhands.worker.warc.wat import wat_page


def told(**answer: Any) -> bytes:
    full = {
        "Response-Message": {"Status": "200", "Version": "HTTP/1.1", "Reason": "OK"},
        "Headers": {"Content-Type": "text/html; charset=iso-8859-1"},
    } | answer
    return orjson.dumps({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": full}}})


PAGE = {
    "Head": {
        "Title": "Grüße & <more>",
        "Base": "https://example.com/base/",
        "Metas": [{"name": "robots", "content": "nofollow"}, {"property": "og:x"}],
        "Link": [{"path": "LINK@/href", "url": "/style.css"}],
    },
    "Links": [
        {"path": "A@/href", "url": "a.html", "text": "A"},
        {"path": "IMG@/src", "url": "/logo.png"},
        {"path": "A@/href", "url": '/b?x="1"&y=2', "rel": "nofollow"},
        {"path": "A@/href"},
    ],
}


def test_title_links_and_wishes_come_through_the_parser() -> None:
    page = wat_page(told(**{"HTML-Metadata": PAGE}))
    assert page is not None
    assert (page.status, page.content_type) == (200, "text/html; charset=iso-8859-1")

    said = extract(page.html, "text/html; charset=utf-8", parse_url("http://example.com/"))

    assert said.title == "Grüße & <more>"
    links = ["https://example.com/base/a.html", "https://example.com/b?x=%221%22&y=2"]
    assert said.links == links
    assert said.nofollow == {links[1]}
    assert said.robots.nofollow and not said.robots.noindex


def test_headers_that_came_twice_are_taken_together() -> None:
    page = wat_page(told(Headers={"x-robots-tag": ["noindex", "nofollow"]}))
    assert page is not None
    assert (page.content_type, page.robots_tag) == ("", "noindex, nofollow")


def test_a_page_without_html_has_no_links() -> None:
    page = wat_page(told())
    assert page is not None
    assert extract(page.html, "text/html", parse_url("http://example.com/")).links == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"Envelope":{"Payload-Metadata":{"HTTP-Request-Metadata":{}}}}',
        told(**{"Response-Message": {"Status": "ok"}}),
        told(Headers=[]),
        told(**{"HTML-Metadata": {"Links": ["x"]}}),
        told(**{"HTML-Metadata": [1]}),
    ],
)
def test_what_tells_of_no_answer_is_no_page(body: bytes) -> None:
    assert wat_page(body) is None

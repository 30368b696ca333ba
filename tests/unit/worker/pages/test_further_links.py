"""What a page names besides the links that people click, and which switch each of it hangs on."""

import pytest

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.crawl.spec import DiscoverySpec
from manyhands.shared.urls import parse_url
from manyhands.worker.pages.further_links import MAX_ELEMENTS, refresh_target
from manyhands.worker.pages.html import Extract, extract

PAGE = parse_url("http://example.com/dir/page")
ALL = DiscoverySpec().follows

HEAD = """
<link rel=next href=2><link rel="Prev" href=0><link rel=previous href=0b>
<link rel=canonical href=/c><link rel="alternate" hreflang=de href=/de>
<link rel=stylesheet href=s.css><link rel="shortcut icon" href=i.png><link rel=search href=/q>
<link rel="alternate stylesheet" href=t.css><link rel=alternate media=print href=/print>
<link rel="next nofollow" href=/ad><link rel=next><link rel=next href=mailto:a@example.com>
"""
FROM_HEAD = ["dir/2", "dir/0", "dir/0b", "c", "de"]
FRAMES = "<iframe src=/i></iframe><IFRAME SRC=x></IFRAME><iframe></iframe><iframe src=about:blank>"
FROM_FRAMES = ["i", "dir/x"]
REFRESH = '<meta http-equiv=Refresh content="5; URL=/r">'


def read(html: str, follows: tuple[str, ...] = ALL, refresh: str = "") -> Extract:
    return extract(html.encode(), "text/html", PAGE, follows=follows, refresh=refresh)


def further(html: str, follows: tuple[str, ...] = ALL, refresh: str = "") -> list[str]:
    found = read(html, follows, refresh).further
    return [url.removeprefix("http://example.com/") for url in found]


@pytest.mark.parametrize(
    ("source", "html", "found"),
    [
        (Source.LINK_ELEMENTS, HEAD, FROM_HEAD),
        (Source.FRAMES, FRAMES, FROM_FRAMES),
        (Source.REFRESH, REFRESH, ["r"]),
    ],
)
def test_each_source_has_a_switch(source, html, found):
    assert further(html) == found
    assert further(html, (source,)) == found
    assert further(html, tuple(name for name in ALL if name != source)) == []


def test_all_are_on_by_default_and_none_is_without_a_crawl():
    assert set(ALL) >= {Source.LINK_ELEMENTS, Source.FRAMES, Source.REFRESH}
    assert further(HEAD + FRAMES + REFRESH, ()) == []


def test_a_frameset_has_its_pages():
    html = "<html><frameset cols='1,2'><frame src=menu><frame src=/main></frameset></html>"
    assert further(html) == ["dir/menu", "main"]


def test_the_base_counts_for_all_of_them():
    html = "<base href=/base/><link rel=next href=n><iframe src=i></iframe>" + REFRESH
    assert further(html) == ["base/n", "base/i", "r"]


def test_the_header_is_heard_besides_the_page():
    assert further(REFRESH, refresh="0;url=h") == ["dir/h", "r"]
    assert further("", refresh="0;url=h") == ["dir/h"]
    assert further("", ("frames",), refresh="0;url=h") == []


def test_each_stands_there_once_and_apart_from_the_links():
    found = read("<a href=/a>a</a><link rel=next href=/n><link rel=canonical href=/n#x>")
    assert (found.links, found.further) == (["http://example.com/a"], ("http://example.com/n",))


def test_more_elements_than_any_page_has_are_cut_and_said():
    html = "".join(f"<link rel=next href=/{number}>" for number in range(MAX_ELEMENTS + 1))
    found = read(html)
    assert len(found.further) == MAX_ELEMENTS
    assert found.cuts == (Cut.LINK_LIMIT,)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/a", "/a"),
        ("5; URL = '/a b'; x", "/a b"),
        ('0,url="/a"', "/a"),
        ("1.5 /a", "/a"),
        (".5;a;b", "a;b"),
        (" 0 ; http://x.example/ ", "http://x.example/"),
        ("5", None),
        ("5;", None),
        ("0;url=", None),
        ("url=/a", None),
        ("", None),
    ],
)
def test_where_a_page_sends_its_readers(content, target):
    assert refresh_target(content) == target

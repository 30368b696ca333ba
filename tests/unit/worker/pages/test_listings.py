"""What feeds and sitemaps list, and where those of strangers are stopped."""

import gzip
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.urls import parse_url
from manyhands.worker.pages import xml_reading
from manyhands.worker.pages.documents import MAX_SITEMAP_BYTES
from manyhands.worker.pages.listings import (
    MAX_ENTRIES_OF_FEED,
    MAX_LASTMOD_LENGTH,
    MAX_LISTED,
    MAX_LISTED_LENGTH,
    Listing,
    read_listing,
)
from manyhands.worker.pages.xml_reading import MAX_DEPTH, MAX_TAG_BYTES

HOST = "http://example.com"
AT = parse_url(f"{HOST}/maps/sitemap.xml")
FEED_AT = parse_url(f"{HOST}/blog/feed")
PIECE = 65_536
TEN_MILLION = 10_000_000


def sitemap(body: bytes | Iterable[bytes], depth: int = 1, *, is_whole: bool = True) -> Listing:
    pieces = [body] if isinstance(body, bytes) else body
    return read_listing(Source.SITEMAPS, pieces, AT, depth, is_whole=is_whole)


def feed(text: str, *, is_whole: bool = True) -> Listing:
    return read_listing(Source.FEEDS, [text.encode()], FEED_AT, 3, is_whole=is_whole)


def urls(*entries: str) -> bytes:
    return b"<urlset>%s</urlset>" % "".join(f"<url>{entry}</url>" for entry in entries).encode()


def loc(path: str) -> str:
    return f"<loc>{HOST}{path}</loc>"


def index(*paths: str) -> bytes:
    children = "".join(f"<sitemap>{loc(path)}</sitemap>" for path in paths)
    return f"<sitemapindex>{children}</sitemapindex>".encode()


def endless(start: bytes, repeated: bytes, count: int) -> Iterator[bytes]:
    """In pieces, never held as a whole."""
    yield start
    many = max(1, PIECE // len(repeated))
    for _ in range(0, count, many):
        yield repeated * many


def test_urls_come_with_the_time_of_their_last_change():
    body = urls(
        loc("/a") + "<lastmod>2026-11-19</lastmod>",
        "<lastmod>2025-01-01T00:00:00Z</lastmod>" + loc("/b?x=1&amp;y=2"),
        f"\n <loc>\n {HOST}/c#part </loc> <changefreq>daily</changefreq>",
        loc("/d") + f"<lastmod>{'9' * 1000}</lastmod>",
    )
    assert sitemap(body) == Listing(
        {
            f"{HOST}/a": "2026-11-19",
            f"{HOST}/b?x=1&y=2": "2025-01-01T00:00:00Z",
            f"{HOST}/c": "",
            f"{HOST}/d": "9" * MAX_LASTMOD_LENGTH,
        }
    )


def test_pictures_in_a_sitemap_are_not_taken():
    picture = f"<image:image><image:loc>{HOST}/p.jpg</image:loc></image:image>"
    body = urls(loc("/a") + picture).replace(b"<urlset>", b"<urlset xmlns:image='i'>")
    assert list(sitemap(body).found) == [f"{HOST}/a"]


def test_a_prefix_or_a_packed_file_changes_nothing():
    body = f"<s:urlset xmlns:s='x'><s:url><s:loc>{HOST}/a</s:loc></s:url></s:urlset>".encode()
    assert list(sitemap(body).found) == [f"{HOST}/a"]
    assert sitemap(gzip.compress(body)) == sitemap(body)


def test_a_sitemap_speaks_for_its_own_host_alone():
    others = ("http://other.example/x", "https://www.example.com/", "mailto:a@b.example", "")
    body = urls(loc("/a"), *(f"<loc>{url}</loc>" for url in others))
    listing = sitemap(body)
    assert (list(listing.found), listing.refused) == ([f"{HOST}/a"], len(others))


@pytest.mark.parametrize("depth", [0, 1, 7])
def test_its_urls_are_as_deep_as_links_of_a_seed_wherever_it_was_found(depth):
    assert sitemap(urls(loc("/a")), depth).depth == 0


def test_an_index_names_sitemaps_that_are_one_deeper():
    listing = sitemap(index("/1.xml", "/2.xml.gz"), depth=1)
    assert listing == Listing({f"{HOST}/1.xml": "", f"{HOST}/2.xml.gz": ""}, depth=1)


def test_an_index_in_an_index_is_not_followed():
    assert sitemap(index("/1.xml"), depth=2) == Listing({}, cuts=[Cut.NESTED_INDEX], depth=2)


RSS = """<?xml version="1.0"?><!DOCTYPE rss SYSTEM "http://example.com/rss.dtd">
<rss xmlns:atom="http://www.w3.org/2005/Atom"><channel><link>http://example.com/</link>
<atom:link rel="self" href="http://example.com/blog/feed"/>
<image><link>http://example.com/logo</link></image>
<item><title>A &amp; B</title><link> http://example.com/blog/a </link>
<enclosure url="http://example.com/a.mp3"/><guid>b</guid></item>
<item><link>b?c&amp;d</link></item><item><link></link></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="/blog/"/>
<link rel="self" href="/blog/feed"/><entry><link rel="alternate" href="a"/>
<link rel="enclosure" href="a.mp3"/><content type="xhtml"><div><a href="x">x</a></div></content>
</entry><entry><link href="//other.example/b"/></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="r"><channel><link>http://example.com/</link></channel>
<item rdf:about="x"><link>/rdf</link></item></rdf:RDF>"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (RSS, ["/", "/blog/a", "/blog/b?c&d", "/blog/feed"]),
        (ATOM, ["/blog/", "/blog/a", "//other.example/b"]),
        (RDF, ["/", "/rdf"]),
    ],
    ids=["RSS", "Atom", "RDF"],
)
def test_a_feed_gives_its_entries(text, found):
    listing = feed(text)
    expected = [f"http:{path}" if path.startswith("//") else HOST + path for path in found]
    assert (list(listing.found), listing.cuts, listing.depth) == (expected, [], 3)


def test_a_feed_with_more_entries_than_a_page_has_links_is_cut():
    items = "".join(f"<item><link>/{n}</link></item>" for n in range(MAX_ENTRIES_OF_FEED + 1))
    listing = feed(f"<rss><channel>{items}</channel></rss>")
    assert (len(listing.found), listing.cuts) == (MAX_ENTRIES_OF_FEED, [Cut.LINK_LIMIT])


# Hostile ones

BOMB = """<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>"""
OUTSIDE = """<!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/passwd">]>"""
PARAMETER = """<!DOCTYPE b [<!ENTITY % p SYSTEM "http://example.com/p.dtd"> %p;]>"""


@pytest.mark.parametrize("declaration", [BOMB, OUTSIDE, PARAMETER])
def test_what_declares_entities_is_not_read(declaration):
    body = declaration.encode() + urls(f"<loc>{HOST}/&b;&x;</loc>")
    assert sitemap(body) == Listing({}, cuts=[Cut.ENTITIES], depth=1)


def test_of_ten_million_urls_as_many_are_taken_as_the_standard_allows():
    made = []

    def pieces() -> Iterator[bytes]:
        yield b"<urlset>"
        for at in range(0, TEN_MILLION, 1000):
            made.append(at)
            yield b"".join(urls(loc(f"/{at + number}"))[8:-9] for number in range(1000))

    listing = sitemap(pieces())
    assert (len(listing.found), listing.cuts) == (MAX_LISTED, [Cut.SITEMAP_URLS])
    # What follows was not even asked for.
    assert made[-1] == MAX_LISTED


@pytest.mark.parametrize(
    "entry", ["<loc>mailto:x@y.example</loc>", "<loc>http://other.example/</loc>", loc("/same")]
)
def test_those_that_are_refused_or_come_again_count_as_well(entry):
    listing = sitemap(endless(b"<urlset>", f"<url>{entry}</url>".encode(), 2 * MAX_LISTED))
    assert listing.cuts == [Cut.SITEMAP_URLS]
    assert len(listing.found) + listing.refused in (1, MAX_LISTED)


def test_the_length_of_all_urls_is_bounded():
    long = "x" * 4000
    entries = (f"<url>{loc(f'/{number}/{long}')}</url>".encode() for number in range(10_000))
    listing = sitemap([b"<urlset>", *entries])
    assert listing.cuts == [Cut.SITEMAP_URLS]
    assert sum(map(len, listing.found)) <= MAX_LISTED_LENGTH


def test_a_bomb_is_read_up_to_what_a_sitemap_may_have():
    start = urls(loc("/a")).removesuffix(b"</urlset>")
    bomb = gzip.compress(start + b" " * MAX_SITEMAP_BYTES)
    listing = sitemap(bomb)
    assert (list(listing.found), listing.cuts) == ([f"{HOST}/a"], [Cut.SITEMAP_BYTES])


@pytest.mark.parametrize(
    ("start", "repeated", "cut"),
    [
        (b"<urlset>", b"<!-- x -->" * 100, Cut.SITEMAP_BYTES),
        (b"<urlset>", b" " * 1000, Cut.SITEMAP_BYTES),
        (b"<urlset><url><loc>", b"x" * 1000, Cut.SITEMAP_BYTES),
        (b"<urlset><a b='", b"x" * 1000, Cut.XML),
        (b"<urlset>", b"<a>", Cut.NESTING),
        (b"<urlset>", b"<url><loc>http://other.example/</loc></url>", Cut.SITEMAP_URLS),
    ],
)
def test_what_has_no_end_takes_little_memory(start, repeated, cut):
    tracemalloc.start()
    try:
        listing = sitemap(endless(start, repeated, TEN_MILLION))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert listing.cuts == [cut]
    # Where a tag has not ended, the parser holds it twice.
    assert peak < 4 * MAX_TAG_BYTES


@pytest.mark.parametrize(
    ("pieces", "cut"),
    [
        (endless(b"<urlset>", b"<a>", 10 * MAX_DEPTH), Cut.NESTING),
        (endless(b"<urlset><!--", b"x", 4 * MAX_TAG_BYTES), Cut.XML),
        (endless(b"<urlset><a b='", b"x", 4 * MAX_TAG_BYTES), Cut.XML),
        (endless(b"<urlset><url><loc>", b"x", 4 * MAX_TAG_BYTES), Cut.XML),
        (iter([b"<urlset>", gzip.compress(b"x", mtime=0)]), Cut.XML),
        (iter([gzip.compress(urls(loc("/a")), mtime=0)[:40] + bytes(100)]), Cut.DAMAGE),
        (iter([b"<?xml version='1.0' encoding='no-such'?><urlset/>"]), Cut.XML),
        (iter([b"<?xml version='1.0' encoding='utf-7'?><urlset/>"]), Cut.XML),
        (iter([b""]), Cut.XML),
    ],
)
def test_what_is_bad_is_cut_there(pieces, cut):
    assert sitemap(pieces).cuts == [cut]


def test_elements_are_counted(monkeypatch):
    monkeypatch.setattr(xml_reading, "MAX_ELEMENTS", 1000)
    whole = b"<urlset>%s</urlset>" % (b"<a/>" * 999)
    assert sitemap(whole).cuts == []
    assert sitemap(whole.replace(b"<a/>", b"<a/><a/>", 1)).cuts == [Cut.XML]


def test_what_came_before_the_fault_counts():
    listing = sitemap(b"<urlset><url>" + loc("/a").encode() + b"</url><url><loc>x & y</loc>")
    assert (list(listing.found), listing.cuts) == ([f"{HOST}/a"], [Cut.XML])


def test_one_that_was_cut_when_it_was_fetched_is_not_bad_besides():
    body = b"<urlset><url>" + loc("/a").encode() + b"</url><url><lo"
    assert sitemap(body, is_whole=False) == Listing({f"{HOST}/a": ""})


@pytest.mark.parametrize("size", [1, 7, PIECE])
def test_a_sitemap_in_plain_text_has_a_url_a_line(size: int) -> None:
    lines = (f"{HOST}/a\r", "", f"  {HOST}/b ", f"{HOST}/\u00e9", "http://other.example/", "no URL")
    text = "\n".join(("\ufeff" + lines[0], *lines[1:], f"{HOST}/last")).encode()
    for body, is_whole, last in ((text, True, ["/last"]), (text, False, [])):
        whole = [body[:40], *(body[at : at + size] for at in range(40, len(body), size))]
        listing = sitemap(whole, is_whole=is_whole)
        expected = [f"{HOST}{path}" for path in ("/a", "/b", "/%C3%A9", *last)]
        assert (list(listing.found), listing.refused) == (expected, 2)
        assert (listing.depth, listing.cuts) == (0, [])


def test_a_packed_text_is_read_and_a_damaged_one_ends() -> None:
    packed = gzip.compress(f"{HOST}/a\n{HOST}/b\n".encode())
    assert list(sitemap(packed).found) == [f"{HOST}/a", f"{HOST}/b"]
    assert sitemap(packed[:10] + b"\xff\xff\xff" + packed[13:]).cuts == [Cut.DAMAGE]


def test_a_text_without_end_is_cut_with_the_memory_that_its_urls_take() -> None:
    def too_many() -> Iterator[bytes]:
        for number in range(TEN_MILLION):
            yield f"{HOST}/{number}\n".encode()

    listing = sitemap(too_many())
    assert (len(listing.found), listing.cuts) == (MAX_LISTED, [Cut.SITEMAP_URLS])
    one_line = sitemap(endless(f"{HOST}/a\n{HOST}/".encode(), b"x", 2 * MAX_SITEMAP_BYTES))
    assert (list(one_line.found), one_line.cuts) == ([f"{HOST}/a"], [Cut.SITEMAP_BYTES])

"""Feeds and sitemaps as the parse stage takes them: any bytes, packed or not."""

import gzip

from hypothesis import strategies as st

from manyhands.shared.crawl.discovery import DOCUMENTS
from manyhands.shared.urls import parse_url
from manyhands.worker.pages.documents import kind_of, pack_sitemap, unpack
from manyhands.worker.pages.listings import MAX_LISTED, read_listing
from tests.fuzz.inputs import Pieces, damaged
from tests.fuzz.targets import Fault, InProcess

URL = parse_url("http://example.com/sitemap.xml")
MAX_BYTES = 2_000_000
MESSAGES = (
    b"<?xml version='1.0' encoding='utf-8'?><urlset xmlns='http://s.example/0.9'><url>"
    b"<loc>http://example.com/a?b=c&amp;d=e</loc><lastmod>2026-11-19</lastmod></url></urlset>",
    b"<sitemapindex><sitemap><loc> http://example.com/1.xml.gz </loc></sitemap></sitemapindex>",
    b"<rss version='2.0'><channel><item><link>/a</link><guid>b</guid></item></channel></rss>",
    b"<feed xmlns='http://www.w3.org/2005/Atom'><entry><link rel=\"alternate\" href='a'/></entry>",
    b"<!DOCTYPE x [<!ENTITY a 'b'><!ENTITY % p SYSTEM 'q'>]><urlset>&a;%p;</urlset>",
    b"<r:RDF xmlns:r='x'><item r:about='y'><link>/z</link></item></r:RDF>",
)
WORDS = (
    *(b"<url>", b"</url>", b"<loc>", b"</loc>", b"http://example.com/", b"<sitemap>", b"<item>"),
    *(b"<link>", b"</link>", b"<link href='", b"'/>", b"<a", b"<!--", b"-->", b"<![CDATA[", b"]]>"),
    *(b"<!DOCTYPE x [", b"]>", b"<!ENTITY a '&a;&a;'>", b"&a;", b"&#0;", b"&#x1F600;", b"&amp;"),
    *(b"<?xml version='1.0' encoding='", b"utf-16'?>", b"koi8-r'?>", b"<?a", b"?>", b"\xff\xfe"),
)


class Listings(InProcess):
    inputs = st.tuples(
        st.sampled_from((b"", b"gzip")),
        damaged(MESSAGES, WORDS, most_messages=4, max_bytes=MAX_BYTES),
    ).map(list)

    def call(self, pieces: Pieces) -> None:
        how, body = pieces
        packed, _ = pack_sitemap(gzip.compress(body, 1) if how else body)
        kind_of(body)
        for kind in DOCUMENTS:
            listing = read_listing(kind, unpack(packed), URL, 1, is_whole=True)
            if len(listing.found) > MAX_LISTED:
                raise Fault(f"{len(listing.found)} URLs")

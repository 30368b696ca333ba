"""How feeds and sitemaps are known among answers, and how they travel."""

import gzip
import random
import zlib

import pytest

from manyhands.shared.crawl.discovery import DOCUMENTS, Source
from manyhands.worker.pages.bodies import BadBody
from manyhands.worker.pages.documents import (
    MAX_GZIP_MEMBERS,
    MAX_PACKED_BYTES,
    MAX_SITEMAP_BYTES,
    PIECE_BYTES,
    decompressed,
    is_named_like_a_sitemap,
    kind_of,
    may_be,
    pack_sitemap,
    unpack,
)

SITE = "http://example.com"
SITEMAP = b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'></urlset>"


@pytest.mark.parametrize(
    ("content_type", "path", "needs"),
    [
        ("application/rss+xml", "/feed", {Source.FEEDS}),
        ("Application/Atom+XML; charset=utf-8", "/feed", {Source.FEEDS}),
        ("text/xml", "/x", {Source.FEEDS}),
        ("application/xml", "/x", {Source.SITEMAPS}),
        ("application/gzip", "/a/sitemap-1.xml.gz?x=1", {Source.SITEMAPS}),
        ("application/octet-stream", "/SITEMAP.gz", {Source.SITEMAPS}),
        ("text/plain; charset=utf-8", "/sitemap-2.txt", {Source.SITEMAPS}),
        ("text/plain", "/urllist.txt", {Source.SITEMAPS}),
    ],
)
def test_what_may_list_urls_is_read(content_type, path, needs):
    assert may_be(content_type, SITE + path, DOCUMENTS)
    assert may_be(content_type, SITE + path, needs)
    assert not may_be(content_type, SITE + path, frozenset())


@pytest.mark.parametrize(
    ("content_type", "path"),
    [
        ("application/gzip", "/release.tar.gz"),
        ("application/octet-stream", "/sitemap/setup.exe"),
        ("application/pdf", "/sitemap.xml"),
        ("image/svg+xml", "/a.xml"),
        ("application/json", "/feed"),
        ("text/plain", "/notes.txt"),
    ],
)
def test_other_files_are_not_read(content_type, path):
    assert not may_be(content_type, SITE + path, DOCUMENTS)


def test_a_name_says_that_more_may_be_read():
    named = ("/sitemap", "/Sitemap_index?page=1", "/a.xml", "/a.xml.gz", "/x/sitemap-2.php")
    assert all(is_named_like_a_sitemap(SITE + path) for path in named)
    assert not any(is_named_like_a_sitemap(SITE + path) for path in ("/", "/sitemap/a", "/xml"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (SITEMAP, Source.SITEMAPS),
        (gzip.compress(SITEMAP, mtime=0), Source.SITEMAPS),
        (b"\xef\xbb\xbf\n" + SITE.encode() + b"/a\r\n" + SITE.encode() + b"/b", Source.SITEMAPS),
        (SITE.encode() + b"/a", Source.SITEMAPS),
        (SITE.encode() + b"/a is a page", None),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- <rss> --><s:sitemapindex/>", Source.SITEMAPS),
        ("<?xml version='1.0' encoding='utf-16'?><feed/>".encode("utf-16"), Source.FEEDS),
        (b"<?xml-stylesheet href='a'?><!DOCTYPE rss><rss version='2.0'>", Source.FEEDS),
        (b"<rdf:RDF xmlns:rdf='x'>", Source.FEEDS),
        (b"<html><urlset/></html>", None),
        (b"<a" * 10_000, None),
        (b"", None),
        (b"\x1f\x8bno gzip", None),
    ],
)
def test_the_first_element_says_what_it_is(body, kind):
    assert kind_of(body) is kind


def test_a_sitemap_travels_whole():
    body = SITEMAP * 20_000
    packed, is_cut = pack_sitemap(body)
    pieces = list(unpack(packed))
    assert (b"".join(pieces), is_cut) == (body, False)
    assert max(map(len, pieces)) <= PIECE_BYTES


def test_what_cannot_be_packed_well_is_cut():
    body = random.Random(1).randbytes(2 * MAX_PACKED_BYTES)
    packed, is_cut = pack_sitemap(body)
    assert is_cut
    assert len(packed) <= MAX_PACKED_BYTES * 4 / 3 + 4
    got = b"".join(unpack(packed))
    assert body.startswith(got)
    assert len(got) > MAX_PACKED_BYTES / 2


def test_more_than_a_sitemap_may_have_is_cut():
    packed, is_cut = pack_sitemap(bytes(MAX_SITEMAP_BYTES + 1))
    assert is_cut
    assert sum(map(len, unpack(packed))) == MAX_SITEMAP_BYTES


def test_what_is_no_packed_body_is_refused():
    for text in ("no base64", "bm8genN0ZA=="):
        with pytest.raises(BadBody):
            list(unpack(text))


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 1_000_000])
def test_a_packed_file_is_unpacked_in_pieces(size):
    body = random.Random(2).randbytes(size // 2) + bytes(size - size // 2)
    packed = gzip.compress(body[:1000]) + gzip.compress(body[1000:])
    pieces = list(decompressed(packed[at : at + 777] for at in range(0, len(packed), 777)))
    assert b"".join(pieces) == body
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)


def test_a_bomb_is_unpacked_no_further_than_it_is_read():
    bomb = gzip.compress(bytes(20_000_000), 9)
    pieces = decompressed([bomb])
    assert len(next(pieces)) == PIECE_BYTES


def test_members_without_end_are_damage():
    with pytest.raises(zlib.error, match="members"):
        list(decompressed([gzip.compress(b"") * (MAX_GZIP_MEMBERS + 1)]))


def test_a_file_that_is_cut_short_just_ends():
    packed = gzip.compress(random.Random(3).randbytes(10_000))
    assert len(b"".join(decompressed([packed[:5000]]))) > 4000

"""Answers that are no pages and name some: feeds and sitemaps. How they are known, and how they
travel to the parse stage. Pure."""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from io import BytesIO

import pybase64
import zstandard

from manyhands.shared.crawl.discovery import Source
from manyhands.worker.pages.bodies import LEVEL, MAX_WINDOW_BYTES, BadBody

# As sitemaps.org says, decompressed.
MAX_SITEMAP_BYTES = 50 * 1024 * 1024
# Of one that is handed to the parse stage. A full sitemap of usual URLs takes a tenth of it.
MAX_PACKED_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 64 * 1024
# Of one file: each costs as much as a few kilobytes.
MAX_GZIP_MEMBERS = 1000
# The root element stands within.
_SNIFFED_BYTES = 8192

_XML_TYPES = frozenset({"application/xml", "text/xml"})
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml"})
_GZIP_TYPES = frozenset(
    {"application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream"}
)
_TEXT_TYPE = "text/plain"
_GZIP_MAGIC = b"\x1f\x8b"
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_ROOT = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z]+)")
# A list in plain text begins with a URL that has its line to itself.
_FIRST_URL = re.compile(rb"\s*https?://[^\s<>]+[ \t]*(?:[\r\n]|\Z)", re.I)
_UTF8_MARK = b"\xef\xbb\xbf"
_KINDS = {
    b"urlset": Source.SITEMAPS,
    b"sitemapindex": Source.SITEMAPS,
    b"rss": Source.FEEDS,
    b"feed": Source.FEEDS,
    b"rdf": Source.FEEDS,
}


def is_feed_type(content_type: str) -> bool:
    return _bare(content_type) in _FEED_TYPES


def may_be(content_type: str, url: str, reads: Collection[str]) -> bool:
    """Whether the body is worth reading: only that tells. `reads` are sources of URLs that are
    documents of their own."""
    kind = _bare(content_type)
    if kind in _FEED_TYPES:
        return Source.FEEDS in reads
    if kind in _XML_TYPES:
        return bool(reads)
    if Source.SITEMAPS not in reads:
        return False
    name = _name(url)
    if kind == _TEXT_TYPE:
        # Of all texts, which may be long, only its name tells.
        return "sitemap" in name or name == "urllist.txt"
    return (
        kind in _GZIP_TYPES
        and name.endswith(".gz")
        and ("sitemap" in name or name.endswith(".xml.gz"))
    )


def is_named_like_a_sitemap(url: str) -> bool:
    """More is read of such an answer than of a page."""
    name = _name(url)
    return "sitemap" in name or name.endswith((".xml", ".xml.gz"))


def kind_of(body: bytes) -> Source | None:
    """By its first element, or its first line."""
    first = body[:_SNIFFED_BYTES]
    try:
        first = next(decompressed([first]), b"")
    except zlib.error:
        return None
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        first = first.decode("utf-16", "replace").encode()
    if is_list_of_urls(first):
        return Source.SITEMAPS
    root = _ROOT.search(_COMMENT.sub(b"", first[:_SNIFFED_BYTES]))
    return None if root is None else _KINDS.get(root[1].lower())


def is_list_of_urls(first: bytes) -> bool:
    """A sitemap in plain text, by how it begins."""
    return _FIRST_URL.match(first.removeprefix(_UTF8_MARK)) is not None


def pack_sitemap(body: bytes) -> tuple[str, bool]:
    """What of it is parsed, and whether anything was cut."""
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    kept = body[:MAX_SITEMAP_BYTES]
    packed = compressor.compress(kept)
    while len(packed) > MAX_PACKED_BYTES:
        kept = kept[: min(len(kept) * MAX_PACKED_BYTES // len(packed), len(kept) * 9 // 10)]
        packed = compressor.compress(kept)
    return pybase64.b64encode_as_string(packed), len(kept) < len(body)


def unpack(text: str) -> Iterator[bytes]:
    """In pieces. Raises BadBody."""
    try:
        packed = pybase64.b64decode(text, validate=True)
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        with decompressor.stream_reader(BytesIO(packed)) as reader:
            while piece := reader.read(PIECE_BYTES):
                yield piece
    except (ValueError, zstandard.ZstdError) as error:
        raise BadBody(f"the body is not base64 of zstd: {error}") from None


def decompressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """As they are, or unpacked where they are a .gz file, in pieces of no more than PIECE_BYTES
    then. Raises zlib.error at what is damaged; a file that is cut short just ends."""
    inflater = None
    is_first = True
    for piece in pieces:
        if is_first and piece.startswith(_GZIP_MAGIC):
            inflater = _Gunzip()
        is_first = False
        if inflater is None:
            yield piece
        else:
            yield from inflater.feed(piece)


class _Gunzip:
    """State: the member under way, and how many there were."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)
        self._members = 1

    def feed(self, packed: bytes) -> Iterator[bytes]:
        while True:
            piece = self._inflater.decompress(packed, PIECE_BYTES)
            if piece:
                yield piece
            packed = self._inflater.unconsumed_tail
            if self._inflater.eof:
                packed = self._inflater.unused_data
                self._next_member()
            elif len(piece) == PIECE_BYTES:
                # There may be more of it even without more input.
                continue
            if not packed:
                return

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise zlib.error("too many members")
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS + 16)


def _bare(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _name(url: str) -> str:
    """The last segment of its path."""
    return url.partition("?")[0].rpartition("/")[2].lower()

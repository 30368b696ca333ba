"""The URLs that a feed or a sitemap lists, and for sitemaps when each was changed last. Pure."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import Source
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Url, parse_url, resolve_reference
from manyhands.worker.pages.documents import (
    MAX_SITEMAP_BYTES,
    decompressed,
    is_list_of_urls,
)
from manyhands.worker.pages.xml_reading import MAX_TEXT_LENGTH, Element, Enough, XmlReader

# As sitemaps.org says, of URLs and of sitemaps in an index.
MAX_LISTED = 50_000
# Of the URLs of a sitemap together: 160 characters each if it is full.
MAX_LISTED_LENGTH = 8_000_000
MAX_ENTRIES_OF_FEED = 6000
# An index is read where robots.txt or a seed names it. Deeper, it was named by another index, which
# sitemaps.org forbids.
MAX_INDEX_DEPTH = 1
MAX_LASTMOD_LENGTH = 40
_SITEMAP_PARENTS = frozenset({"url", "sitemap"})
_FEED_PARENTS = frozenset({"item", "entry", "channel", "feed"})


@dataclass(slots=True)
class Listing:
    """`found` has a URL's lastmod, as it was written, or an empty text. `refused` counts those of
    other hosts, which a sitemap cannot speak for, and what is no URL. `depth` is that of the
    document for what it lists."""

    found: dict[str, str] = field(default_factory=dict)
    refused: int = 0
    cuts: list[Cut] = field(default_factory=list)
    depth: int = 0


def read_listing(
    kind: Source, pieces: Iterable[bytes], url: Url, depth: int, *, is_whole: bool
) -> Listing:
    """Of a document at that depth, as it was fetched. Raises what `pieces` raise."""
    listing = Listing(depth=depth)
    unpacked = _bounded(decompressed(pieces))
    if kind is Source.SITEMAPS:
        try:
            first = next(unpacked, b"")
        except zlib.error:
            listing.cuts.append(Cut.DAMAGE)
            return listing
        unpacked = chain([first], unpacked)
        if is_list_of_urls(first):
            return _read_text(unpacked, url, listing, is_whole=is_whole)
    reader = _Feed(url, listing) if kind is Source.FEEDS else _Sitemap(url, listing)
    xml = XmlReader(reader.is_wanted, reader.ended)
    try:
        cut = xml.read(unpacked, is_whole=is_whole)
    except zlib.error:
        cut = Cut.DAMAGE
    if cut is not None:
        listing.cuts.append(cut)
    return listing


def _read_text(pieces: Iterable[bytes], url: Url, listing: Listing, *, is_whole: bool) -> Listing:
    """A URL a line, in UTF-8."""
    sitemap = _Sitemap(url, listing)
    listing.depth = 0
    try:
        for line in _lines(pieces, is_whole=is_whole):
            if text := line.decode("utf-8-sig", "replace").strip():
                sitemap.listed(text)
    except Enough as enough:
        listing.cuts.append(enough.cut)
    except zlib.error:
        listing.cuts.append(Cut.DAMAGE)
    return listing


def _lines(pieces: Iterable[bytes], *, is_whole: bool) -> Iterator[bytes]:
    """One that is too long is cut short, and no URL then."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).splitlines(keepends=True) or [b""]
        yield from lines
        if rest.endswith(b"\n"):
            yield rest
            rest = b""
        rest = rest[: MAX_TEXT_LENGTH + 1]
    if is_whole:
        yield rest


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_SITEMAP_BYTES:
            raise Enough(Cut.SITEMAP_BYTES)
        yield piece


class _Feed:
    """RSS has an entry's URL in the text of <link>, Atom in its href. State: what was found, and in
    how many of them."""

    def __init__(self, url: Url, listing: Listing) -> None:
        self._url = url
        self._found = listing.found
        self._entries = 0

    def is_wanted(self, element: Element) -> bool:
        return element.name == "link" and element.parent in _FEED_PARENTS

    def ended(self, element: Element, text: str) -> None:
        if element.attributes.get("rel", "alternate") != "alternate":
            return
        self._entries += 1
        if self._entries > MAX_ENTRIES_OF_FEED:
            raise Enough(Cut.LINK_LIMIT)
        reference = element.attributes.get("href") or text
        with suppress(InvalidUrl):
            self._found[resolve_reference(self._url, reference).text] = ""


class _Sitemap:
    """State: <loc> and <lastmod> of the entry under way, which come in any order; how many entries
    there were, and how long they are together."""

    def __init__(self, url: Url, listing: Listing) -> None:
        self._url = url
        self._listing = listing
        self._loc = self._lastmod = ""
        self._entries = 0
        self._length = 0
        self._is_index: bool | None = None

    def is_wanted(self, element: Element) -> bool:
        if self._is_index is None:
            self._begin(is_index=element.name == "sitemapindex")
        if element.name in _SITEMAP_PARENTS:
            self._loc = self._lastmod = ""
        # Not those of pictures and films, which have parents of their own.
        return element.name in ("loc", "lastmod") and element.parent in _SITEMAP_PARENTS

    def _begin(self, *, is_index: bool) -> None:
        self._is_index = is_index
        if not is_index:
            # Like links of a seed, wherever the sitemap was found.
            self._listing.depth = 0
        elif self._listing.depth > MAX_INDEX_DEPTH:
            raise Enough(Cut.NESTED_INDEX)

    def ended(self, element: Element, text: str) -> None:
        if element.name == "loc":
            self._take(text)
        else:
            self._lastmod = text[:MAX_LASTMOD_LENGTH]
        if self._loc:
            self._listing.found[self._loc] = self._lastmod

    def listed(self, url: str) -> None:
        """By a line of a text."""
        self._take(url)
        if self._loc:
            self._listing.found[self._loc] = ""

    def _take(self, text: str) -> None:
        self._loc = ""
        self._entries += 1
        self._length += len(text)
        if self._entries > MAX_LISTED or self._length > MAX_LISTED_LENGTH:
            raise Enough(Cut.SITEMAP_URLS)
        with suppress(InvalidUrl):
            url = parse_url(text)
            if url.host == self._url.host:
                self._loc = url.text
        if not self._loc:
            self._listing.refused += 1

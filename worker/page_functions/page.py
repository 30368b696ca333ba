"""A page of a crawl as a function of the user's sees it, and what the function asks for. Pure.

Nothing is decoded or parsed before it is asked for: a function that only looks at the record costs
next to nothing.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import orjson

from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.shared.errors import ConfigError, InvalidUrl
from manyhands.shared.extras import import_extra
from manyhands.shared.urls import Links, parse_url, resolve_reference
from manyhands.worker.pages.bodies import unpack
from manyhands.worker.pages.charset import decode
from manyhands.worker.pages.extraction import MAX_LINKS_LENGTH, ExtractedPage
from manyhands.worker.pages.html import MAX_CRAWLED_LINKS
from manyhands.worker.pages.html_guard import tamed
from manyhands.worker.records import PageRecord, PlainRecord

if TYPE_CHECKING:
    from parsel import Selector, SelectorList

# As JSON, in bytes: of a note, of a record, and of all records of a page.
MAX_NOTE_BYTES = 4096
MAX_ITEM_BYTES = 1_000_000
MAX_ITEMS_BYTES = 8_000_000
MAX_ITEMS = 10_000
MAX_KEY_LENGTH = 1000

DEFAULT_KIND = "item"
_KIND = re.compile("[a-z][a-z0-9_]{0,49}")
_OURS = frozenset(str(kind) for kind in RecordKind)
_KEY_BYTES = 16


class Page:
    """`url` is the page's own, `status`, `headers` (names in lower case) and `body` are those of
    the answer; the body may be cut, which `record.cuts` says. `record` is what the crawl extracts.
    `note` is what the URL was followed with, `depth` how many links it is from a seed, `attempts`
    how often it was fetched before and tried again.

    `links` are the URLs in the page that the crawl goes on with: change the list to go on with
    others. What is followed, they or those of `follow`, passes the crawl's scope and limits and the
    site's robots.txt like any link."""

    def __init__(self, fetched: FetchedPage, found: ExtractedPage, *, can_emit: bool) -> None:
        self._fetched = fetched
        self._found = found
        self._can_emit = can_emit
        self.visit = fetched.visit
        self.url = fetched.url
        self.status = fetched.status
        self.content_type = fetched.content_type
        self.depth = fetched.depth
        self.attempts = fetched.attempts
        self.note: Any = orjson.loads(fetched.note) if fetched.note else None
        self.links = list(found.links)
        self.asked = Asked()

    def __repr__(self) -> str:
        return f"<Page {self.url}>"

    @property
    def record(self) -> PageRecord:
        if self._found.record is None:
            raise ValueError(f"{self.url} has no record")
        return self._found.record

    @cached_property
    def headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in self._fetched.arrival.headers if self._fetched.arrival else ():
            key = name.lower()
            found[key] = f"{found[key]}, {value}" if key in found else value
        return found

    @cached_property
    def body(self) -> bytes:
        return unpack(self._fetched.body)

    @cached_property
    def text(self) -> str:
        """The body, decoded as browsers do."""
        return decode(self.body, self.content_type)

    @cached_property
    def selector(self) -> "Selector":
        """Of parsel, which is also Scrapy's. The page is parsed when it is first asked for, without
        what would take a parser too long."""
        made: Selector = import_extra("parsel", "a page's selectors", "worker").Selector(
            tamed(self.text).text or "<html></html>"
        )
        return made

    def css(self, query: str) -> "SelectorList[Selector]":
        """Such as `page.css("div.quote span::text").getall()`."""
        return self.selector.css(query)

    def xpath(self, query: str, **variables: Any) -> "SelectorList[Selector]":
        """Such as `page.xpath("//a[@rel='next']/@href").get()`."""
        return self.selector.xpath(query, **variables)

    def emit(self, item: Any, *, kind: str = DEFAULT_KIND, key: str | None = None) -> None:
        """A record for the crawl's sinks: `item` is anything that is JSON. Of all records of that
        kind and key in the crawl the sinks keep one, whichever page they are from; without a key,
        this is a record of its own. Either way a repeat of the page makes no second one."""
        if not _KIND.fullmatch(kind) or kind in _OURS:
            raise ValueError(f"no kind of record: {kind!r} (a-z, 0-9, _; not {', '.join(_OURS)})")
        if key is not None and not 1 <= len(key) <= MAX_KEY_LENGTH:
            raise ValueError(f"a key has 1 to {MAX_KEY_LENGTH} characters")
        if not self._can_emit:
            raise ConfigError("this worker has no sink for it, a record would be lost: set SINKS")
        self.asked.take(self._record(item, kind, key))

    def follow(self, target: "str | Selector | Iterable[str | Selector]", note: Any = None) -> None:
        """Go on with these URLs too, before the page's links: a reference, an element with one, or
        many of them. `note`, which is JSON, is on the page when it was fetched, if the crawl did
        not know the URL before."""
        text = "" if note is None else orjson.dumps(note).decode()
        if len(text.encode()) > MAX_NOTE_BYTES:
            raise ValueError(f"a note has at most {MAX_NOTE_BYTES} bytes as JSON")
        is_one = isinstance(target, str) or hasattr(target, "root")
        for one in cast("Iterable[str | Selector]", [target] if is_one else target):
            url = self._resolved(one if isinstance(one, str) else _reference(one))
            if url is None:
                self.asked.refused += 1
            else:
                self.asked.follow(url, text)

    def drop(self) -> None:
        """The page itself gets no record. What is emitted and followed counts all the same."""
        self.asked.is_dropped = True

    def _record(self, item: Any, kind: str, key: str | None) -> PlainRecord:
        visit = self._fetched.visit
        if key is None:
            record_id = f"{visit}.{kind}.{len(self.asked.items)}"
        else:
            # Of the store and of the crawl; the rest says which page.
            crawl = ".".join(visit.split(".")[:2])
            digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES)
            record_id = f"{crawl}.{kind}.{digest.hexdigest()}"
        # Now: what is no JSON is to be seen in the function's own traceback.
        size = len(orjson.dumps(item))
        if size > MAX_ITEM_BYTES:
            raise ValueError(f"a record has at most {MAX_ITEM_BYTES} bytes as JSON, not {size}")
        body = {
            "id": record_id,
            "kind": kind,
            "crawl": self._fetched.crawl,
            "url": self.url,
            "fetched_at": self._fetched.fetched_at,
            "item": item,
        }
        return PlainRecord(record_id, body, size)

    def _resolved(self, reference: str) -> str | None:
        """None: it cannot be fetched, or the page asks robots not to follow it."""
        try:
            url = self._base.resolve(reference.strip())
        except InvalidUrl:
            return None
        not_followed = self._found.not_followed
        return None if not_followed is None or url in not_followed else url

    @cached_property
    def _base(self) -> Links:
        url = parse_url(self.url)
        if "<base" in self.text.lower():
            reference = self.css("base::attr(href)").get()
            try:
                return Links(resolve_reference(url, reference or ""))
            except InvalidUrl:
                return Links(url)
        return Links(url)


class Asked:
    """State: what a function has asked for so far, within its limits."""

    def __init__(self) -> None:
        self.items: list[PlainRecord] = []
        # With what they are followed with.
        self.followed: dict[str, str] = {}
        self.refused = 0
        self.is_dropped = False
        self._items_bytes = 0
        self._length = 0

    def take(self, record: PlainRecord) -> None:
        self._items_bytes += record.size
        if len(self.items) >= MAX_ITEMS or self._items_bytes > MAX_ITEMS_BYTES:
            raise ValueError(f"more than {MAX_ITEMS} records or {MAX_ITEMS_BYTES} bytes of a page")
        self.items.append(record)

    def follow(self, url: str, note: str) -> None:
        if url in self.followed:
            return
        self._length += len(url) + len(note)
        if len(self.followed) >= MAX_CRAWLED_LINKS or self._length > MAX_LINKS_LENGTH:
            raise ValueError(
                f"more than {MAX_CRAWLED_LINKS} URLs to follow, or {MAX_LINKS_LENGTH} characters of"
                " URLs and notes"
            )
        self.followed[url] = note


def _reference(element: "Selector") -> str:
    """`a::attr(href)` selects a text, `a` an element."""
    if isinstance(element.root, str):
        return element.root
    reference = element.attrib.get("href")
    if reference is None:
        raise ValueError(f"an element without href: {element!r}")
    return reference

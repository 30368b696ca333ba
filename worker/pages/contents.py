"""What a page's record says besides its links: of a parsed page, only what was chosen. Pure.

Everything comes from the one tree that the links come from. What strangers make large or slow is
bounded here: `is_cut` says that a record has less than the page, or more than its main content.
"""

from collections.abc import Callable, Sequence, Set
from functools import cached_property
from html import escape
from typing import Any, NamedTuple

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import DOMNode, HTMLTree

from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Links, Url
from manyhands.worker.pages.markdown import markdown_of, text_of
from manyhands.worker.pages.simhash import simhash

# In characters, each; the title has a limit of its own.
MAX_TEXT_LENGTH = 500_000
MAX_DESCRIPTION_LENGTH = 2000
MAX_LINK_TEXT_LENGTH = 200
MAX_REL_LENGTH = 100
MAX_HEADING_LENGTH = 500
MAX_HEADINGS = 500
MAX_PROPERTY_LENGTH = 2000
MAX_PROPERTIES = 100
# Of all texts of links together, as the parser gives them: <a> inside of <object> inside of <a> has
# the text of all.
MAX_READ_LENGTH = 2_000_000
# To find the main content, all elements above each are looked at, at some 50 ns each: more elements
# or levels than that, and the text is that of the whole page.
MAX_ELEMENTS = 30_000
MAX_LEVELS = 128
# Fewer elements cannot be too deep for it.
LEVELS_COUNTED_FROM = 2000
# Where more do not matter even for their places.
MAX_FORMATTED_ELEMENTS = 60_000

_TOO_DEEP = ">".join("*" * MAX_LEVELS)
_OF_MAIN_CONTENT = frozenset({"text", "markdown", "simhash"})
_TEXTS = _OF_MAIN_CONTENT | {"full_text"}


class ParsedTree(NamedTuple):
    """A parsed page. `html` is all of it, decoded, and `parsed` what the tree was made of; `links`
    are the elements that the links of its record were found in, each the first with that link, and
    `targets` where they lead, perhaps with more."""

    tree: HTMLTree
    html: str
    parsed: str
    metas: Sequence[DOMNode]
    links: Sequence[DOMNode]
    targets: Sequence[str]
    base: Url


# What is known of a page without a further look at it.
_KNOWN = frozenset(
    {
        *("title", "language", "links", "content_hash"),
        *("redirects", "headers", "all_headers", "size", "timings"),
    }
)


class Contents(NamedTuple):
    """`values` are fields of a PageRecord."""

    values: dict[str, Any]
    is_cut: bool = False


def contents_of(page: ParsedTree, chosen: Set[str]) -> Contents:
    """`chosen` are choices of shared.crawl.page_fields; those that need no look at the page are
    others' business."""
    if chosen <= _KNOWN:
        return Contents({})
    maker = _Maker(page)
    values: dict[str, Any] = {}
    for name, make in _MAKERS.items():
        if name in chosen:
            values[name] = make(maker)
    if not _TEXTS.isdisjoint(chosen):
        values |= maker.texts(chosen)
    if "html" in chosen:
        values["html"] = page.html
    return Contents(values, maker.is_cut)


class _Maker:
    """State: whether anything was cut."""

    def __init__(self, page: ParsedTree) -> None:
        self._page = page
        self.is_cut = False

    @cached_property
    def _tags(self) -> int:
        """What may be an element."""
        return self._page.parsed.count("<")

    def link_texts(self) -> list[str]:
        found: list[str] = []
        left = MAX_READ_LENGTH
        for node in self._page.links:
            text = node.text if left > 0 else ""
            left -= len(text)
            found.append(" ".join(text.split())[:MAX_LINK_TEXT_LENGTH] if text else "")
        self.is_cut = self.is_cut or left <= 0
        return found

    def link_rels(self) -> list[str]:
        return [_short(node.getattr("rel"), MAX_REL_LENGTH) for node in self._page.links]

    def description(self) -> str | None:
        for node in self._page.metas:
            if _lower(node.getattr("name")) == "description":
                return _short(node.getattr("content"), MAX_DESCRIPTION_LENGTH) or None
        return None

    def canonical(self) -> str | None:
        head = self._page.tree.head
        node = head and head.query_selector('link[rel~="canonical" i][href]')
        if not node:
            return None
        try:
            return Links(self._page.base).resolve(node.getattr("href"))
        except InvalidUrl:
            return None

    def headings(self) -> list[str]:
        """As lines of Markdown, whose number of # is the level."""
        nodes = list(self._page.tree.document.query_selector_all("h1, h2, h3, h4, h5, h6"))
        self.is_cut = self.is_cut or len(nodes) > MAX_HEADINGS
        found: list[str] = []
        left = MAX_READ_LENGTH
        for node in nodes[:MAX_HEADINGS]:
            text = node.text if left > 0 else ""
            left -= len(text)
            words = _short(text, MAX_HEADING_LENGTH)
            if words:
                found.append(f"{'#' * int(node.tag[1])} {words}")
        return found

    def open_graph(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        left = MAX_PROPERTIES
        for node in self._page.metas:
            name = _short(_lower(node.getattr("property")), MAX_REL_LENGTH)
            content = node.getattr("content")
            if ":" not in name or not content:
                continue
            if not left:
                self.is_cut = True
                break
            left -= 1
            found.setdefault(name, []).append(_short(content, MAX_PROPERTY_LENGTH))
        return found

    def json_ld(self) -> str | None:
        """All of them as they stand in the page, one a line."""
        nodes = self._page.tree.document.query_selector_all('script[type="application/ld+json" i]')
        texts = (" ".join(node.text.split()) for node in nodes)
        return self._bounded("\n".join(text for text in texts if text)) or None

    def texts(self, chosen: Set[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        tree = self._page.tree
        is_formatted = self._tags <= MAX_FORMATTED_ELEMENTS
        if "full_text" in chosen:
            values["full_text"] = self._bounded(_plain_text(tree, is_formatted=is_formatted))
        if _OF_MAIN_CONTENT.isdisjoint(chosen):
            return values
        has_main = self._has_main_content()
        self.is_cut = self.is_cut or not has_main
        if "markdown" in chosen:
            reduced = self._bounded(
                _reduced(tree, main_content=has_main)
                if is_formatted
                else escape(_plain_text(tree, is_formatted=False))
            )
            values["markdown"] = markdown_of(reduced, self._target())
            text = text_of(reduced)
        else:
            text = self._bounded(
                _plain_text(tree, is_formatted=is_formatted, main_content=has_main)
            )
        if "text" in chosen:
            values["text"] = text
        if "simhash" in chosen:
            values["simhash"] = simhash(text)
        return values

    def _has_main_content(self) -> bool:
        """Whether it can be found in a time that the page is worth."""
        tags = self._tags
        if tags < LEVELS_COUNTED_FROM:
            return True
        if tags > MAX_ELEMENTS:
            return False
        return self._page.tree.document.query_selector(_TOO_DEEP) is None

    def _target(self) -> Callable[[str], str | None]:
        resolve = Links(self._page.base).resolve
        # Worked out once already, which is most of the time that a link takes.
        known: dict[str, str | None] = {
            node.getattr("href"): target
            for node, target in zip(self._page.links, self._page.targets, strict=False)
        }

        def target_of(reference: str) -> str | None:
            if reference not in known:
                try:
                    known[reference] = resolve(reference)
                except InvalidUrl:
                    known[reference] = None
            return known[reference]

        return target_of

    def _bounded(self, text: str) -> str:
        if len(text) <= MAX_TEXT_LENGTH:
            return text
        self.is_cut = True
        return text[:MAX_TEXT_LENGTH]


_MAKERS: dict[str, Callable[[_Maker], Any]] = {
    "link_texts": _Maker.link_texts,
    "link_rels": _Maker.link_rels,
    "description": _Maker.description,
    "canonical": _Maker.canonical,
    "headings": _Maker.headings,
    "open_graph": _Maker.open_graph,
    "json_ld": _Maker.json_ld,
}


def _plain_text(tree: HTMLTree, *, is_formatted: bool, main_content: bool = False) -> str:
    # Without bullets and numbers: an item's number is found by counting those before it.
    text: str = extract_plain_text(
        tree,
        preserve_formatting=is_formatted,
        main_content=main_content,
        list_bullets=False,
        links=False,
    )
    return text


def _reduced(tree: HTMLTree, *, main_content: bool) -> str:
    reduced: str = extract_plain_text(
        tree,
        preserve_formatting="minimal_html",
        main_content=main_content,
        list_bullets=main_content,
        links=True,
    )
    return reduced


def _lower(value: str | None) -> str:
    return (value or "").strip().lower()


def _short(value: str | None, most: int) -> str:
    return " ".join((value or "")[: most * 2].split())[:most]

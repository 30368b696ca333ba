"""A page's text → title, language, links, and its directives for robots. Pure."""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

from resiliparse.parse.html import DOMNode, HTMLTree
from resiliparse.parse.lang import detect_fast

from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.discovery import NO_SOURCES, Source
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import Links, Url, resolve_reference
from manyhands.worker.crawl.politeness.robots import PRODUCT_TOKEN
from manyhands.worker.pages.charset import decode
from manyhands.worker.pages.contents import ParsedTree
from manyhands.worker.pages.further_links import (
    MAX_ELEMENTS,
    MAX_REFRESHES,
    NO_PAGES,
    references,
)
from manyhands.worker.pages.html_guard import tamed
from manyhands.worker.pages.robots_tags import RobotsDirectives, directives

MAX_LINKS = 1000
# Heritrix's limit; pages with more are lists made by programs.
MAX_CRAWLED_LINKS = 6000
# Elements examined for links, many of which may be repeated or not fetchable: an index of 2 MB has
# 20,000.
MAX_ANCHORS = 50_000
# Different references that are no links, at 13 us each.
MAX_REFUSED = 10_000
MAX_TITLE_LENGTH = 1000
MAX_DIRECTIVES_LENGTH = 500
# A guess from less is worth nothing, and from more no better.
LANGUAGE_MIN_CHARACTERS = 200
LANGUAGE_MAX_CHARACTERS = 1000
HTML_TYPES = frozenset({"", "text/html", "application/xhtml+xml"})

_LANGUAGE = re.compile("([A-Za-z]{2,3})(?:[-_].*)?")
_ROBOTS_NAMES = frozenset({"robots", PRODUCT_TOKEN.lower()})
# One walk for all of them, by attribute: a walk by element names takes a quarter of the parse's
# time, this one half of that.
_READ = "[href], meta"
_READ_WITH_FRAMES = f"{_READ}, iframe, frame"
_FURTHER = frozenset({"link", "iframe", "frame"})
_NO_DIRECTIVES = RobotsDirectives(nofollow=False, noindex=False)


@dataclass(slots=True, frozen=True)
class Extract:
    """What a page says. `links` are canonical URLs in order, each once; `nofollow` are those that
    every link to them marks as not to be followed. `further` are those of other sources than links
    that people click. `language` is a code of two or three letters. `cuts` says why the page may
    hold more than this; `tree` is for a further look."""

    title: str | None
    links: list[str]
    nofollow: frozenset[str] = frozenset()
    further: tuple[str, ...] = ()
    language: str | None = None
    robots: RobotsDirectives = _NO_DIRECTIVES
    cuts: tuple[Cut, ...] = ()
    tree: ParsedTree | None = field(default=None, compare=False)


def is_html(content_type: str) -> bool:
    """By the header; a page without one is taken for HTML."""
    return content_type.partition(";")[0].strip().lower() in HTML_TYPES


def extract(
    body: bytes,
    content_type: str,
    page_url: Url,
    max_links: int = MAX_LINKS,
    follows: Collection[str] = NO_SOURCES,
    refresh: str = "",
) -> Extract:
    """`follows` are names of sources, `refresh` is the header."""
    decoded = decode(body, content_type)
    text, is_cut = tamed(decoded)
    tree = HTMLTree.parse(text)
    nodes = _nodes(tree, has_further=bool(follows), has_frames=Source.FRAMES in follows)
    base = _base(nodes.bases, page_url)
    links, nofollow, has_more, firsts = _links(nodes.anchors, base, max_links)
    robots, refreshes = _said_in(nodes.metas)
    further: tuple[str, ...] = ()
    if nodes.further or refreshes or refresh:
        refreshes = [refresh, *refreshes[:MAX_REFRESHES]]
        found = references(nodes.further[:MAX_ELEMENTS], refreshes, follows)
        further = _further(found, base)
        has_more = has_more or len(nodes.further) > MAX_ELEMENTS
    return Extract(
        title=" ".join(tree.title.split())[:MAX_TITLE_LENGTH] or None,
        links=links,
        nofollow=nofollow,
        further=further,
        language=_language(tree),
        robots=robots,
        cuts=_cuts(is_nested=is_cut, has_more_links=has_more) if is_cut or has_more else (),
        tree=ParsedTree(tree, decoded, text, nodes.metas, firsts[:MAX_LINKS], links, base),
    )


def _cuts(*, is_nested: bool, has_more_links: bool) -> tuple[Cut, ...]:
    said = ((Cut.NESTING, is_nested), (Cut.LINK_LIMIT, has_more_links))
    return tuple(cut for cut, is_so in said if is_so)


class _Nodes(NamedTuple):
    """`further` are <iframe>, <frame>, and <link> that may name a page."""

    anchors: list[DOMNode]
    bases: list[DOMNode]
    metas: list[DOMNode]
    further: list[DOMNode]


def _nodes(tree: HTMLTree, *, has_further: bool, has_frames: bool) -> _Nodes:
    """Anywhere in the page: misplaced ones are honoured, as in browsers."""
    nodes = _Nodes([], [], [], [])
    anchors, bases, metas, further = nodes
    for node in tree.document.query_selector_all(_READ_WITH_FRAMES if has_frames else _READ):
        tag = node.tag
        if tag == "a" or tag == "area":
            # One more says that there are more.
            if len(anchors) <= MAX_ANCHORS:
                anchors.append(node)
        elif tag == "meta":
            metas.append(node)
        elif tag == "base":
            bases.append(node)
        elif (
            has_further
            and tag in _FURTHER
            and len(further) <= MAX_ELEMENTS
            and (tag != "link" or node.getattr("rel") not in NO_PAGES)
        ):
            further.append(node)
    return nodes


def _base(bases: list[DOMNode], page_url: Url) -> Url:
    """The first one counts, if it can be resolved."""
    if bases:
        with suppress(InvalidUrl):
            return resolve_reference(page_url, bases[0].getattr("href"))
    return page_url


def _links(
    anchors: list[DOMNode], base: Url, max_links: int
) -> tuple[list[str], frozenset[str], bool, list[DOMNode]]:
    """Links, those not to be followed, whether there are more than were looked at, and the first
    element of each."""
    # Link → whether every occurrence is nofollow.
    found: dict[str, bool] = {}
    firsts: list[DOMNode] = []
    has_more = len(anchors) > MAX_ANCHORS
    refused: set[str] = set()
    resolve = Links(base).resolve
    for node in anchors[:MAX_ANCHORS]:
        reference = node.getattr("href")
        if reference in refused:
            continue
        try:
            link = resolve(reference)
        except InvalidUrl:
            refused.add(reference)
            if len(refused) > MAX_REFUSED:
                has_more = True
                break
            continue
        if link not in found:
            if len(found) == max_links:
                has_more = True
                break
            firsts.append(node)
        rel = node.getattr("rel")
        is_nofollow = rel is not None and "nofollow" in rel.lower().split()
        found[link] = is_nofollow and found.get(link, True)
    return list(found), frozenset(compress(found, found.values())), has_more, firsts


def _further(found: Iterable[str], base: Url) -> tuple[str, ...]:
    """Each once."""
    links: dict[str, None] = {}
    for reference in found:
        with suppress(InvalidUrl):
            links[resolve_reference(base, reference).text] = None
    return tuple(links)


def _said_in(metas: list[DOMNode]) -> tuple[RobotsDirectives, list[str]]:
    """Directives for robots, and where the page sends its readers on."""
    asked: list[str] = []
    refreshes: list[str] = []
    for node in metas:
        name = (node.getattr("name") or "").strip().lower()
        if name in _ROBOTS_NAMES:
            content = node.getattr("content") or ""
            asked.append(f"{name}: {content[:MAX_DIRECTIVES_LENGTH]}")
        elif not name and (node.getattr("http-equiv") or "").strip().lower() == "refresh":
            refreshes.append(node.getattr("content") or "")
    return directives(", ".join(asked)) if asked else _NO_DIRECTIVES, refreshes


def _language(tree: HTMLTree) -> str | None:
    """As declared by the page; otherwise guessed from its beginning."""
    head = tree.head
    root = head.parent if head is not None else None
    said = _LANGUAGE.fullmatch((root.getattr("lang") or "").strip()) if root is not None else None
    if said is not None:
        return said[1].lower()
    body = tree.body
    text = " ".join(body.text[:LANGUAGE_MAX_CHARACTERS].split()) if body is not None else ""
    if len(text) < LANGUAGE_MIN_CHARACTERS:
        return None
    language, _ = detect_fast(text)
    return language if language != "unknown" else None

"""References of a page that are no <a> or <area>: in its head, of its frames, and where it sends
its readers on. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator

from resiliparse.parse.html import DOMNode

from manyhands.shared.crawl.discovery import Source
from manyhands.shared.urls import MAX_REFERENCE_LENGTH
from manyhands.worker.pages.documents import is_feed_type

# Elements of a page that are looked at; a page in 200 languages has 200.
MAX_ELEMENTS = 2000
# Browsers obey one.
MAX_REFRESHES = 10
_PAGE_RELATIONS = frozenset({"next", "prev", "previous", "canonical"})
# What <link> mostly says, known without a look at the words.
NO_PAGES = frozenset({None, "stylesheet", "icon", "shortcut icon", "preload", "preconnect"})
# Seconds, a separator, perhaps `url=`, and the reference with or without quotes.
_REFRESH = re.compile(
    r"""\s*+(?:\d[\d.]*+|\.\d++)\s*+(?:[;,]\s*+|(?<=\s))(?:url\s*+=\s*+)?+"""
    r"""(?:"([^"]*)|'([^']*)|([^"'].*))""",
    re.IGNORECASE | re.DOTALL,
)


def references(
    elements: Iterable[DOMNode], refreshes: Iterable[str], follows: Collection[str]
) -> Iterator[str]:
    """As they stand there. `elements` are <link>, <frame> and <iframe>, `refreshes` are what the
    header and <meta> say."""
    for node in elements:
        if node.tag != "link":
            if address := node.getattr("src"):
                yield address
        elif _source_of(node) in follows:
            yield node.getattr("href")
    if Source.REFRESH in follows:
        yield from filter(None, map(refresh_target, refreshes))


def refresh_target(content: str) -> str | None:
    """Where a page sends its readers on; None: it only loads itself again."""
    matched = _REFRESH.match(content[:MAX_REFERENCE_LENGTH])
    if matched is None:
        return None
    return (matched[1] or matched[2] or matched[3] or "").strip() or None


def _source_of(node: DOMNode) -> Source | None:
    """None for style sheets, icons and whatever else a page needs."""
    relations = set((node.getattr("rel") or "").lower().split())
    if "nofollow" in relations:
        return None
    if not relations.isdisjoint(_PAGE_RELATIONS):
        return Source.LINK_ELEMENTS
    if "alternate" not in relations:
        return None
    if is_feed_type(node.getattr("type") or ""):
        return Source.FEEDS
    return Source.LINK_ELEMENTS if node.getattr("hreflang") else None

"""What `X-Robots-Tag` headers and `<meta name="robots">` ask for. Pure."""

import re
from typing import NamedTuple

from manyhands.worker.crawl.politeness.robots import PRODUCT_TOKEN

# "otherbot: noindex" is for that one alone. Not to be taken for it: a directive with a value.
_FOR_SOMEBODY = re.compile(r"\s*([A-Za-z_-]+)[^\s:]*\s*:(.*)", re.DOTALL)
_WITH_VALUE = frozenset(
    {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}
)


class RobotsDirectives(NamedTuple):
    nofollow: bool
    noindex: bool


def directives(text: str) -> RobotsDirectives:
    """Of one header, of several joined by commas, or of a meta element's content.

    Directives after a name and a colon are for that robot, until another name follows; without a
    name they are for everybody. Joined headers are one list (RFC 9110, 5.3), so a name also applies
    to directives of later headers."""
    asked: set[str] = set()
    is_for_us = True
    for part in text.lower().split(","):
        addressed = _FOR_SOMEBODY.fullmatch(part)
        if addressed is not None:
            if addressed[1] in _WITH_VALUE:
                continue
            is_for_us = addressed[1] in (PRODUCT_TOKEN.lower(), "robots")
            part = addressed[2]
        if is_for_us:
            asked.update(part.split())
    return RobotsDirectives(
        nofollow=not asked.isdisjoint({"nofollow", "none"}),
        noindex=not asked.isdisjoint({"noindex", "none"}),
    )

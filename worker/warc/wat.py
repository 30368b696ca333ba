"""A record of a WAT file, turned into a page. Pure.

A WAT file has the headers of each response, its title and its links, but not the page. As HTML
again, title and links go through the parse stage like those of any page.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import orjson

_LINK_KINDS = frozenset({"A@/href", "AREA@/href"})


@dataclass(slots=True, frozen=True)
class WatPage:
    status: int
    content_type: str
    robots_tag: str
    html: bytes


def wat_page(body: bytes) -> WatPage | None:
    """None for records about requests and notes, and for unreadable ones."""
    try:
        told = orjson.loads(body)
        answer = told["Envelope"]["Payload-Metadata"]["HTTP-Response-Metadata"]
        status = int(answer["Response-Message"]["Status"])
        headers = {str(name).lower(): value for name, value in answer["Headers"].items()}
        page = answer.get("HTML-Metadata") or {}
        html = "".join(_html(page))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return WatPage(
        status=status,
        content_type=_text(headers.get("content-type")),
        robots_tag=_text(headers.get("x-robots-tag")),
        html=html.encode("utf-8", "replace"),
    )


def _html(page: dict[str, Any]) -> Iterator[str]:
    head = page.get("Head") or {}
    yield '<!doctype html><meta charset="utf-8">'
    if base := _text(head.get("Base")):
        yield f'<base href="{escape(base)}">'
    for meta in head.get("Metas") or ():
        if name := _text(meta.get("name")):
            yield f'<meta name="{escape(name)}" content="{escape(_text(meta.get("content")))}">'
    yield f"<title>{escape(_text(head.get('Title')))}</title>"
    for link in page.get("Links") or ():
        if link.get("path") in _LINK_KINDS and (url := _text(link.get("url"))):
            rel = _text(link.get("rel"))
            yield f'<a href="{escape(url)}" rel="{escape(rel)}"></a>'


def _text(value: object) -> str:
    """A header that came twice is a list."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else ""

"""What makes a parser of HTML slow, taken out of a page before it is parsed. Pure.

Two things cost it time by their square: elements inside elements inside elements, because at each
tag it looks through all that are open, and the attributes of one tag, because it compares each
with all others. A hundred kilobytes of either took most of a second, a megabyte a minute.
"""

import re
from collections import Counter

# Shorter pages are left alone: the worst that they can hold takes some 60 ms.
GUARDED_FROM = 32_768
# Start and end tags that need not be looked at one by one.
MAX_UNCOUNTED_TAGS = 5000
# Browsers flatten a page at 512. Ours is larger because what is left open is only estimated.
MAX_DEPTH = 2000
# A tag that is longer than two of these has one without a > in it.
WINDOW = 4096
MAX_SEPARATORS = 2000

_TAG = re.compile("<(/?)([A-Za-z][^\\s/>]*)")
_SEPARATORS = re.compile("[\\s/\"']")
# They have no content, or end where the next one begins.
_NEVER_DEEP = frozenset(
    {
        *("a", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr", "p", "li", "dt", "dd", "option", "tr", "td", "th", "tbody"),
        *("thead", "tfoot", "caption", "colgroup", "html", "head", "body"),
    }
)


def tamed(text: str) -> str:
    """The page without tags that have thousands of attributes, and cut where it is too deep."""
    if len(text) < GUARDED_FROM:
        return text
    text = _without_monstrous_tags(text)
    if text.count("<") > MAX_UNCOUNTED_TAGS:
        return text[: _end_of_the_shallow(text)]
    return text


def _without_monstrous_tags(text: str) -> str:
    kept: list[str] = []
    done = at = 0
    while at < len(text):
        if text.find(">", at, at + WINDOW) >= 0:
            at += WINDOW
            continue
        end = text.find(">", at + WINDOW)
        end = len(text) if end < 0 else end
        start = text.find("<", text.rfind(">", 0, at) + 1, end)
        if start >= 0 and _has_too_many_attributes(text, start, end):
            kept.append(text[done:start])
            done = _end_of_monster(text, start, end)
        at = end
    return "".join(kept) + text[done:] if kept else text


def _end_of_monster(text: str, start: int, end: int) -> int:
    """If it was a script after all, its end tag must stay."""
    tail = text.rfind("</", start + 1, end)
    return end if tail < 0 or _has_too_many_attributes(text, tail, end) else tail


def _has_too_many_attributes(text: str, start: int, end: int) -> bool:
    for count, _ in enumerate(_SEPARATORS.finditer(text, start, end)):
        if count == MAX_SEPARATORS:
            return True
    return False


def _end_of_the_shallow(text: str) -> int:
    """Where more than MAX_DEPTH elements are open; an end tag closes one of its own name only."""
    is_open: Counter[str] = Counter()
    depth = 0
    for tag in _TAG.finditer(text):
        is_end, name = tag[1], tag[2].lower()
        if name in _NEVER_DEEP:
            continue
        if not is_end:
            is_open[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                return tag.start()
        elif is_open[name]:
            is_open[name] -= 1
            depth -= 1
    return len(text)

"""What makes a parser of HTML slow, taken out of a page before it is parsed. Pure.

Two things cost it time by their square: elements inside elements inside elements, because at each
tag it looks through all that are open, and the attributes of one tag, because it compares each
with all others. A hundred kilobytes of either took most of a second, a megabyte a minute.

Where elements of drawings and formulas close themselves, <path/>, an end tag is written behind
them before they are counted. Inside of a drawing that means the same; outside of one, where HTML
knows no such thing and takes each for the beginning of another level, they are no longer deep. So
nobody has to find out where a drawing begins and ends, which takes a parser.
"""

import re
from itertools import islice
from typing import NamedTuple

# Shorter pages are left alone: the worst that they can hold takes some 60 ms.
GUARDED_FROM = 32_768
# Start and end tags that need not be looked at one by one.
MAX_UNCOUNTED_TAGS = 5000
# Browsers flatten a page at 512. Ours is larger because what is left open is only estimated.
MAX_DEPTH = 2000
# A tag that is longer than two of these has one without a > in it.
WINDOW = 4096
MAX_SEPARATORS = 2000

_TAG = re.compile("</?[A-Za-z][^\\s/>]*")
# Of SVG and MathML; none of them means anything in HTML.
_CLOSES_ITSELF = re.compile(
    "<(path|rect|circle|ellipse|line|polyline|polygon|use|stop|image|g|text|tspan|textpath|defs"
    "|symbol|marker|mask|pattern|lineargradient|radialgradient|clippath|filter|fe[a-z]+|view|set"
    "|animate[a-z]*|mpath|m[ino]|mrow|mspace|mt[dr]|mprescripts|none)(?=[\\s/])([^<>]*)/>",
    re.IGNORECASE,
)
_INNERMOST = re.compile(r"<([A-Za-z][A-Za-z0-9]*)(?:\s[^<>]*)?>[^<]*</\1>")
# How often what is innermost is taken out: then what holds it is innermost.
_PASSES = 2
_SEPARATORS = re.compile("[\\s/\"']")
# They have no content, or end where the next one begins.
_NEVER_DEEP = frozenset(
    {
        *("a", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr", "p", "li", "dt", "dd", "option", "tr", "td", "th", "tbody"),
        *("thead", "tfoot", "caption", "colgroup", "html", "head", "body"),
    }
)
_MAY_BE_DEEP = re.compile(rf"<(?![/!]|(?:{'|'.join(sorted(_NEVER_DEEP))})[\s/>])")


class Tamed(NamedTuple):
    """`is_cut`: a part of the page is missing, with the links in it."""

    text: str
    is_cut: bool


def tamed(text: str) -> Tamed:
    """The page without tags that have thousands of attributes, and cut where it is too deep."""
    if len(text) < GUARDED_FROM:
        return Tamed(text, False)
    kept = _without_monstrous_tags(text)
    is_cut = len(kept) < len(text)
    if kept.count("<") <= MAX_UNCOUNTED_TAGS or _is_surely_shallow(kept):
        return Tamed(kept, is_cut)
    end = _end_of_the_shallow(kept)
    if end is not None and "/>" in kept:
        kept = _CLOSES_ITSELF.sub(r"<\1\2></\1>", kept)
        end = _end_of_the_shallow(kept)
    return Tamed(kept, is_cut) if end is None else Tamed(kept[:end], True)


def _is_surely_shallow(text: str) -> bool:
    """Whether there are too few start tags to be deep, without a look at each: elements with no
    others in them add one level at the most, all together, and are taken out."""
    for taken_out in range(_PASSES + 1):
        if taken_out:
            text = _INNERMOST.sub("", text)
        if len(_MAY_BE_DEEP.findall(text)) + taken_out <= MAX_DEPTH:
            return True
    return False


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


def _end_of_the_shallow(text: str) -> int | None:
    """Where more than MAX_DEPTH elements are open; an end tag closes one of its own name only."""
    # By the name, and the same by the tag as it is written, because that is asked so often.
    is_open: dict[str, int] = {}
    names: dict[str, str] = {}
    depth = 0
    for number, tag in enumerate(_TAG.findall(text)):
        name = names.get(tag)
        if name is None:
            name = names[tag] = _counted_name(tag)
            is_open.setdefault(name, 0)
        if not name:
            continue
        if tag[1] != "/":
            is_open[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                return _start_of(text, number)
        elif is_open[name]:
            is_open[name] -= 1
            depth -= 1
    return None


def _counted_name(tag: str) -> str:
    """Empty for one that is never deep."""
    name = tag.strip("</").lower()
    return "" if name in _NEVER_DEEP else name


def _start_of(text: str, number: int) -> int:
    """Of the tag that comes after so many."""
    return next(islice(_TAG.finditer(text), number, None)).start()

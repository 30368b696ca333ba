"""What makes a parser of HTML slow, taken out of a page before it is parsed. Pure.

Three things cost it time by their square: elements inside elements inside elements, because at
each tag it looks through all that are open; the attributes of one tag, because it compares each
with all others; and <body> and <html> said again, because their attributes go to the first one. A
hundred kilobytes of any took most of a second, a megabyte a minute. And <b> and its like, where
many are left open: eighty kilobytes became two million elements and 700 MB.

Names are the fourth: the parser's table of them does not grow, so a megabyte of attributes that are
all called differently takes it ten seconds. Looking for that in every page would cost more than it
is worth; a page is sampled at random places, where nobody can hide, and only one that looks like it
is counted.

Text is the fifth. The parser goes on with a text where nothing but tags that it ignores stood in
between, and copies all of it if it has stored anything meanwhile: the attributes of </x a=b> or of
<td a=b> outside of a table, or a comment that went elsewhere, behind </body> or inside of a table.
2 MB took 28 seconds. Attributes of such tags hold no links, and neither do tables themselves nor
the page's end, so they are left out where there are many.

Faults are the sixth: the parser lists each of them (`give_back_large_blocks` makes that cheap), and
each NUL is one.

Where elements of drawings and formulas close themselves, <path/>, an end tag is written behind
them before they are counted. Inside of a drawing that means the same; outside of one, where HTML
knows no such thing and takes each for the beginning of another level, they are no longer deep. So
nobody has to find out where a drawing begins and ends, which takes a parser.

How deep a page is cannot be known without one, either: <span><div></span></div> leaves a <span>
open, because </span> is ignored there, and <td> is no level but in a drawing. What is counted is
never too small (`_levels_at_most`). A page that may be too deep by that, and does not seem so, is
kept, but flat: without all tags that nothing is read of.
"""

import random
import re
from itertools import islice
from math import isqrt
from typing import NamedTuple

# Shorter pages are left alone: the worst that they can hold takes some 60 ms.
GUARDED_FROM = 32_768
# What takes a few microseconds for each tag must not take half a second: a page has no more of
# them, or one in so many characters. Python's whole documentation in one page has one in 26.
MAX_TAGS = 120_000
CHARACTERS_OF_A_TAG = 16
# Shorter pages cannot have too many names.
SAMPLED_FROM = 262_144
SAMPLES = 24
SAMPLE = 512
# Different ones among the names of a sampled page; a real one repeats its names.
SUSPICIOUS_SHARE = 0.1
FEWEST_SAMPLED = 64
MAX_NAMES = 10_000
# Up to so many tags, nothing that counts them is needed.
MAX_UNCOUNTED_TAGS = 2000
# What the parser looks through at most, at 1 to 1.5 ns each, if all elements are left open.
MAX_UNCOUNTED_LOOKS = 45_000_000
# Shorter pages cannot hold enough text for its copies to take 0.2 s.
COPIED_FROM = 196_608
# Tags with attributes that the parser may ignore, or comments, and behind which it may copy a node
# of text; 0.1 s for 2 MB.
MAX_IGNORED = 500
# The parser reopens at most three formatting elements of the same name and attributes.
REOPENED_ALIKE = 3
# Browsers flatten a page at 512. Ours is larger because what is left open is only estimated.
MAX_DEPTH = 2000
# How many elements it may look through in all, at 1 to 1.5 ns each: where there are very many tags,
# fewer may be open.
MAX_LOOKS = 140_000_000
# Of <html> and <body> together, and of their end tags; people write four.
MAX_ROOTS = 100
# Elements that close themselves, each of which HTML may take for one level more.
MAX_CLOSING_THEMSELVES = 100
# Elements that are made anew, at 0.3 us and 330 bytes each: of <b> and its like, all that are left
# open are made again in every paragraph behind them.
MAX_REOPENED = 1_000_000
# Each is a fault; the parser reads them as U+FFFD, or not at all.
MAX_NULS = 1000
# Characters whose tags are looked at together.
PIECE = 65_536
# A tag that is longer than two of these has one without a > in it.
WINDOW = 4096
MAX_SEPARATORS = 2000

_TAG = re.compile("</?[A-Za-z][^\\s/>]*")
_START_TAG = re.compile("<([A-Za-z][^\\s/>]*)([^<>]*)")
_ATTRIBUTE = re.compile(
    """[\\s/]([^\\s=>/"'<]+)(?:\\s*=\\s*(?:"[^"]*"|'[^']*'|[^\\s"'>][^\\s>]*))?"""
)
# Of SVG and MathML; none of them means anything in HTML.
_CLOSES_ITSELF = re.compile(
    "<(path|rect|circle|ellipse|line|polyline|polygon|use|stop|image|g|text|tspan|textpath|defs"
    "|symbol|marker|mask|pattern|lineargradient|radialgradient|clippath|filter|fe[a-z]+|view|set"
    "|animate[a-z]*|mpath|m[ino]|mrow|mspace|mt[dr]|mprescripts|none)(?=[\\s/])([^<>]*)/>",
    re.IGNORECASE,
)
_FORMATTING_NAMES = (
    *("b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"),
)
# A look at the first letter first: it takes half of the time.
_FORMATTING = re.compile(
    rf"<(?=/?[{''.join({name[0] for name in _FORMATTING_NAMES})}])"
    rf"(/?(?:{'|'.join(_FORMATTING_NAMES)}))(?=[\s/>])",
    re.IGNORECASE,
)
_FORMATTING_TAG = re.compile(rf"{_FORMATTING.pattern}[^<>]*>?", re.IGNORECASE)
# The whole tag where its attributes are written as usual, else only its name.
_WITH_ATTRIBUTES = re.compile(
    rf"<(?=[{''.join({name[0] for name in _FORMATTING_NAMES})}])"
    rf"((?:{'|'.join(_FORMATTING_NAMES)})[\s/]"
    r"""(?:[^<>"']*+(?:"[^"<>]*+"[^<>"']*+)*+>)?)""",
    re.IGNORECASE,
)
# End tags; start tags that belong in a table, or may stand in one without a cell; and those that
# are ignored when they come again. None of them has a link, but for the frames of a page that has
# nothing else. Both cases of each letter are written
# out, because ignoring case is slower.
_IGNORED_NAMES = "|".join(
    "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in name)
    for name in (
        *("td", "th", "tr", "tbody", "thead", "tfoot", "caption", "col", "colgroup", "head"),
        *("frame", "frameset", "form", "input", "script", "style", "template", "!doctype"),
    )
)
_IGNORED = re.compile(rf"<(?:/[^\s/>]*+|(?=[!tTcChHfFiIsS])(?:{_IGNORED_NAMES}))[\s/]++[^\s/>]")
_IGNORED_TAG = re.compile(rf"(<(?:/[A-Za-z][^\s/>]*|{_IGNORED_NAMES}))[\s/][^<>]*")
_SELECT = re.compile("<select(?=[\\s/>])[^<>]*>?", re.IGNORECASE)
# Also what the parser takes for one.
_COMMENT = re.compile("<(?:[!?]|/(?![A-Za-z>]))")
_TABLE = re.compile(
    "<(?=[/tc])/?(?:table|tbody|thead|tfoot|tr|caption|colgroup|col)(?=[\\s/>])[^<>]*>?",
    re.IGNORECASE,
)
# Its first letter first, and both cases written out: it takes half of the time.
_ROOT = re.compile(r"<(?:/[hHbB]|[hHbB])(?:[tT][mM][lL]|[oO][dD][yY])(?=[\s/>])[^>]*>?")
_INNERMOST = re.compile(r"<([A-Za-z][A-Za-z0-9]*+)(?:\s[^<>]*+)?+>[^<]*+</\1>")
# How often what is innermost is taken out, at most: then what holds it is innermost. Each pass has
# less to look at, unless it finds nothing.
_PASSES = 8
_WORTH_ANOTHER_PASS = 0.95
_SEPARATORS = re.compile("[\\s/\"']")
# They have no content, or end where the next one begins.
_NEVER_DEEP = frozenset(
    {
        *("a", "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr", "p", "li", "dt", "dd", "option", "tr", "td", "th", "tbody"),
        *("thead", "tfoot", "caption", "colgroup", "html", "head", "body"),
    }
)
# Of those the ones that end a drawing; in it all others are levels.
_END_A_DRAWING = ("body", "br", "dd", "dt", "embed", "head", "hr", "img", "li", "meta", "p")
_MAY_BE_DEEP = re.compile(rf"<(?=[A-Za-z])(?!(?:{'|'.join(sorted(_NEVER_DEEP))})[\s/>])")
_MAY_BE_DEEP_IN_A_DRAWING = re.compile(rf"<(?=[A-Za-z])(?!(?:{'|'.join(_END_A_DRAWING)})[\s/>])")
_DRAWING = re.compile("<(?:svg|math)(?=[\\s/>])", re.IGNORECASE)
# What is read of a page, what says where links are none, and text; all else is matched and left
# out. A < of what is kept has its name behind it, so that no other tag comes about.
_READ = (
    *("a", "area", "base", "link", "meta", "html", "head", "body", "title", "script", "style"),
    *("textarea", "iframe", "noembed", "noframes", "xmp", "plaintext"),
)
_KEPT_FLAT = re.compile(
    rf"(</?(?:{'|'.join(_READ)})(?=[\s/>])[^<>]*+|<!--|[^<]++)|<[^<>]*+>?", re.IGNORECASE
)


class Tamed(NamedTuple):
    """`is_cut`: a part of the page is missing, with the links in it."""

    text: str
    is_cut: bool


def tamed(text: str) -> Tamed:
    """The page without tags that have thousands of attributes, and cut where it is too deep, or has
    too many tags or names."""
    if len(text) < GUARDED_FROM:
        return Tamed(text, False)
    kept = _without_too_many_names(_without_too_many_tags(_without_nuls(text)))
    kept = _without_more_roots(_without_monstrous_tags(kept))
    is_cut = len(kept) < len(text)
    if len(kept) >= COPIED_FROM:
        kept, is_cut_there = _without_copies_of_text(kept)
        is_cut = is_cut or is_cut_there
    tags = kept.count("<")
    if tags > MAX_UNCOUNTED_TAGS:
        shallow, is_cut_there = _without_depth(kept, tags)
        is_cut = is_cut or is_cut_there
        if COPIED_FROM <= len(shallow) < len(kept):
            # What was left out may have stood in the middle of a tag: </script<em> is none before.
            shallow, is_cut_there = _without_copies_of_text(shallow)
            is_cut = is_cut or is_cut_there
        kept = shallow
    return Tamed(kept, is_cut)


def _without_nuls(text: str) -> str:
    has_many = "\0" in text and text.count("\0") > MAX_NULS
    return text.replace("\0", "\ufffd") if has_many else text


def _without_depth(text: str, tags: int) -> Tamed:
    """And without formatting that would be made anew again and again."""
    max_depth = min(MAX_DEPTH, MAX_LOOKS // tags)
    most = max(max_depth, _harmless_levels(tags))
    levels, rest = tags, text
    if tags > most and (levels := tags - text.count("</")) > most:
        levels, rest = _levels_at_most(text, most)
        if levels > most and text.count("/>") > MAX_CLOSING_THEMSELVES:
            text = _CLOSES_ITSELF.sub(r"<\1\2></\1>", text)
            levels, rest = _levels_at_most(text, most)
    if _leaves_formatting_open(rest, MAX_REOPENED // tags):
        # It holds neither links nor titles: nothing is missing without it.
        text = _without(_FORMATTING_TAG, text)
    if levels <= most:
        return Tamed(text, False)
    end = _end_of_the_shallow(text, max_depth)
    if end is not None:
        text = text[:end]
        levels, _ = _levels_at_most(text, most)
    return Tamed(_flat(text) if levels > most else text, end is not None)


def _flat(text: str) -> str:
    """Only with what is read of it."""
    return "".join(_KEPT_FLAT.findall(text))


def _without(tags: re.Pattern[str], text: str) -> str:
    """None of them is left, whatever stood around them."""
    kept = tags.sub("", text)
    if len(kept) < len(text) and tags.search(kept):
        # One stood inside of another: <b<b>>. In a flat page nothing does.
        return tags.sub("", _flat(text))
    return kept


def _without_copies_of_text(text: str) -> Tamed:
    # What stands in a <select> is ignored, too.
    text = _without(_SELECT, text)
    if _has_many(_COMMENT, text):
        text = _without(_TABLE, text)
    if not _has_many(_IGNORED, text):
        return Tamed(text, False)
    kept = _IGNORED_TAG.sub(r"\1", text)
    # Values with a < or > in them are left alone: a script may only look like such a tag.
    left = list(islice(_IGNORED.finditer(kept), MAX_IGNORED))
    return Tamed(kept[: left[-1].start()], True) if len(left) == MAX_IGNORED else Tamed(kept, False)


def _has_many(tags: re.Pattern[str], text: str) -> bool:
    return next(islice(tags.finditer(text), MAX_IGNORED - 1, None), None) is not None


def _harmless_levels(tags: int) -> int:
    """So many elements may be left open. At each tag all that are open by then are looked through:
    if these stand first, that is levels * (tags - levels / 2)."""
    twice = tags * tags - 2 * MAX_UNCOUNTED_LOOKS
    return tags - isqrt(twice) if twice > 0 else tags


def _levels_at_most(text: str, most: int) -> tuple[int, str]:
    """Not less than there are, without a look at each tag, and what of the page was counted:
    elements with no others in them add one level, all together, and are taken out until the rest
    is few enough."""
    may_be_deep = _MAY_BE_DEEP_IN_A_DRAWING if _DRAWING.search(text) else _MAY_BE_DEEP
    levels = len(may_be_deep.findall(text))
    if levels > most and text.count("/>") > levels // 2:
        # Nothing is to be found by that.
        return levels, text
    for taken_out in range(1, _PASSES + 1):
        if levels <= most:
            break
        length = len(text)
        text = _INNERMOST.sub("", text)
        levels = len(may_be_deep.findall(text)) + taken_out
        if len(text) > length * _WORTH_ANOTHER_PASS:
            break
    return levels, text


def _without_too_many_tags(text: str) -> str:
    most = max(MAX_TAGS, len(text) // CHARACTERS_OF_A_TAG)
    if text.count("<") <= most:
        return text
    seen = begin = 0
    while (more := text.count("<", begin, begin + PIECE)) + seen <= most:
        seen += more
        begin += PIECE
    for _ in range(most - seen):
        begin = text.index("<", begin) + 1
    return text[: text.index("<", begin)]


def _without_too_many_names(text: str) -> str:
    if len(text) < SAMPLED_FROM or not _seems_to_have_many_names(text):
        return text
    names: set[str] = set()
    for tag in _START_TAG.finditer(text):
        names.add(tag[1])
        names.update(_ATTRIBUTE.findall(tag[2]))
        if len(names) > MAX_NAMES:
            return text[: tag.start()]
    return text


def _seems_to_have_many_names(text: str) -> bool:
    names: list[str] = []
    for _ in range(SAMPLES):
        begin = random.randrange(len(text) - SAMPLE)
        for name, attributes in _START_TAG.findall(text, begin, begin + SAMPLE):
            names.append(name)
            names += _ATTRIBUTE.findall(attributes)
    return len(names) >= FEWEST_SAMPLED and len(set(names)) > SUSPICIOUS_SHARE * len(names)


def _without_more_roots(text: str) -> str:
    roots = list(islice(_ROOT.finditer(text), MAX_ROOTS))
    if len(roots) < MAX_ROOTS:
        return text
    end = roots[-1].end()
    return text[:end] + _without(_ROOT, text[end:])


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


def _leaves_formatting_open(text: str, most: int) -> bool:
    """Whether more of <b> and its like are open at a time, and could all be made again."""
    if _different_formatting(text) <= most:
        return False
    found = _FORMATTING.findall(text)
    return len(found) > most and _most_open(found) > most


def _different_formatting(text: str) -> int:
    """Not less than can be made again at a time."""
    tags = _WITH_ATTRIBUTES.findall(text)
    kinds = set(tags)
    unusual = sum(tags.count(kind) for kind in kinds if not kind.endswith(">"))
    return unusual + REOPENED_ALIKE * (len(kinds) + len(_FORMATTING_NAMES))


def _most_open(found: list[str]) -> int:
    is_open = dict.fromkeys(_FORMATTING_NAMES, 0)
    depth = deepest = 0
    for tag in found:
        if tag[0] != "/":
            is_open[tag.lower()] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif is_open[name := tag[1:].lower()]:
            is_open[name] -= 1
            depth -= 1
    return deepest


def _end_of_the_shallow(text: str, max_depth: int) -> int | None:
    """Where more elements are open; an end tag closes one of its own name only."""
    # How many are open by the name, and the same by the tag as it is written, because that is asked
    # so often.
    never = [0]
    by_name = {"": never}
    by_tag: dict[str, list[int]] = {}
    depth = begin = 0
    while begin < len(text):
        # In pieces: what is cut is mostly cut in the first.
        end = text.find("<", begin + PIECE) if begin + PIECE < len(text) else len(text)
        end = len(text) if end < 0 else end
        for number, tag in enumerate(_TAG.findall(text, begin, end)):
            is_open = by_tag.get(tag)
            if is_open is None:
                is_open = by_tag[tag] = by_name.setdefault(_counted_name(tag), [0])
            if is_open is never:
                continue
            if tag[1] != "/":
                is_open[0] += 1
                depth += 1
                if depth > max_depth:
                    return _start_of(text, begin, number)
            elif is_open[0]:
                is_open[0] -= 1
                depth -= 1
        begin = end
    return None


def _counted_name(tag: str) -> str:
    """Empty for one that is never deep."""
    name = tag.strip("</").lower()
    return "" if name in _NEVER_DEEP else name


def _start_of(text: str, begin: int, number: int) -> int:
    """Of the tag that comes after so many from there on."""
    return next(islice(_TAG.finditer(text, begin), number, None)).start()

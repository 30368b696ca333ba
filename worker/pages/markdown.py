"""The main content of a page, as reduced HTML → Markdown. Pure.

The reduced HTML is that of resiliparse: headings, paragraphs, lists, <pre>, <br> and links; all
other text is escaped, so that a < always begins one of these tags.
"""

import re
from collections.abc import Callable
from html import unescape

# Lists deeper than this are written as deep as this.
MAX_DEPTH = 8

_TAG = re.compile(r'<(/?)(h[1-6]|p|ul|ol|li|pre|br|a)(?=[\s/>])(?:\s+href="([^"]*)")?[^<>]*>')
# A piece of text, and what `split` finds of the tag behind it.
_PER_TAG = 4
# What Markdown would take for more than text, wherever it stands; the backslash first.
_SPECIAL = "\\`*_[]<"
# And what it would at the beginning of a line.
_AT_BEGINNING = re.compile(r"(#{1,6} |[-+>] |\d+[.)] )")
_OTHER_SPACES = "\n\t\r"
_MANY_BREAKS = re.compile(r"\n{3,}")
_EMPTY_LINES = re.compile(r"\n[ \n]*\n")
_BREAKS = "\n\n\n"
_EMPTY_LINKS = ("[](", "[ ](")
_EMPTY_LINK = re.compile(r"(?<!\\)\[ ?\]\([^()\s]*\)")
# Between pieces that are changed together: a call for each would take most of the time. No parser
# leaves one in a text.
_BETWEEN = "\0"


def markdown_of(reduced: str, target_of: Callable[[str], str | None]) -> str:
    """`target_of` makes a reference absolute; what it has no answer for is no link."""
    found = _TAG.split(reduced.replace(_BETWEEN, ""))
    plain = unescape(_BETWEEN.join(found[::_PER_TAG]))
    raws, texts = plain.split(_BETWEEN), _escaped(plain).split(_BETWEEN)
    writer = _Writer(target_of)
    writer.text(raws[0], texts[0])
    tags = (found[group::_PER_TAG] for group in (1, 2, 3))
    for closing, name, reference, raw, text in zip(*tags, raws[1:], texts[1:], strict=True):
        if closing:
            writer.end(name)
        else:
            writer.begin(name, reference)
        if raw:
            writer.text(raw, text)
    return writer.markdown


def _escaped(plain: str) -> str:
    """With single spaces. A call that replaces one thing looks at a character in a hundredth of the
    time that an expression takes."""
    for space in _OTHER_SPACES:
        plain = plain.replace(space, " ")
    while "  " in plain:
        plain = plain.replace("  ", " ")
    for character in _SPECIAL:
        plain = plain.replace(character, f"\\{character}")
    return plain


def text_of(reduced: str) -> str:
    """The same without any marks."""
    return _EMPTY_LINES.sub("\n\n", unescape(_TAG.sub("", reduced))).strip()


class _Writer:
    """State: what is written, the lists that are open (the last number of each, None for bullets),
    and the link that is."""

    def __init__(self, target_of: Callable[[str], str | None]) -> None:
        self._target_of = target_of
        self._parts: list[str] = []
        self._lists: list[int | None] = []
        self._target: str | None = None
        self._is_pre = False
        self._begins_line = True
        self._begins_item = False

    @property
    def markdown(self) -> str:
        text = "".join(self._parts)
        # Expressions look at every character, to find nothing in most pages.
        if any(empty in text for empty in _EMPTY_LINKS):
            text = _EMPTY_LINK.sub("", text)
        if _BREAKS in text:
            text = _MANY_BREAKS.sub("\n\n", text)
        return text.strip()

    def text(self, raw: str, escaped: str) -> None:
        if self._is_pre:
            self._parts.append(raw)
        elif self._begins_line:
            line = escaped.lstrip(" ")
            if line:
                self._parts.append(_after_mark(line))
                self._begins_line = self._begins_item = False
        else:
            self._parts.append(escaped)

    def begin(self, name: str, reference: str | None) -> None:
        if name == "a":
            self._target = self._target_of(unescape(reference)) if reference else None
            if self._target is not None:
                self._parts.append("[")
                self._begins_line = self._begins_item = False
            return
        self._begins_line = True
        if name == "br":
            self._parts.append("  \n")
        elif name == "pre":
            self._is_pre = True
            self._parts.append("\n\n```\n")
        elif name == "li":
            self._parts.append(self._item())
        elif name == "p":
            self._parts.append(self._paragraph())
        elif name in ("ul", "ol"):
            self._parts.append("\n" if self._lists else "\n\n")
            self._lists.append(0 if name == "ol" else None)
        else:
            self._parts.append(f"\n\n{'#' * int(name[1])} ")

    def end(self, name: str) -> None:
        if name == "a":
            if self._target is not None:
                self._parts.append(f"]({self._target})")
                self._target = None
            return
        self._begins_line = True
        if name == "pre":
            self._is_pre = False
            self._parts.append("\n```\n\n")
        elif name == "li":
            self._begins_item = False
            self._parts.append("\n")
        elif name == "p" and self._lists:
            self._parts.append("\n")
        else:
            if name in ("ul", "ol") and self._lists:
                self._lists.pop()
            self._parts.append("\n" if self._lists else "\n\n")

    def _paragraph(self) -> str:
        """The first one of an item stands in its line."""
        if self._begins_item:
            return ""
        return "\n\n" + "  " * min(len(self._lists), MAX_DEPTH)

    def _item(self) -> str:
        self._begins_item = True
        indent = "  " * min(max(len(self._lists) - 1, 0), MAX_DEPTH)
        last = self._lists[-1] if self._lists else None
        if last is None:
            return f"{indent}- "
        self._lists[-1] = last + 1
        return f"{indent}{last + 1}. "


def _after_mark(line: str) -> str:
    """A line that looks like a heading, an item or a quotation is none."""
    return "\\" + line if _AT_BEGINNING.match(line) else line

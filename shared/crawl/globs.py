"""Patterns of whole URLs in which * stands for any characters. Pure.

No regular expressions: the author of the patterns may also have written the pages, and searching
for one piece after the other never backtracks.
"""

import re
from collections.abc import Iterable

from manyhands.shared.crawl.canonical import origin_of
from manyhands.shared.urls import DEFAULT_PORTS, Url, canonical_escapes

_STARS = re.compile(r"\*+")
_UNUSABLE = re.compile(r"[\s\x00-\x1f\x7f]")
# Scheme and host, of patterns that have them in full.
_ORIGIN = re.compile(r"[a-z]+://[^/*?]+(?=/)")


class UnusablePattern(ValueError):
    """No URL can match. `why` does not repeat the pattern, as the text does."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"{pattern!r} {why}")
        self.why = f"it {why}"


class Glob:
    """One pattern. `text` is what it was given as; the pieces are as canonical URLs write them."""

    __slots__ = ("_end", "_least_length", "_middle", "_start", "origin", "text")

    def __init__(self, text: str) -> None:
        """Raises UnusablePattern if no URL can match."""
        canonical = _canonical(text)
        found = _ORIGIN.match(canonical)
        self.text = text
        # "" for a pattern that may fit URLs of many hosts.
        self.origin = found[0] if found is not None else ""
        self._start, *middle = _STARS.split(canonical)
        # Without a star the whole pattern is a prefix, and nothing may follow it.
        self._end = middle.pop() if middle else None
        self._middle = tuple(middle)
        self._least_length = len(canonical) - canonical.count("*")

    @property
    def only_piece(self) -> str:
        """Of a pattern such as */tag/*, which fits whatever contains it; else empty."""
        is_one = self._end == "" and not self._start and len(self._middle) == 1
        return self._middle[0] if is_one else ""

    def fits(self, url: str) -> bool:
        if self._end is None:
            return url == self._start
        if len(url) < self._least_length or not url.startswith(self._start):
            return False
        if not url.endswith(self._end):
            return False
        at, end = len(self._start), len(url) - len(self._end)
        for piece in self._middle:
            at = url.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True


class Globs:
    """Many patterns, asked at once; those with scheme and host only for URLs of that host, and
    those of one piece, the most common ones, without a call for each."""

    __slots__ = ("_anywhere", "_by_origin", "_pieces")

    def __init__(self, patterns: Iterable[Glob]) -> None:
        self._anywhere: list[Glob] = []
        self._by_origin: dict[str, list[Glob]] = {}
        self._pieces: dict[str, str] = {}
        for pattern in patterns:
            if pattern.origin:
                self._by_origin.setdefault(pattern.origin, []).append(pattern)
            elif pattern.only_piece:
                self._pieces.setdefault(pattern.only_piece, pattern.text)
            else:
                self._anywhere.append(pattern)

    def __bool__(self) -> bool:
        return bool(self._anywhere or self._by_origin or self._pieces)

    def match(self, url: Url) -> str | None:
        """One that fits, as it was given; those of the URL's own host before the others."""
        text = url.text
        if self._by_origin:
            for pattern in self._by_origin.get(origin_of(text), ()):
                if pattern.fits(text):
                    return pattern.text
        for piece in self._pieces:
            if piece in text:
                return self._pieces[piece]
        for pattern in self._anywhere:
            if pattern.fits(text):
                return pattern.text
        return None


def _canonical(pattern: str) -> str:
    """Scheme and host in lower case, without the default port, escaped."""
    if _UNUSABLE.search(pattern):
        raise UnusablePattern(pattern, "has white space in it: no URL can match")
    if "#" in pattern:
        raise UnusablePattern(pattern, "has a fragment in it: no URL can match")
    scheme, mark, rest = pattern.partition("://")
    if not mark:
        return canonical_escapes(pattern)
    host, slash, path = rest.partition("/")
    if not host.isascii():
        raise UnusablePattern(pattern, "has a host that is not written in ASCII (xn--…)")
    if not slash and "*" not in host:
        raise UnusablePattern(pattern, "has no path: add /* for the whole host")
    scheme = scheme.lower()
    host = host.lower().removesuffix(f":{DEFAULT_PORTS.get(scheme)}")
    return f"{scheme}://{host}{slash}{canonical_escapes(path)}"

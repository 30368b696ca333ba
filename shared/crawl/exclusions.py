"""What must not be crawled, from a list of the operator's. Pure.

One rule a line: a name, which means that host or domain with all hosts below it, or a pattern of
whole URLs, which has a `*` or a `/` in it. `#` begins a comment.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Self

from manyhands.shared.crawl.globs import Glob, Globs, UnusablePattern
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import HOSTS_REMEMBERED, Url, parse_host

# At the start of a line or after white space; anywhere else it is part of a URL.
_COMMENT = re.compile(r"(?:^|\s)#.*")
MAX_LINE_LENGTH = 2048


class Exclusions:
    """Names and patterns. State: the names' verdicts on recent hosts."""

    __slots__ = ("__weakref__", "name_of_host", "patterns")

    def __init__(self, names: Iterable[str] = (), patterns: Iterable[Glob] = ()) -> None:
        excluded = frozenset(names)
        self.patterns = Globs(patterns)

        @lru_cache(maxsize=HOSTS_REMEMBERED)
        def name_of_host(host: str) -> str | None:
            return name_above(host, excluded)

        self.name_of_host = name_of_host

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Self:
        """Raises ValueError with the line's number and what is wrong with it, but without its
        text: a client that names a file may not be allowed to read it."""
        names: list[str] = []
        patterns: list[Glob] = []
        for number, line in enumerate(lines, start=1):
            rule = _COMMENT.sub("", line).strip()
            try:
                if "/" in rule or "*" in rule:
                    patterns.append(_pattern(rule))
                elif rule:
                    names.append(parse_host(rule))
            except UnusablePattern as error:
                raise ValueError(f"line {number}: {error.why}") from None
            except InvalidUrl:
                raise ValueError(f"line {number}: not the name of a host or domain") from None
        return cls(names, patterns)

    def match(self, url: Url) -> str | None:
        """The rule that excludes the URL, as it was written."""
        return self.name_of_host(url.host) or self.patterns.match(url)


def name_above(host: str, names: frozenset[str]) -> str | None:
    """Which of the names is the host, or a domain that the host is in."""
    while host not in names:
        _, dot, host = host.partition(".")
        if not dot:
            return None
    return host


def _pattern(rule: str) -> Glob:
    if len(rule) > MAX_LINE_LENGTH:
        raise UnusablePattern(rule, f"is longer than {MAX_LINE_LENGTH} characters")
    if rule.startswith("*.") and "/" not in rule and "*" not in rule[2:]:
        raise UnusablePattern(
            rule,
            "is a pattern of whole URLs and fits none: without *. it is the domain with all its "
            "hosts",
        )
    return Glob(rule)

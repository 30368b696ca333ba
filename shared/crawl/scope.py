"""Whether a URL belongs to a crawl. Pure.

Asked for every link of every page. What depends on the seeds is left to the state store, which
knows them: the verdict names the host or domain that must be one of theirs.
"""

from collections.abc import Container, Iterable
from functools import lru_cache
from typing import NamedTuple

from manyhands.shared.crawl.exclusions import Exclusions, name_above
from manyhands.shared.crawl.globs import Glob, Globs
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.shared.crawl.traps import is_named_like_a_file, trap_of
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import HOSTS_REMEMBERED, Url, parse_host, registrable_domain


class Verdict(NamedTuple):
    """`reason` says why the URL is out, briefly and without the URL, because verdicts are counted
    by it. `scope_name` is the host or domain that must be a seed's, or empty."""

    is_in: bool
    reason: str
    scope_name: str


IN = Verdict(True, "", "")
TOO_DEEP = Verdict(False, "depth", "")
OUTSIDE = Verdict(False, "scope", "")
OTHER_PATTERN = Verdict(False, "pattern", "")
A_FILE = Verdict(False, "trap: binary suffix", "")


class Scope:
    """State: the verdicts on recent hosts."""

    def __init__(self, spec: ScopeSpec, exclusions: Exclusions) -> None:
        """Raises ValueError with the names or patterns that are not valid."""
        self._within = spec.within
        # No link is followed: everything but the seeds and their redirects is out.
        self._max_depth = 0 if spec.within == "seeds" else spec.max_depth
        self._too_deep = OUTSIDE if spec.within == "seeds" else TOO_DEEP
        self._skips_files = spec.skips_files
        self._hosts = _names("hosts", spec.hosts)
        self._domains = _names("domains", spec.domains)
        self._include = _globs("include", spec.include)
        self._exclude = _globs("exclude", spec.exclude)
        # As long as this is in use, so are they, for others with the same ones.
        self.exclusions = exclusions
        self._excluded_name = exclusions.name_of_host
        self._excluded = exclusions.patterns or None
        # A host without a seed is out, whatever the other rules say.
        self.is_by_seeds = spec.within in ("hosts", "domains") and not (spec.hosts or spec.domains)
        self._is_by_domain = spec.within == "domains"
        self._of_host = lru_cache(maxsize=HOSTS_REMEMBERED)(self._judge_host)

    def may_be_in(self, host: str, seed_names: Container[str]) -> bool:
        """A cheap check for crawls scoped by their seeds: False only for hosts that are out. Most
        links of a page lead to hosts never seen before."""
        if host in seed_names:
            return True
        if self._is_by_domain:
            while dot := host.find(".") + 1:
                host = host[dot:]
                if host in seed_names:
                    return True
        return False

    def judge_host(self, host: str) -> Verdict:
        """The verdict on a host as a whole; a URL on a host that is in may still be out."""
        return self._of_host(host)

    def judge(self, url: Url, depth: int) -> Verdict:
        if depth > self._max_depth:
            return self._too_deep
        verdict = self._of_host(url.host)
        if not verdict.is_in:
            return verdict
        trap = trap_of(url)
        if trap is not None:
            return Verdict(False, f"trap: {trap}", "")
        if self._skips_files and is_named_like_a_file(url):
            return A_FILE
        if self._excluded is not None:
            rule = self._excluded.match(url)
            if rule is not None:
                return _excluded(rule)
        if self._include is not None and self._include.match(url) is None:
            return OTHER_PATTERN
        if self._exclude is not None and self._exclude.match(url) is not None:
            return OTHER_PATTERN
        return verdict

    def _judge_host(self, host: str) -> Verdict:
        rule = self._excluded_name(host)
        if rule is not None:
            return _excluded(rule)
        if host in self._hosts or name_above(host, self._domains) is not None:
            return IN
        match self._within:
            case "hosts":
                return Verdict(True, "", host)
            case "domains":
                return Verdict(True, "", registrable_domain(host))
            case "listed":
                return OUTSIDE
            case "seeds" | "anywhere":
                return IN


def _excluded(rule: str) -> Verdict:
    return Verdict(False, f"excluded: {rule}", "")


def _names(field: str, names: Iterable[str]) -> frozenset[str]:
    checked: set[str] = set()
    wrong: list[str] = []
    for name in names:
        try:
            checked.add(parse_host(name))
        except InvalidUrl:
            wrong.append(repr(name[:80]))
    if wrong:
        raise ValueError(f"{field}: no host names: {', '.join(wrong[:10])}")
    return frozenset(checked)


def _globs(field: str, patterns: Iterable[str]) -> Globs | None:
    try:
        return Globs([Glob(pattern) for pattern in patterns]) or None
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None

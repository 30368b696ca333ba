"""Judge how politely a web was visited, by the ledger of the web itself. Pure.

The times are the origin's: an answer ends when its last byte is handed to the system, so a crawler
that waits its delay from there never seems to be early.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.client import INTERNAL_SERVER_ERROR, SERVICE_UNAVAILABLE, TOO_MANY_REQUESTS
from itertools import accumulate

from manyhands.shared.urls import registrable_domain

NS = 1_000_000_000
# What the reading of two clocks and the loopback may cost.
TOLERANCE_S = 0.01
# A host that sends a visitor away and does not say for how long is left alone for a minute; less
# what the jitter of that may take.
HEADERLESS_BLOCK_S = 50.0
SAMPLES = 5
_CONTACT = re.compile(r"[^\s@(;]+@[^\s@);]+\.[^\s@);]+")
SEND_AWAY = (TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE)
ROBOTS = "/robots.txt"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, as the origin saw it. `url` is the one of what was asked for, `path` what the
    request said; times are nanoseconds of one clock."""

    host: str
    path: str
    url: str
    arrived_ns: int
    ended_ns: int
    # Until when the answer wants the host left alone; 0: it does not say.
    blocked_until_ns: int
    connection: int
    agent: str
    # 0: the visitor went away before the answer, or could not use it.
    status: int
    is_robots: bool
    # By the rules of the host's robots.txt.
    is_forbidden: bool
    # Of the host's robots.txt; 0: none.
    crawl_delay_s: float


@dataclass(slots=True)
class Violations:
    """How often, and the first of them in words."""

    count: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, sample: str) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(sample)


@dataclass(slots=True)
class Verdict:
    visits: int = 0
    # From the end of an answer to the next request of the same registrable domain; None: there were
    # no two. `least_gap_s` is that of pages, the other one that before or after a robots.txt.
    least_gap_s: float | None = None
    least_robots_gap_s: float | None = None
    most_at_once_per_host: int = 0
    most_at_once_per_domain: int = 0
    short_gaps: Violations = field(default_factory=Violations)
    short_robots_gaps: Violations = field(default_factory=Violations)
    # Between two pages of a host whose robots.txt wants more than the crawl's own delay.
    short_crawl_delays: Violations = field(default_factory=Violations)
    # Requests that came while the same host was still answering another.
    overlaps: Violations = field(default_factory=Violations)
    forbidden: Violations = field(default_factory=Violations)
    before_robots: Violations = field(default_factory=Violations)
    while_blocked: Violations = field(default_factory=Violations)
    # URLs that were answered for good and asked for once more.
    repeated: Violations = field(default_factory=Violations)
    without_contact: Violations = field(default_factory=Violations)

    @property
    def all_violations(self) -> dict[str, Violations]:
        """Without the gaps around robots.txt, which is fetched apart from the pages."""
        return {
            "short gaps": self.short_gaps,
            "short of the Crawl-delay": self.short_crawl_delays,
            "overlapping requests": self.overlaps,
            "forbidden by robots.txt": self.forbidden,
            "before robots.txt": self.before_robots,
            "while blocked": self.while_blocked,
            "fetched again": self.repeated,
            "no contact in the user agent": self.without_contact,
        }

    @property
    def is_polite(self) -> bool:
        return not any(one.count for one in self.all_violations.values())

    def __str__(self) -> str:
        found = [
            f"{one.count} {name}, such as {one.samples[0]}"
            for name, one in self.all_violations.items()
            if one.count
        ]
        return "; ".join(found) or f"{self.visits} visits, all polite"


def judge(visits: Iterable[Visit], *, delay_s: float, tolerance_s: float = TOLERANCE_S) -> Verdict:
    """`delay_s` is what the crawl promised each registrable domain; a longer Crawl-delay of a host
    counts between two requests of that host."""
    ordered = sorted(visits, key=lambda visit: visit.arrived_ns)
    verdict = Verdict(visits=len(ordered))
    tolerance_ns = round(tolerance_s * NS)
    for of_domain in _grouped(ordered, lambda visit: registrable_domain(visit.host)):
        _judge_gaps(verdict, of_domain, delay_s, tolerance_ns)
        verdict.most_at_once_per_domain = max(
            verdict.most_at_once_per_domain, _most_at_once(of_domain)
        )
    for of_host in _grouped(ordered, lambda visit: visit.host):
        _judge_crawl_delay(verdict, of_host, delay_s, tolerance_ns)
        _judge_overlaps(verdict, of_host, tolerance_ns)
        _judge_robots(verdict, of_host)
        _judge_blocks(verdict, of_host, tolerance_ns)
    _judge_repeats(verdict, ordered)
    for visit in ordered:
        if visit.is_forbidden:
            verdict.forbidden.add(visit.url)
        if not _CONTACT.search(visit.agent):
            verdict.without_contact.add(f"{visit.agent!r} at {visit.url}")
    return verdict


def _grouped(visits: Sequence[Visit], key: Callable[[Visit], str]) -> Iterable[list[Visit]]:
    groups: dict[str, list[Visit]] = defaultdict(list)
    for visit in visits:
        groups[key(visit)].append(visit)
    return groups.values()


def _followers(visits: Iterable[Visit]) -> Iterator[tuple[Visit, Visit]]:
    """Each visit with the one that ended last of all that came before it."""
    latest: Visit | None = None
    for visit in visits:
        if latest is not None:
            yield latest, visit
        if latest is None or visit.ended_ns > latest.ended_ns:
            latest = visit


def _pages(visits: Iterable[Visit]) -> Iterator[Visit]:
    return (visit for visit in visits if not visit.is_robots)


def _judge_gaps(
    verdict: Verdict, visits: Sequence[Visit], delay_s: float, tolerance_ns: int
) -> None:
    least_ns = round(delay_s * NS) - tolerance_ns
    for before, after in _followers(_pages(visits)):
        gap_ns = after.arrived_ns - before.ended_ns
        verdict.least_gap_s = _less(verdict.least_gap_s, gap_ns)
        if gap_ns < least_ns:
            verdict.short_gaps.add(_gap(before, after))
    for before, after in _followers(visits):
        if not (before.is_robots or after.is_robots):
            continue
        gap_ns = after.arrived_ns - before.ended_ns
        verdict.least_robots_gap_s = _less(verdict.least_robots_gap_s, gap_ns)
        if gap_ns < least_ns:
            verdict.short_robots_gaps.add(_gap(before, after))


def _judge_crawl_delay(
    verdict: Verdict, visits: Sequence[Visit], delay_s: float, tolerance_ns: int
) -> None:
    wanted_s = visits[0].crawl_delay_s
    if wanted_s <= delay_s:
        return
    for before, after in _followers(_pages(visits)):
        if after.arrived_ns - before.ended_ns < wanted_s * NS - tolerance_ns:
            verdict.short_crawl_delays.add(_gap(before, after))


def _less(least_s: float | None, gap_ns: int) -> float:
    gap_s = gap_ns / NS
    return gap_s if least_s is None else min(least_s, gap_s)


def _gap(before: Visit, after: Visit) -> str:
    gap_s = (after.arrived_ns - before.ended_ns) / NS
    return f"{after.url} {gap_s:.3f} s after {before.url}"


def _judge_overlaps(verdict: Verdict, visits: Sequence[Visit], tolerance_ns: int) -> None:
    verdict.most_at_once_per_host = max(verdict.most_at_once_per_host, _most_at_once(visits))
    for before, after in _followers(_pages(visits)):
        if after.arrived_ns < before.ended_ns - tolerance_ns:
            verdict.overlaps.add(f"{after.url} during {before.url}")


def _most_at_once(visits: Sequence[Visit]) -> int:
    changes = [(visit.arrived_ns, 1) for visit in _pages(visits)]
    changes += [(visit.ended_ns, -1) for visit in _pages(visits)]
    # Of what happens at the same time the end sorts first.
    return max(accumulate((change for _, change in sorted(changes)), initial=0))


def _judge_robots(verdict: Verdict, visits: Sequence[Visit]) -> None:
    """A robots.txt that could not be had is none: the host must be left alone."""
    known_at = [
        visit.ended_ns
        for visit in visits
        if visit.path == ROBOTS and visit.status != 0 and not _is_temporary(visit.status)
    ]
    for visit in _pages(visits):
        if not known_at or visit.arrived_ns < min(known_at):
            verdict.before_robots.add(visit.url)


def _judge_blocks(verdict: Verdict, visits: Sequence[Visit], tolerance_ns: int) -> None:
    """What was on its way when the host sent somebody away does not count."""
    blocks: list[tuple[int, int]] = []
    for visit in visits:
        if any(
            ended_ns + tolerance_ns < visit.arrived_ns < until_ns - tolerance_ns
            for ended_ns, until_ns in blocks
        ):
            verdict.while_blocked.add(visit.url)
        if visit.status in SEND_AWAY and not visit.is_robots:
            until_ns = visit.blocked_until_ns or visit.ended_ns + round(HEADERLESS_BLOCK_S * NS)
            blocks.append((visit.ended_ns, until_ns))


def _judge_repeats(verdict: Verdict, visits: Sequence[Visit]) -> None:
    settled: set[str] = set()
    for visit in _pages(visits):
        if visit.url in settled:
            verdict.repeated.add(visit.url)
        elif visit.status != 0 and not _is_temporary(visit.status):
            settled.add(visit.url)


def _is_temporary(status: int) -> bool:
    return status == TOO_MANY_REQUESTS or status >= INTERNAL_SERVER_ERROR

"""What the origin's ledger and the looks at a crawl say in numbers. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loadtest.lib.errors import RunError
from loadtest.web.oracle import Coverage
from loadtest.web.politeness import NS, Verdict, Visit
from loadtest.web.synthetic_web import Counts

# Counted between these shares of the pages: without the start and without the tail.
WINDOW = (0.1, 0.9)


class Look(NamedTuple):
    """What all processes that crawl said of themselves, added up; seconds of our own clock."""

    at_s: float
    busy: int
    ready: int


@dataclass(frozen=True, slots=True)
class Visited:
    """The pages of a crawl as the origin saw them; nanoseconds of its clock."""

    pages: int
    began_ns: int
    ended_ns: int
    # The steady middle.
    from_ns: int
    until_ns: int
    steady_pages: int
    answering_ns: int

    @classmethod
    def of(cls, visits: Iterable[Visit]) -> "Visited":
        """A page that was fetched twice counts once, when it was first there. Raises RunError when
        there are too few to speak of a rate."""
        ended = sorted(visits, key=lambda visit: visit.ended_ns, reverse=True)
        pages = list({visit.url: visit for visit in ended if not visit.is_robots}.values())
        ends = sorted(visit.ended_ns for visit in pages)
        first, last = (round(share * (len(ends) - 1)) for share in WINDOW)
        if last <= first or ends[first] == ends[last]:
            raise RunError(f"{len(ends)} pages were fetched: too few for a rate")
        return cls(
            pages=len(pages),
            began_ns=min(visit.arrived_ns for visit in pages),
            ended_ns=ends[-1],
            from_ns=ends[first],
            until_ns=ends[last],
            steady_pages=last - first,
            answering_ns=sum(visit.ended_ns - visit.arrived_ns for visit in pages),
        )

    @property
    def pages_per_s(self) -> float:
        return self.pages / (self.ended_ns - self.began_ns) * NS

    @property
    def steady_pages_per_s(self) -> float:
        return self.steady_pages / (self.until_ns - self.from_ns) * NS

    @property
    def at_once(self) -> float:
        """Pages that it was answering at the same time, in the mean."""
        return self.answering_ns / (self.ended_ns - self.began_ns)

    def values(self) -> dict[str, float]:
        return {
            "pages": self.pages,
            "pages_per_s": self.pages_per_s,
            "steady_pages_per_s": self.steady_pages_per_s,
            "at_once": self.at_once,
        }


def steady_means(looks: Sequence[Look], from_s: float, until_s: float) -> tuple[float, float]:
    """Slots in use and ready hosts in the steady middle; of all looks, when none lies in it."""
    steady = [look for look in looks if from_s <= look.at_s <= until_s] or looks
    if not steady:
        raise RunError("nothing was seen of the crawl while it ran")
    return (
        statistics.fmean(look.busy for look in steady),
        statistics.fmean(look.ready for look in steady),
    )


def manners(verdict: Verdict, covered: Coverage) -> dict[str, float]:
    """What was done twice, and two requests of a domain at a time, which is our own rule and
    nobody else's, are counted apart from the other violations."""
    violations = sum(one.count for one in verdict.all_violations.values())
    apart = {"twice": verdict.repeated.count, "two_of_domain": verdict.short_gaps.count}
    return apart | {
        "violations": violations - sum(apart.values()),
        "coverage": covered.fetched / covered.wanted,
        "unwanted": len(covered.unwanted),
    }


def check_coverage(covered: Coverage) -> None:
    """Raise RunError unless it was the work that all are compared by."""
    if not covered.is_exact:
        raise RunError(f"not the perfect crawl: {covered}")


def check_counters(counters: Mapping[str, int], counts: Counts) -> None:
    """Raise RunError unless the crawl counts what the origin does."""
    found = {name: counters[name] for name in ("admitted", "done", "pages")}
    if set(found.values()) != {counts.pages}:
        raise RunError(f"the origin gave {counts.pages} pages, the crawl counts {found}")

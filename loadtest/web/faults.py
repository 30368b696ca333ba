"""Pages that were asked for again after somebody was killed, by the ledger of the web: which of
them a fault explains. Pure; all moments are of the ledger's clock."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from loadtest.web.politeness import NS, Visit

# From the end of an answer to its record in the store, on a machine that is busy with other tests.
STORED_WITHIN_S = 2.0


def pages_of(visits: Iterable[Visit]) -> Iterator[Visit]:
    """Those that were answered with a page."""
    return (one for one in visits if one.status == 200 and not one.is_robots)


def open_at(visits: Iterable[Visit], fault_ns: int) -> set[str]:
    """The pages that were being answered at that moment, or had just been, so that the store need
    not know of it."""
    return {
        visit.url
        for visit in pages_of(visits)
        if visit.arrived_ns <= fault_ns <= visit.ended_ns + STORED_WITHIN_S * NS
    }


def answering_at(visits: Iterable[Visit], fault_ns: int) -> int:
    """How many pages were being answered at that moment."""
    return sum(visit.arrived_ns <= fault_ns <= visit.ended_ns for visit in pages_of(visits))


def repeats_at(visits: Iterable[Visit], faults_ns: Sequence[int]) -> Counter[int | None]:
    """How many pages were asked for before and after each of these moments; None: of those for
    which there is no such moment."""
    found: Counter[int | None] = Counter()
    ordered = sorted(pages_of(visits), key=lambda visit: (visit.url, visit.arrived_ns))
    for before, after in pairwise(ordered):
        if before.url == after.url:
            between = (at for at in faults_ns if before.arrived_ns <= at <= after.arrived_ns)
            found[next(between, None)] += 1
    return found

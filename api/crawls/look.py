"""A look at all live crawls: what waits, what is late, and what came of the rest. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manyhands.shared.crawl.store.model import DUE, LAG_MS, Due, Member


@dataclass(slots=True, frozen=True)
class CrawlLook:
    """`due` domains have a URL that could be fetched now, the first of them for `lag_s`."""

    counters: Mapping[str, int]
    due: int = 0
    lag_s: float = 0.0


@dataclass(slots=True, frozen=True)
class Look:
    """By the crawl's number; 0 are the fetch jobs. `left_out`: live crawls beyond the most that are
    told of. `members` are processes that crawl."""

    crawls: Mapping[int, CrawlLook] = field(default_factory=dict)
    left_out: int = 0
    members: int = 0
    unowned_shards: int = 0


def crawls_of(
    members: Sequence[Member],
    counters: Mapping[int, Mapping[str, int]],
    in_store: Sequence[Due],
    now: float,
) -> dict[int, CrawlLook]:
    """What waits in the stores, and in the memory of those who crawl."""
    due: Counter[int] = Counter()
    lag_s: dict[int, float] = dict.fromkeys(counters, 0.0)
    for one in in_store:
        due[one.crawl] += one.domains
        lag_s[one.crawl] = max(lag_s.get(one.crawl, 0.0), now - one.since)
    for member in members:
        for crawl in counters:
            due[crawl] += member.figures.get(f"{DUE}{crawl}", 0)
            lag_s[crawl] = max(lag_s[crawl], member.figures.get(f"{LAG_MS}{crawl}", 0) / 1000)
    return {
        crawl: CrawlLook(counted, due[crawl], max(0.0, lag_s[crawl]))
        for crawl, counted in counters.items()
    }

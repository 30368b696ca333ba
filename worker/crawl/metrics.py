"""What a process that owns shards tells of itself, beside what every worker process does."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

from manyhands.worker.service.families import DURATION_BOUNDS_S, family, filled
from manyhands.worker.service.link import Family, Sample

FETCHES = family(
    "crawl_fetches_total", "counter", "Requests for pages that ended, by how", "outcome"
)
FETCH_DURATION = family(
    "crawl_fetch_duration_seconds",
    "histogram",
    "From the moment that a slot was taken to the end of the answer",
    bounds=DURATION_BOUNDS_S,
)
BYTES = family("crawl_bytes_total", "counter", "Bytes of the answers, as they came")
CUTS = family(
    "crawl_pages_cut_total", "counter", "Parsed pages of which not all was seen, by why", "limit"
)
LINKS = family("crawl_links_total", "counter", "Links found on parsed pages (edges)")
STATE = family(
    "crawl_state",
    "gauge",
    "Shards owned, and damaged ones of all; slots, their pace by back-pressure, and how many are "
    "busy; domains in memory, ready or waiting for their time; robots.txt asked for; answers on "
    "their way to broker and store",
    "figure",
)
FAMILIES = (FETCHES, FETCH_DURATION, BYTES, LINKS, CUTS, STATE)


class CrawlFigures:
    """Plain counters: this is done for every page."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.buckets = [0] * (len(DURATION_BOUNDS_S) + 1)
        self.seconds = 0.0
        self.bytes = 0
        self.links = 0
        self.cuts: Counter[str] = Counter()

    def fetched(self, outcome: str, took_s: float, size: int = 0) -> None:
        """`outcome` is the class of a status, or `error`."""
        self.outcomes[outcome] += 1
        self.buckets[bisect_left(DURATION_BOUNDS_S, took_s)] += 1
        self.seconds += took_s
        self.bytes += size

    def families(self, state: Mapping[str, int]) -> Iterable[Family]:
        yield filled(FETCHES, [Sample([name], count) for name, count in self.outcomes.items()])
        yield filled(FETCH_DURATION, [Sample([], self.seconds, list(self.buckets))])
        yield filled(BYTES, [Sample([], self.bytes)])
        yield filled(LINKS, [Sample([], self.links)])
        yield filled(CUTS, [Sample([name], count) for name, count in self.cuts.items()])
        yield filled(STATE, [Sample([name], number) for name, number in state.items()])

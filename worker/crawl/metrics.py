"""The metrics of a process that owns shards, in addition to those of every worker process."""

from collections import Counter
from collections.abc import Iterable, Mapping

from manyhands.shared.histogram import Histogram
from manyhands.worker.service.families import DURATION_BOUNDS_S, family, filled, of_histogram
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
    "Shards owned, those of them whose place is away, and damaged ones of all; slots, their pace "
    "by back-pressure, and how many are busy; domains in memory, ready or waiting for their time; "
    "robots.txt asked for; answers on their way to broker and store, and how long the broker has "
    "not answered; how much of the time the process has work",
    "figure",
)
STORE_AWAY = family(
    "crawl_store_away_seconds",
    "gauge",
    "How long what keeps the crawls' state has been away, so that crawls wait; 0: it is there",
)
FAMILIES = (FETCHES, FETCH_DURATION, BYTES, LINKS, CUTS, STATE, STORE_AWAY)


class CrawlFigures:
    """Plain counters: they are touched for every page."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.durations = Histogram(DURATION_BOUNDS_S)
        self.bytes = 0
        self.links = 0
        self.cuts: Counter[str] = Counter()

    def fetched(self, outcome: str, took_s: float, size: int = 0) -> None:
        """`outcome` is the class of a status, or `error`."""
        self.outcomes[outcome] += 1
        self.durations.add(took_s)
        self.bytes += size

    def families(self, state: Mapping[str, int], store_away_s: float) -> Iterable[Family]:
        yield filled(FETCHES, [Sample([name], count) for name, count in self.outcomes.items()])
        yield filled(FETCH_DURATION, [of_histogram([], self.durations)])
        yield filled(BYTES, [Sample([], self.bytes)])
        yield filled(LINKS, [Sample([], self.links)])
        yield filled(CUTS, [Sample([name], count) for name, count in self.cuts.items()])
        yield filled(STATE, [Sample([name], number) for name, number in state.items()])
        yield filled(STORE_AWAY, [Sample([], store_away_s)])

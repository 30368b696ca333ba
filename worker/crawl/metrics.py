"""The metrics of a process that owns shards, in addition to those of every worker process."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from manyhands.shared.crawl.cuts import CUT_COUNTERS
from manyhands.shared.histogram import Histogram
from manyhands.worker.service.families import (
    DURATION_BOUNDS_S,
    family,
    filled,
    of_histogram,
    single,
)
from manyhands.worker.service.link import Family, Sample

SIZE_BOUNDS = (1e3, 4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6)
WAIT_BOUNDS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
# Reasons are our own words, and few; this is only so that a mistake makes no endless series.
MOST_KINDS = 40
OTHER = "(other)"

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
PAGE_BYTES = family(
    "crawl_page_bytes", "histogram", "Size of an answer, as it came", bounds=SIZE_BOUNDS
)
ERRORS = family(
    "crawl_fetch_errors_total", "counter", "Requests for pages without an answer, by why", "type"
)
ROBOTS = family(
    "crawl_robots_requests_total",
    "counter",
    "Requests for robots.txt, by what came of it",
    "outcome",
)
POLITENESS = family(
    "crawl_politeness_wait_seconds",
    "histogram",
    "How long a domain is left alone after a request, from its answer to its next time",
    bounds=WAIT_BOUNDS_S,
)
PUT_OFF = family(
    "crawl_hosts_put_off_total",
    "counter",
    "Times that a host was left alone for longer, by why",
    "why",
)
LEASES = family("crawl_leases_total", "counter", "Moves of shards, seen from this process", "move")
STORE = family(
    "crawl_store_seconds",
    "histogram",
    "From handing changes of a shard to the store until they are stored, per transaction",
    bounds=DURATION_BOUNDS_S,
)
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
FAMILIES = (
    *(FETCHES, FETCH_DURATION, ERRORS, BYTES, PAGE_BYTES, LINKS, CUTS, ROBOTS, POLITENESS),
    *(PUT_OFF, LEASES, STORE, STATE, STORE_AWAY),
)


@dataclass(slots=True, frozen=True)
class OtherFigures:
    """What parts of a crawling process count themselves."""

    state: Mapping[str, int]
    robots: Mapping[str, int]
    moves: Mapping[str, int]
    store: Histogram
    store_away_s: float


class CrawlFigures:
    """Plain counters: they are touched for every page. What is counted from zero can be watched
    from the first time on: Prometheus does not see a counter come."""

    def __init__(self) -> None:
        self.outcomes = zeros("2xx", "3xx", "4xx", "5xx", "error")
        self.durations = Histogram(DURATION_BOUNDS_S)
        self.errors = zeros("time-out", "connection refused", "connection closed", "tls")
        self.bytes = 0
        self.page_bytes = Histogram(SIZE_BOUNDS)
        self.links = 0
        self.cuts = zeros(*CUT_COUNTERS)
        self.politeness = Histogram(WAIT_BOUNDS_S)
        self.put_off = zeros("http 429", "http 503")

    def fetched(self, status: int, took_s: float, size: int) -> None:
        self.outcomes[f"{status // 100}xx"] += 1
        self.durations.add(took_s)
        self.bytes += size
        self.page_bytes.add(size)

    def failed(self, reason: str, took_s: float) -> None:
        """What stands before a colon in the reason is its type."""
        self.outcomes["error"] += 1
        self.durations.add(took_s)
        self.errors[_kind(reason, self.errors)] += 1

    def left_alone(self, trouble: str) -> None:
        self.put_off[_kind(trouble, self.put_off)] += 1

    def families(self, others: OtherFigures) -> Iterable[Family]:
        for made, counts in (
            (FETCHES, self.outcomes),
            (ERRORS, self.errors),
            (CUTS, self.cuts),
            (ROBOTS, others.robots),
            (PUT_OFF, self.put_off),
            (LEASES, others.moves),
            (STATE, others.state),
        ):
            yield filled(made, [Sample([name], count) for name, count in counts.items()])
        for made, histogram in (
            (FETCH_DURATION, self.durations),
            (PAGE_BYTES, self.page_bytes),
            (POLITENESS, self.politeness),
            (STORE, others.store),
        ):
            yield filled(made, [of_histogram([], histogram)])
        yield single(BYTES, self.bytes)
        yield single(LINKS, self.links)
        yield single(STORE_AWAY, others.store_away_s)


def zeros(*names: str) -> Counter[str]:
    return Counter(dict.fromkeys(names, 0))


def _kind(reason: str, known: Counter[str]) -> str:
    kind = reason.partition(":")[0]
    return kind if kind in known or len(known) < MOST_KINDS else OTHER

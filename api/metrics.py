"""What this service counts, and the broker's own figures, as Prometheus reads them. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from manyhands.api.crawls.look import Look
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS

BATCH_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class ApiMetrics:
    """The figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "api_requests", "Requests answered", ["route", "status"], registry=self.registry
        )
        # Finding one by its labels costs more than counting.
        self._answered: dict[tuple[str, int], Counter] = {}
        self.jobs = Counter(
            "api_jobs_accepted", "Jobs that the broker has", ["route"], registry=self.registry
        )
        self.single_jobs = self.jobs.labels("single")
        self.held = Gauge(
            "api_jobs_held", "Jobs taken and not answered by the broker yet", registry=self.registry
        )
        self._batch_size = Histogram(
            "api_batch_size", "Jobs of a batch", buckets=BATCH_SIZES, registry=self.registry
        )
        self._batch_wait = Histogram(
            "api_batch_wait_seconds",
            "How long a batch's oldest job waited to be sent",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._push = Histogram(
            "api_push_seconds",
            "From a PUSHB to its answer",
            buckets=SECONDS,
            registry=self.registry,
        )

    def request_answered(self, route: str, status: int) -> None:
        counter = self._answered.get((route, status))
        if counter is None:
            counter = self._answered[route, status] = self.requests.labels(route, str(status))
        counter.inc()

    def batch_pushed(self, size: int, waited_s: float, took_s: float) -> None:
        self._batch_size.observe(size)
        self._batch_wait.observe(waited_s)
        self._push.observe(took_s)


Snapshot = list[list[Any]]


def snapshot(registry: CollectorRegistry) -> Snapshot:
    """All figures of a registry, as JSON can carry them."""
    return [
        [
            family.name,
            family.documentation,
            family.type,
            [[sample.name, sample.labels, sample.value] for sample in family.samples],
        ]
        for family in registry.collect()
    ]


def summed(snapshots: Iterable[Snapshot]) -> list[Metric]:
    """The figures of several processes as those of one."""
    families: dict[str, Metric] = {}
    values: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
    for one in snapshots:
        for name, documentation, kind, samples in one:
            families.setdefault(name, Metric(name, documentation, kind))
            for sample_name, labels, value in samples:
                if sample_name.endswith("_created"):
                    continue  # a moment, not a figure
                key = (name, sample_name, tuple(sorted(labels.items())))
                values[key] = values.get(key, 0.0) + value
    for (name, sample_name, labels), value in values.items():
        families[name].add_sample(sample_name, dict(labels), value)
    return list(families.values())


def server_figures(info: dict[str, Any] | None, latencies: dict[str, float]) -> Iterable[Metric]:
    """What INFO says of the broker. A real Faktory has no exporter: this serves it too."""
    yield GaugeMetricFamily("faktory_up", "1 when the broker answers", value=int(info is not None))
    if info is None:
        return
    faktory, server = info.get("faktory", {}), info.get("server", {})
    queued = GaugeMetricFamily("faktory_queue_jobs", "Jobs that wait", labels=["queue"])
    for name, size in (faktory.get("queues") or {}).items():
        queued.add_metric([name], size)
    latency = GaugeMetricFamily(
        "faktory_queue_latency_seconds", "Age of the oldest job that waits", labels=["queue"]
    )
    for name, age_s in latencies.items():
        latency.add_metric([name], age_s)
    sets = GaugeMetricFamily("faktory_set_jobs", "Jobs in a set", labels=["set"])
    for name, size in set_sizes(info).items():
        sets.add_metric([name], size)
    yield from (queued, latency, sets)
    yield GaugeMetricFamily("faktory_connections", "Clients", value=server.get("connections", 0))
    for name, text, value in (
        ("faktory_processed", "Jobs done or failed", faktory.get("total_processed", 0)),
        ("faktory_failures", "Jobs failed", faktory.get("total_failures", 0)),
        ("faktory_commands", "Commands run", server.get("command_count", 0)),
    ):
        yield CounterMetricFamily(name, text, value=value)


def crawl_figures(states: Mapping[CrawlState, int]) -> Metric:
    """All crawls that the state store knows."""
    crawls = GaugeMetricFamily("crawls", "Crawls by their state", labels=["state"])
    for state, number in states.items():
        crawls.add_metric([state], number)
    return crawls


def look_figures(look: Look) -> Iterable[Metric]:
    """What waits in the state store, and what became of the rest: of fetch jobs, and of each crawl
    that has not ended. The rest of a crawl that ends is in its view, not here."""
    jobs = GaugeMetricFamily(
        "fetch_jobs", "Fetch jobs in the store, by the state of their URL", labels=["state"]
    )
    urls = GaugeMetricFamily("manyhands_crawl_urls", "URLs by state", labels=["crawl", "state"])
    due = GaugeMetricFamily(
        "manyhands_crawl_due",
        "Domains with a URL whose time has come, of those looked at; crawl 0: fetch jobs",
        labels=["crawl"],
    )
    lag = GaugeMetricFamily(
        "manyhands_crawl_frontier_lag_seconds",
        "For how long the first of them has waited (the frontier's lag)",
        labels=["crawl"],
    )
    counters = {
        name: CounterMetricFamily(f"manyhands_crawl_{called}", text, labels=["crawl"])
        for name, called, text in (
            ("admitted", "admitted", "URLs ever admitted"),
            ("pages", "pages", "Pages fetched to an end"),
            ("bytes", "page_bytes", "Bytes of their bodies"),
            ("links", "links", "Links found on pages"),
            ("readmitted", "lost_in_parsing", "Pages queued again: nobody said they were parsed"),
        )
    }
    for crawl, seen in look.crawls.items():
        due.add_metric([str(crawl)], seen.due)
        lag.add_metric([str(crawl)], seen.lag_s)
        for state in STATE_COUNTERS:
            if crawl == NO_CRAWL:
                jobs.add_metric([state], seen.counters[state])
            else:
                urls.add_metric([str(crawl), state], seen.counters[state])
        if crawl != NO_CRAWL:
            for name, family in counters.items():
                family.add_metric([str(crawl)], seen.counters[name])
    yield from (jobs, urls, due, lag, *counters.values())
    yield GaugeMetricFamily(
        "crawls_left_out", "Crawls that are not told of one by one", value=look.left_out
    )
    yield GaugeMetricFamily(
        "manyhands_crawl_members", "Worker processes that crawl", value=look.members
    )
    yield GaugeMetricFamily(
        "manyhands_crawl_shards_without_owner",
        "Shards that nobody crawls",
        value=look.unowned_shards,
    )


def set_sizes(info: dict[str, Any]) -> dict[str, int]:
    """Sizes of the scheduled, retry, dead and working sets, from either of INFO's two forms."""
    faktory = info.get("faktory", {})
    if "sets" in faktory:
        return dict(faktory["sets"])
    tasks = faktory.get("tasks") or {}
    sizes = {name.lower(): int(task.get("size", 0)) for name, task in tasks.items()}
    names = {"scheduled": "scheduled", "retries": "retries", "dead": "dead", "busy": "working"}
    return {ours: sizes[theirs] for theirs, ours in names.items() if theirs in sizes}


class _Given(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def as_text(metrics: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Given(list(metrics)))
    return generate_latest(registry)

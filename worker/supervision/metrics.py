"""All figures of a service, as Prometheus reads them: its children's, and its own.

A child's counters begin at 0 with each restart; here they are added up, so that those of a
process_id never go back. During a roll two children share one.
"""

import time
from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from manyhands.worker.process.figures import (
    LOOP_LAG,
    MAX_FDS,
    ROUND_TRIP,
    STAGE_JOBS,
    system_families,
)
from manyhands.worker.service.families import family, filled, single
from manyhands.worker.service.link import Family, Figures, Sample
from manyhands.worker.sinks.sinks import OLDEST
from manyhands.worker.supervision.health import readiness
from manyhands.worker.supervision.stage_summary import is_fresh, summarize_stages
from manyhands.worker.supervision.status import ChildState, ServiceStatus

PROCESS_LABELS = ["process_type", "process_id"]
SUPERVISOR = ("supervisor", "supervisor")

READY = family("ready", "gauge", "1 when /readyz says so")
SERVER_UP = family("server_up", "gauge", "1 while the server tells the supervisor what waits")
START_TIME = family("start_time_seconds", "gauge", "When the service started, since 1970")
ROLLS = family("rolls_total", "counter", "Rolling restarts begun")
MEMORY_LIMIT = family(
    "child_memory_limit_bytes", "gauge", "Memory at which a child is replaced; not there without"
)
CHILDREN = family("children", "gauge", "Children by what they do", "process_type", "state")
RESTARTS = family("child_restarts_total", "counter", "Children replaced", *PROCESS_LABELS)
HANGS = family(
    "child_hangs_total", "counter", "Children replaced because they hung", *PROCESS_LABELS
)
CRASH_LOOPING = family(
    "child_crash_looping", "gauge", "1 while it ends again and again", *PROCESS_LABELS
)
SILENCE = family(
    "child_silence_seconds",
    "gauge",
    "Since the child's loop was last seen to turn",
    *PROCESS_LABELS,
)
QUEUE_DEPTH = family(
    "stage_queue_depth",
    "gauge",
    "Jobs that wait in the stage's queues at the server (QueueDepth)",
    *("process_type", "stage"),
)
QUEUE_LAG = family(
    "stage_queue_lag_seconds",
    "gauge",
    "Age of the oldest job that waits in the stage's queues",
    *("process_type", "stage"),
)
PACE = family(
    "stage_pace",
    "gauge",
    "Share of its slots that back-pressure leaves the stage: 1 is all, 0 is none",
    *("process_type", "stage"),
)
PRESSURE = family(
    "stage_pressure_events_total",
    "counter",
    "How often back-pressure has slowed the stage, stopped it, and let it go on freely",
    *("stage", "state"),
)
# All that the supervisor reports; `figures.FAMILIES` come from its processes.
FAMILIES = (
    *(READY, SERVER_UP, START_TIME, ROLLS, MEMORY_LIMIT, CHILDREN, RESTARTS, HANGS),
    *(CRASH_LOOPING, SILENCE, QUEUE_DEPTH, QUEUE_LAG, PACE, PRESSURE),
)
# Of two children in one slot the larger value counts, not the sum.
NOT_ADDED = {ROUND_TRIP.name, MAX_FDS.name, LOOP_LAG.name, SILENCE.name, OLDEST.name}


class Totals:
    """Families by name, with samples by their labels. What comes twice is added up."""

    def __init__(self) -> None:
        self._empty: dict[str, Family] = {}
        self._samples: dict[str, dict[tuple[str, ...], Sample]] = {}

    def add(self, added: Family, labels: tuple[str, ...] = ()) -> None:
        """`labels` go before those of the samples."""
        known = self._empty.get(added.name)
        if known is None or not _is_alike(known, added):
            # New code defines it differently: old counts cannot be added to it.
            self._empty[added.name] = filled(added, [])
            self._samples[added.name] = {}
        samples = self._samples[added.name]
        for sample in added.samples:
            key = (*labels, *sample.labels)
            samples[key] = _sum(added, samples.get(key), sample)

    def add_all(self, others: "Totals") -> None:
        for made in others.families():
            self.add(made)

    def families(self) -> list[Family]:
        return [
            filled(
                empty,
                [
                    Sample(list(labels), sample.value, sample.buckets)
                    for labels, sample in self._samples[name].items()
                ],
            )
            for name, empty in self._empty.items()
        ]


class ServiceMetrics:
    """A `FiguresKeeper`. State: the last figures of each living child, the counts of dead ones, and
    the rate of each stage of a child between its last two figures, and who tells more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._live: dict[tuple[str, str, int], tuple[float, Figures]] = {}
        self._rates: dict[tuple[str, str, int], dict[str, float]] = {}
        self._past = Totals()
        self._more: list[Callable[[], Iterable[Family]]] = []

    def tells_also(self, families: Callable[[], Iterable[Family]]) -> None:
        """What another part of the supervisor counts."""
        self._more.append(families)

    def keep(self, process_type: str, process_id: str, incarnation: int, figures: Figures) -> None:
        key = process_type, process_id, incarnation
        now = self._clock()
        if key in self._live:
            told_at, before = self._live[key]
            self._rates[key] = _rates(before, figures, now - told_at)
        self._live[key] = now, figures

    def ended(self, process_type: str, process_id: str, incarnation: int) -> None:
        key = process_type, process_id, incarnation
        self._rates.pop(key, None)
        _, figures = self._live.pop(key, (0.0, Figures([])))
        for made in figures.families:
            if made.kind != "gauge":
                self._past.add(made, (process_type, process_id))

    def jobs_per_second(self) -> dict[tuple[str, str], float]:
        """By process type and stage, over the last five seconds."""
        totals: dict[tuple[str, str], float] = {}
        for (process_type, _, _), rates in self._rates.items():
            for stage, rate in rates.items():
                totals[process_type, stage] = totals.get((process_type, stage), 0.0) + rate
        return totals

    def text(self, status: ServiceStatus) -> bytes:
        """In Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(
            _Given([*self._process_metrics(), *map(_own_metric, self._supervisors(status))])
        )
        return generate_latest(registry)

    def _supervisors(self, status: ServiceStatus) -> Iterable[Family]:
        yield from own(status)
        for more in self._more:
            yield from more()

    def _process_metrics(self) -> Iterable[Metric]:
        totals = Totals()
        totals.add_all(self._past)
        for (process_type, process_id, _), (_, figures) in self._live.items():
            for made in figures.families:
                totals.add(made, (process_type, process_id))
        for made in system_families():
            totals.add(made, SUPERVISOR)
        return [as_metric(made, [*PROCESS_LABELS, *made.label_names]) for made in totals.families()]


def own(status: ServiceStatus) -> Iterable[Family]:
    """What the supervisor itself knows."""
    yield single(READY, readiness(status).is_ok)
    yield single(SERVER_UP, is_fresh(status))
    yield single(START_TIME, status.started_at)
    yield single(ROLLS, status.rolls)
    if status.memory_limit_bytes is not None:
        yield single(MEMORY_LIMIT, status.memory_limit_bytes)
    yield _children(status)
    yield from _places(status)
    yield from _stages(status)


def _children(status: ServiceStatus) -> Family:
    """Including states without a child: an alert cannot watch a missing series."""
    counts = {(child.process_type, state): 0 for child in status.children for state in ChildState}
    for child in status.children:
        counts[child.process_type, child.state] += 1
    return filled(CHILDREN, [Sample(list(labels), count) for labels, count in counts.items()])


def _places(status: ServiceStatus) -> Iterable[Family]:
    totals = Totals()
    seen: set[str] = set()
    for child in status.children:
        labels = child.process_type, child.process_id
        totals.add(single(SILENCE, child.silence_s), labels)
        if child.process_id not in seen:
            # What follows is per slot, the same for both of its children during a roll.
            seen.add(child.process_id)
            totals.add(single(RESTARTS, child.restarts), labels)
            totals.add(single(HANGS, child.hangs), labels)
            totals.add(single(CRASH_LOOPING, child.is_crash_looping), labels)
    return totals.families()


def _stages(status: ServiceStatus) -> Iterable[Family]:
    summaries = summarize_stages(status)
    yield filled(
        PACE, [Sample([summary.process_type, summary.name], summary.pace) for summary in summaries]
    )
    yield filled(
        PRESSURE,
        [
            Sample([stage, state], count)
            for stage, events in status.pressure_events.items()
            for state, count in events.items()
        ],
    )
    for empty, field in ((QUEUE_DEPTH, "queue_depth"), (QUEUE_LAG, "queue_lag_s")):
        values = [
            ([summary.process_type, summary.name], getattr(summary, field)) for summary in summaries
        ]
        yield filled(
            empty, [Sample(labels, value) for labels, value in values if value is not None]
        )


def as_metric(made: Family, label_names: list[str]) -> Metric:
    if made.kind == "histogram":
        return _histogram(made, label_names)
    kind = CounterMetricFamily if made.kind == "counter" else GaugeMetricFamily
    metric = kind(made.name, made.help, labels=label_names)
    for sample in made.samples:
        metric.add_metric(sample.labels, sample.value)
    return metric


def _histogram(made: Family, label_names: list[str]) -> Metric:
    bounds = [*map(floatToGoString, made.bounds), "+Inf"]
    metric = HistogramMetricFamily(made.name, made.help, labels=label_names)
    for sample in made.samples:
        buckets = list(zip(bounds, accumulate(sample.buckets), strict=True))
        metric.add_metric(sample.labels, buckets, sample.value)
    return metric


def _own_metric(made: Family) -> Metric:
    return as_metric(made, made.label_names)


def _is_alike(one: Family, other: Family) -> bool:
    return (one.kind, one.label_names, one.bounds) == (other.kind, other.label_names, other.bounds)


def _sum(made: Family, one: Sample | None, other: Sample) -> Sample:
    if one is None:
        return other
    if made.name in NOT_ADDED:
        return max(one, other, key=lambda sample: sample.value)
    buckets = [left + right for left, right in zip(one.buckets, other.buckets, strict=True)]
    return Sample(other.labels, one.value + other.value, buckets)


def _rates(before: Figures, after: Figures, elapsed_s: float) -> dict[str, float]:
    """Jobs per second by stage."""
    if elapsed_s <= 0:
        return {}
    counted = _stage_jobs(before)
    return {
        stage: (count - counted.get(stage, 0.0)) / elapsed_s
        for stage, count in _stage_jobs(after).items()
    }


def _stage_jobs(figures: Figures) -> dict[str, float]:
    found = [made for made in figures.families if made.name == STAGE_JOBS.name]
    return {sample.labels[0]: sample.value for made in found for sample in made.samples}


class _Given(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics

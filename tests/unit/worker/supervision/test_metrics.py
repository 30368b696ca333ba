"""The figures of a service: children's added up by place, the supervisor's own beside them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from manyhands.worker.crawl import metrics as crawl
from manyhands.worker.process import figures
from manyhands.worker.process.figures import (
    IN_HAND,
    JOB_DURATION,
    JOBS,
    LOOP_LAG,
    ROUND_TRIP,
    STAGE_JOBS,
)
from manyhands.worker.service.families import family, filled, single
from manyhands.worker.service.link import Family, Figures, Sample
from manyhands.worker.sinks import sinks
from manyhands.worker.supervision import cloudwatch_put, metrics
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.status import ChildState, ServiceStatus
from tests.support.service_status import STARTED_AT, child, service, stage, turn

OPERATIONS = Path(__file__).resolve().parents[4] / "docs" / "OPERATIONS.md"
BUCKETS = len(JOB_DURATION.bounds) + 1
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(kept: ServiceMetrics, status: ServiceStatus | None = None) -> Samples:
    """What Prometheus would make of it; it refuses a sample that comes twice."""
    text = kept.text(status or service()).decode()
    samples = [sample for made in text_string_to_metric_families(text) for sample in made.samples]
    found = {
        (sample.name.removeprefix("manyhands_worker_"), frozenset(sample.labels.items())): (
            sample.value
        )
        for sample in samples
    }
    assert len(found) == len(samples)
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def of_place(samples: Samples, name: str, process_id: str = "a-0", **labels: str) -> float:
    process_type = process_id.rpartition("-")[0]
    return value(samples, name, process_type=process_type, process_id=process_id, **labels)


def done(count: int) -> Family:
    return filled(JOBS, [Sample(["add", "done"], count)])


def durations(seconds: float, *buckets: int) -> Family:
    padded = [*buckets, *[0] * (BUCKETS - len(buckets))]
    return filled(JOB_DURATION, [Sample(["add"], seconds, padded)])


def test_a_childs_figures_get_its_type_and_id():
    kept = ServiceMetrics()
    kept.keep("a", "a-0", 1, Figures([done(3), single(IN_HAND, 7)]))
    kept.keep("b", "b-0", 1, Figures([done(5)]))
    samples = read(kept)
    assert of_place(samples, "jobs_total", jobtype="add", outcome="done") == 3
    assert of_place(samples, "jobs_total", "b-0", jobtype="add", outcome="done") == 5
    assert of_place(samples, "jobs_in_hand") == 7


def test_only_the_latest_figures_count():
    kept = ServiceMetrics()
    for count in (3, 10):
        kept.keep("a", "a-0", 1, Figures([done(count), single(IN_HAND, count)]))
    samples = read(kept)
    assert of_place(samples, "jobs_total", jobtype="add", outcome="done") == 10
    assert of_place(samples, "jobs_in_hand") == 10


def test_counters_and_durations_of_a_replaced_child_are_kept_and_its_gauges_are_not():
    kept = ServiceMetrics()
    kept.keep("a", "a-0", 1, Figures([done(10), durations(4.0, 1, 2), single(IN_HAND, 9)]))
    kept.ended("a", "a-0", 1)
    samples = read(kept)
    assert of_place(samples, "jobs_total", jobtype="add", outcome="done") == 10
    assert ("jobs_in_hand", "a-0") not in {
        (name, dict(at).get("process_id")) for name, at in samples
    }
    kept.keep("a", "a-0", 2, Figures([done(1), durations(0.5, 0, 1), single(IN_HAND, 2)]))
    samples = read(kept)
    assert of_place(samples, "jobs_total", jobtype="add", outcome="done") == 11
    assert of_place(samples, "job_duration_seconds_sum", jobtype="add") == 4.5
    assert of_place(samples, "job_duration_seconds_count", jobtype="add") == 4
    assert of_place(samples, "job_duration_seconds_bucket", jobtype="add", le="0.001") == 1
    assert of_place(samples, "job_duration_seconds_bucket", jobtype="add", le="0.0025") == 4
    assert of_place(samples, "job_duration_seconds_bucket", jobtype="add", le="+Inf") == 4
    assert of_place(samples, "jobs_in_hand") == 2


def test_during_a_roll_both_children_of_a_place_are_one():
    kept = ServiceMetrics()
    lag = filled(LOOP_LAG, [Sample(["p99"], 0.2)])
    kept.keep("a", "a-0", 1, Figures([done(10), single(IN_HAND, 9), single(ROUND_TRIP, 0.5), lag]))
    kept.keep("a", "a-0", 2, Figures([done(1), single(IN_HAND, 2), single(ROUND_TRIP, 0.1)]))
    samples = read(kept)
    assert of_place(samples, "jobs_total", jobtype="add", outcome="done") == 11
    assert of_place(samples, "jobs_in_hand") == 11
    assert of_place(samples, "round_trip_seconds") == 0.5
    assert of_place(samples, "loop_lag_seconds", stat="p99") == 0.2


def test_a_child_that_ended_before_its_first_figures_changes_nothing():
    kept = ServiceMetrics()
    kept.ended("a", "a-0", 1)
    kept.keep("a", "a-0", 2, Figures([done(1)]))
    assert of_place(read(kept), "jobs_total", jobtype="add", outcome="done") == 1


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.booleans()), max_size=40)


@given(STEPS)
def test_the_counter_of_a_place_never_goes_back(steps):
    """Whatever order of work, ends and overlapping incarnations of three places."""
    kept = ServiceMetrics()
    counts = {0: (1, 0), 1: (1, 0), 2: (1, 0)}
    shown: dict[int, float] = {}
    for place, more, is_end in steps:
        incarnation, count = counts[place]
        counts[place] = incarnation, count + more
        kept.keep("a", f"a-{place}", incarnation, Figures([done(count + more)]))
        if is_end:
            kept.ended("a", f"a-{place}", incarnation)
            counts[place] = incarnation + 1, 0
        samples = read(kept)
        for number in range(3):
            name = (
                "jobs_total",
                frozenset(
                    {
                        ("process_type", "a"),
                        ("process_id", f"a-{number}"),
                        ("jobtype", "add"),
                        ("outcome", "done"),
                    }
                ),
            )
            assert samples.get(name, 0.0) >= shown.get(number, 0.0)
            shown[number] = samples.get(name, 0.0)
    assert sum(shown.values()) == sum(more for _, more, _ in steps)


def test_new_code_that_counts_otherwise_takes_the_place_of_old():
    """After a roll to code with other buckets; Prometheus sees a counter that was reset."""
    kept = ServiceMetrics()
    kept.keep("a", "a-0", 1, Figures([durations(4.0, 1, 2)]))
    kept.ended("a", "a-0", 1)
    other = family("job_duration_seconds", "histogram", "Duration", "jobtype", bounds=[1.0])
    kept.keep("a", "a-0", 2, Figures([filled(other, [Sample(["add"], 2.0, [3, 4])])]))
    samples = read(kept)
    assert of_place(samples, "job_duration_seconds_count", jobtype="add") == 7
    assert of_place(samples, "job_duration_seconds_bucket", jobtype="add", le="1.0") == 3


def test_strange_names_are_escaped():
    kept = ServiceMetrics()
    name = 'quote " backslash \\ line\nend ä'
    kept.keep("a", "a-0", 1, Figures([filled(JOBS, [Sample([name, "done"], 1)])]))
    assert of_place(read(kept), "jobs_total", jobtype=name, outcome="done") == 1


# Rates


def test_the_rate_of_a_stage_is_between_the_last_two_figures_of_each_child():
    times = iter([0.0, 1.0, 5.0, 6.0, 10.0])
    kept = ServiceMetrics(lambda: next(times))

    def tell(process_id: str, count: int) -> None:
        figures = Figures([filled(STAGE_JOBS, [Sample(["fetch"], count)])])
        kept.keep("a", process_id, 1, figures)

    tell("a-0", 0)
    tell("a-1", 100)
    assert kept.jobs_per_second() == {}
    tell("a-0", 500)
    tell("a-1", 200)
    assert kept.jobs_per_second() == {("a", "fetch"): 120.0}
    tell("a-0", 500)
    assert kept.jobs_per_second() == {("a", "fetch"): 20.0}
    kept.ended("a", "a-1", 1)
    assert kept.jobs_per_second() == {("a", "fetch"): 0.0}


def test_figures_at_the_same_moment_have_no_rate():
    kept = ServiceMetrics(lambda: 1.0)
    for count in (0, 5):
        kept.keep("a", "a-0", 1, Figures([filled(STAGE_JOBS, [Sample(["fetch"], count)])]))
    assert kept.jobs_per_second() == {}


# The supervisor's own


def test_children_are_counted_by_state_with_zeros():
    status = service(child("a-0"), child("a-1"), child("a-2", state=ChildState.BUSY), child("b-0"))
    samples = read(ServiceMetrics(), status)
    for state in ChildState:
        expected = {ChildState.READY: 2, ChildState.BUSY: 1}.get(state, 0)
        assert value(samples, "children", process_type="a", state=state) == expected
    assert value(samples, "children", process_type="b", state="ready") == 1


def test_restarts_and_hangs_are_of_the_place_also_during_a_roll():
    old = child("a-0", state=ChildState.DRAINING, restarts=3, hangs=1, silence_s=0.5)
    new = child("a-0", incarnation=2, restarts=3, hangs=1, silence_s=2.0)
    looping = child("a-1", restarts=9, is_crash_looping=True)
    samples = read(ServiceMetrics(), service(old, new, looping, rolls=2))
    assert of_place(samples, "child_restarts_total") == 3
    assert of_place(samples, "child_hangs_total") == 1
    assert of_place(samples, "child_silence_seconds") == 2.0
    assert of_place(samples, "child_crash_looping") == 0
    assert of_place(samples, "child_crash_looping", "a-1") == 1
    assert value(samples, "rolls_total") == 2


def test_what_waits_for_each_stage():
    status = service(
        child("a-0", stages=[stage("fetch", "f.0", "f.1")], turns=[turn("fetch", 1)]),
        queues={"f.0": 1, "f.1": 2},
        queue_lag_s={"f.0": 1.0, "f.1": 4.0},
        paces={"fetch": 0.5},
    )
    samples = read(ServiceMetrics(), status)
    labels = {"process_type": "a", "stage": "fetch"}
    assert value(samples, "stage_queue_depth", **labels) == 3
    assert value(samples, "stage_queue_lag_seconds", **labels) == 4.0
    assert value(samples, "stage_pace", **labels) == 0.5
    assert value(samples, "server_up") == 1


def test_a_server_that_is_away_leaves_no_depth():
    status = service(child("a-0", stages=[stage("fetch")]), queues={"fetch": 3}, queues_age_s=None)
    samples = read(ServiceMetrics(), status)
    assert value(samples, "server_up") == 0
    assert not [name for name, _ in samples if name.startswith("stage_queue")]


def test_the_service_and_its_supervisor():
    samples = read(ServiceMetrics(), service(child(), memory_limit_bytes=1000))
    assert value(samples, "ready") == 1
    assert value(samples, "start_time_seconds") == STARTED_AT
    assert value(samples, "child_memory_limit_bytes") == 1000
    supervisor = {"process_type": "supervisor", "process_id": "supervisor"}
    assert value(samples, "resident_memory_bytes", **supervisor) > 0
    assert value(read(ServiceMetrics(), service(child(), is_quiet=True)), "ready") == 0


def test_without_a_limit_there_is_no_limit():
    assert not [
        name for name, _ in read(ServiceMetrics(), service(child())) if "memory_limit" in name
    ]


def every_family() -> list[Family]:
    return [
        *(*figures.FAMILIES, *sinks.FAMILIES, *crawl.FAMILIES),
        *(*metrics.FAMILIES, *cloudwatch_put.FAMILIES),
    ]


def test_the_supervisors_families_are_all_listed():
    status = service(child("a-0", stages=[stage("fetch")]), memory_limit_bytes=1)
    assert sorted(made.name for made in metrics.own(status)) == sorted(
        made.name for made in metrics.FAMILIES
    )


def test_no_name_is_used_twice():
    names = [made.name for made in every_family()]
    assert len(set(names)) == len(names)


# The document


def documented() -> dict[str, str]:
    """Name → the whole line of the table."""
    lines = OPERATIONS.read_text().splitlines()
    found = (re.match(r"\| `(manyhands_worker_\w+)`", line) for line in lines)
    return {match[1]: match.string for match in found if match}


@pytest.mark.parametrize("made", every_family(), ids=lambda made: made.name)
def test_every_metric_is_documented_with_its_kind_and_labels(made):
    line = documented()[made.name]
    assert f"| {made.kind} |" in line
    for label in made.label_names:
        if label not in ("process_type", "process_id"):
            assert f"`{label}`" in line


def test_no_metric_is_documented_that_there_is_not():
    assert set(documented()) == {made.name for made in every_family()}

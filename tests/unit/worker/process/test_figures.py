"""The snapshot of a process: names, labels, and where each figure is read."""

import socket
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.worker.jobs.consumer import Consumer
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.observers import JobFigures
from manyhands.worker.jobs.outcomes import DONE, Failed
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.process.figures import (
    FAMILIES,
    ProcessFigures,
    faktory_families,
    open_descriptors,
    stage_families,
)
from manyhands.worker.process.loop_lag import LoopLag
from manyhands.worker.service.link import Family, Figures, decode_from_child, encode
from manyhands.worker.service.stages import Stage
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.window import Window
from manyhands.worker.testing import make_delivery

NAMES = [made.name for made in FAMILIES]


class Bench:
    """The parts of a process that has no server: they say what the test wants them to say."""

    def __init__(self, *stages: tuple[str, Window]) -> None:
        self.jobs = JobFigures()
        self.dialer = Dialer(parse_url("tcp://127.0.0.1:7419"))
        orders = {Stage(name, name): QueueOrder.parse(name, shards=1) for name, _ in stages}
        self.source = FaktorySource(self.dialer, orders, slots=500, idle_fetches=4, connections=3)
        for stage, (_, window) in zip(self.source.stages, stages, strict=True):
            stage.window = window
        execution = Execution(self.source, Registry(), [], ThreadPoolExecutor(1))
        self.consumer = Consumer(self.source, execution)
        self.lag = LoopLag()

    def rest(self) -> list[Family]:
        """As its intake has it."""
        return [*stage_families(self.source.stages), *faktory_families(self.source, self.dialer)]

    def snapshot(self) -> Figures:
        figures = ProcessFigures(self.jobs, self.source.slots, self.consumer, self.lag, self.rest)
        return figures.snapshot()


def value(figures: Figures, name: str, *labels: str) -> float:
    (found,) = [
        sample.value
        for made in figures.families
        if made.name == f"manyhands_worker_{name}"
        for sample in made.samples
        if sample.labels == list(labels)
    ]
    return found


async def test_a_snapshot_has_every_family_once_and_nothing_else():
    assert sorted(made.name for made in Bench().snapshot().families) == sorted(NAMES)


@pytest.mark.parametrize("made", FAMILIES, ids=lambda made: made.name)
def test_a_family_keeps_to_the_conventions_of_prometheus(made: Family):
    assert made.kind in ("counter", "gauge", "histogram")
    assert (made.kind == "counter") == made.name.endswith("_total")
    assert (made.kind == "histogram") == bool(made.bounds)
    assert made.help


async def test_jobs_by_type_and_outcome_with_their_durations():
    bench = Bench()
    for outcome, took_s in ((DONE, 0.002), (DONE, 2.0), (Failed("E", "no"), 400.0)):
        bench.jobs.job_ended(make_delivery("add"), outcome, took_s)
    figures = bench.snapshot()
    assert value(figures, "jobs_total", "add", "done") == 2
    assert value(figures, "jobs_total", "add", "failed") == 1
    assert value(figures, "job_duration_seconds", "add") == pytest.approx(402.002)
    (durations,) = [made for made in figures.families if made.kind == "histogram"]
    (sample,) = durations.samples
    counted = dict(zip([*durations.bounds, None], sample.buckets, strict=True))
    assert {bound: count for bound, count in counted.items() if count} == {
        0.0025: 1,
        2.5: 1,
        None: 1,
    }


async def test_a_snapshot_does_not_change_with_later_jobs():
    bench = Bench()
    bench.jobs.job_ended(make_delivery("add"), DONE, 0.1)
    before = encode(figures := bench.snapshot())
    bench.jobs.job_ended(make_delivery("add"), DONE, 0.1)
    assert encode(figures) == before


async def test_each_stage_has_its_own_figures():
    window = Window(slots=80, idle_fetches=4, lanes=2)
    window.sent(3, 1.0)
    window.job_arrived(1.0)
    window.job_arrived(1.0)
    window.job_ended()
    figures = Bench(("parse", window), ("fetch", Window(slots=500, idle_fetches=4))).snapshot()
    assert value(figures, "stage_active", "parse") == 1
    assert value(figures, "stage_jobs_total", "parse") == 1
    assert value(figures, "stage_fetches_outstanding", "parse") == 1
    assert value(figures, "stage_slots", "parse") == 80
    assert value(figures, "stage_lanes", "parse") == 2
    assert value(figures, "stage_window", "parse") == window.size
    assert value(figures, "stage_active", "fetch") == 0
    assert value(figures, "stage_slots", "fetch") == 500


async def test_the_rest_is_read_from_the_parts():
    windows = [
        Window(slots=1, idle_fetches=1, round_trip_s=round_trip_s) for round_trip_s in (0.02, 0.05)
    ]
    bench = Bench(("a", windows[0]), ("b", windows[1]))
    bench.source.slots, bench.source.held_bytes = 7, 99
    bench.source.results.unanswered, bench.source.results.given_up = 5, 2
    bench.consumer.in_hand = {"a": make_delivery(), "b": make_delivery()}
    bench.consumer.copies_seen = 3
    bench.dialer.lost, bench.dialer.failed = 4, 6
    figures = bench.snapshot()
    for name, expected in {
        "slots": 7,
        "jobs_in_hand": 2,
        "held_bytes": 99,
        "job_copies_total": 3,
        "commits_pending": 5,
        "commits_failed_total": 2,
        "round_trip_seconds": 0.05,
        "reconnects_total": 4,
        "connect_failures_total": 6,
    }.items():
        assert value(figures, name) == expected


async def test_the_process_itself():
    figures = Bench().snapshot()
    assert value(figures, "resident_memory_bytes") > 10_000_000
    assert 0 < value(figures, "open_fds") < value(figures, "max_fds")
    assert value(figures, "cpu_seconds_total") > 0
    assert value(figures, "loop_lag_seconds", "p99") >= 0


def test_open_descriptors_are_counted():
    before = open_descriptors()
    left, right = socket.socketpair()
    with left, right:
        assert open_descriptors() == before + 2
    assert open_descriptors() == before


async def test_a_snapshot_reaches_the_supervisor_unchanged():
    bench = Bench()
    bench.jobs.job_ended(make_delivery('ä\n"x"'), DONE, 0.1)
    figures = bench.snapshot()
    assert decode_from_child(encode(figures)) == msgspec.convert(
        msgspec.to_builtins(figures), Figures
    )

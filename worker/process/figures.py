"""The metrics of one worker process, which it sends to its supervisor every five seconds.

Jobs are counted by `worker.jobs.observers.JobFigures`; everything else is read when a snapshot is
made, from the parts that know it. The supervisor adds which process it was.
"""

import os
import resource
import time
from collections.abc import Callable, Iterable, Sequence

from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.memory import own_resident_bytes
from manyhands.worker.jobs.consumer import Consumer
from manyhands.worker.jobs.observers import JobFigures
from manyhands.worker.process.loop_lag import Lag, LoopLag
from manyhands.worker.service.families import (
    DURATION_BOUNDS_S,
    family,
    filled,
    of_each,
    of_histogram,
    single,
)
from manyhands.worker.service.link import Family, Figures, Sample
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.stage_lanes import StageLanes

JOBS = family("jobs_total", "counter", "Jobs ended, by how they ended", "jobtype", "outcome")
JOB_DURATION = family(
    "job_duration_seconds",
    "histogram",
    "From the start of a handler to the report of its outcome; jobs put back do not count",
    "jobtype",
    bounds=DURATION_BOUNDS_S,
)
STAGE_JOBS = family("stage_jobs_total", "counter", "Jobs that left their slot", "stage")
STAGE_ACTIVE = family("stage_active", "gauge", "Jobs that run now (ActiveWorkers)", "stage")
STAGE_SLOTS = family("stage_slots", "gauge", "Jobs that may run at a time", "stage")
STAGE_FETCHES = family(
    "stage_fetches_outstanding", "gauge", "FETCHes that the server has not answered", "stage"
)
STAGE_WINDOW = family(
    "stage_window", "gauge", "FETCHes that the stage would like to have outstanding", "stage"
)
STAGE_LANES = family("stage_lanes", "gauge", "Sockets for FETCHes that are up", "stage")
IN_HAND = family("jobs_in_hand", "gauge", "Jobs taken from the server and not ended")
HELD_BYTES = family("held_bytes", "gauge", "Payloads of the jobs in hand")
SLOTS = family("slots", "gauge", "Jobs that the process may run at a time, of all stages")
COPIES = family("job_copies_total", "counter", "Jobs that arrived while they were in hand")
COMMITS_PENDING = family(
    "commits_pending", "gauge", "ACKs and FAILs that the server has not answered"
)
COMMITS_FAILED = family(
    "commits_failed_total", "counter", "ACKs and FAILs given up: their jobs come back later"
)
ROUND_TRIP = family("round_trip_seconds", "gauge", "To the server and back")
RECONNECTS = family(
    "reconnects_total", "counter", "Connections to the server that were lost and made again"
)
CONNECT_FAILURES = family(
    "connect_failures_total", "counter", "Connections to the server that could not be made"
)
RESIDENT = family("resident_memory_bytes", "gauge", "Memory in use")
OPEN_FDS = family("open_fds", "gauge", "Open file descriptors")
MAX_FDS = family("max_fds", "gauge", "File descriptors that may be open")
CPU = family("cpu_seconds_total", "counter", "Processor time, user and system")
LOOP_LAG = family(
    "loop_lag_seconds",
    "gauge",
    "How late the event loop was in the last five seconds: p50, p99 and max",
    "stat",
)
# All that a process reports.
FAMILIES = (
    *(JOBS, JOB_DURATION, STAGE_JOBS, STAGE_ACTIVE, STAGE_SLOTS, STAGE_FETCHES, STAGE_WINDOW),
    *(STAGE_LANES, IN_HAND, HELD_BYTES, SLOTS, COPIES, COMMITS_PENDING, COMMITS_FAILED),
    *(ROUND_TRIP, RECONNECTS, CONNECT_FAILURES, RESIDENT, OPEN_FDS, MAX_FDS, CPU, LOOP_LAG),
)


class ProcessFigures:
    """State: only the loop's lag, which each snapshot resets. `more` are those of its intake and
    its sinks."""

    def __init__(
        self,
        jobs: JobFigures,
        slots: int,
        consumer: Consumer,
        lag: LoopLag,
        more: Callable[[], Iterable[Family]] = tuple,
    ) -> None:
        self._jobs = jobs
        self._slots = slots
        self._more = more
        self._consumer = consumer
        self._lag = lag

    def snapshot(self) -> Figures:
        return Figures(
            [
                *job_families(self._jobs),
                single(SLOTS, self._slots),
                single(IN_HAND, len(self._consumer.in_hand)),
                single(COPIES, self._consumer.copies_seen),
                *system_families(),
                lag_family(self._lag.take()),
                *self._more(),
            ]
        )


def job_families(jobs: JobFigures) -> Iterable[Family]:
    yield filled(
        JOBS,
        [
            Sample([jobtype, outcome], count)
            for jobtype, figures in jobs.jobtypes.items()
            for outcome, count in figures.by_outcome().items()
        ],
    )
    yield filled(
        JOB_DURATION,
        [of_histogram([jobtype], figures.durations) for jobtype, figures in jobs.jobtypes.items()],
    )


def stage_families(stages: Sequence[StageLanes]) -> Iterable[Family]:
    return of_each(
        {(stage.stage.name,): stage.window for stage in stages},
        (STAGE_JOBS, "ended"),
        (STAGE_ACTIVE, "running"),
        (STAGE_SLOTS, "slots"),
        (STAGE_FETCHES, "outstanding"),
        (STAGE_WINDOW, "size"),
        (STAGE_LANES, "lanes"),
    )


def faktory_families(source: FaktorySource, dialer: Dialer) -> Iterable[Family]:
    round_trips_s = (stage.window.round_trip_s for stage in source.stages)
    yield single(HELD_BYTES, source.held_bytes)
    yield single(COMMITS_PENDING, source.results.unanswered)
    yield single(COMMITS_FAILED, source.results.given_up)
    yield single(ROUND_TRIP, max(round_trips_s, default=0.0))
    yield single(RECONNECTS, dialer.lost)
    yield single(CONNECT_FAILURES, dialer.failed)


def system_families() -> Iterable[Family]:
    """Of the process that calls it."""
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield single(RESIDENT, own_resident_bytes())
    yield single(OPEN_FDS, open_descriptors())
    yield single(MAX_FDS, soft_limit)
    yield single(CPU, time.process_time())


def lag_family(lag: Lag) -> Family:
    by_stat = (("p50", lag.p50_s), ("p99", lag.p99_s), ("max", lag.max_s))
    return filled(LOOP_LAG, [Sample([stat], value) for stat, value in by_stat])


def open_descriptors() -> int:
    try:
        with os.scandir("/dev/fd") as entries:
            # Without the one that reads the directory.
            return sum(1 for _ in entries) - 1
    except OSError:
        # No descriptor is left to read it with: all are open.
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

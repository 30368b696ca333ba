"""One measured run: start a consumer, let it connect, hand it all jobs at once, watch the server.

The jobs are pushed while the consumer connects, but it cannot see them (lab.py says how they are
hidden). When it waits for work, they become visible in a single step. So pushing costs nothing
during the measurement and all consumers start alike.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from devservers.processes import Child, StartError
from loadtest.lab.cells import Cell
from loadtest.lab.consumers import Consumer
from loadtest.lab.lab import SAMPLE_S, Lab, Route
from loadtest.lab.payloads import PayloadsFor, bench_payloads
from loadtest.lib.errors import RunError, WireError
from loadtest.lib.processes import Tree

# Counted between these shares of the jobs: without the first wave and without the tail.
WINDOW = (0.1, 0.9)
# Without news for so long, a consumer has all its connections; shorter where their number is known.
STABLE_S = 1.5
KNOWN_STABLE_S = 0.5
MIN_WINDOW_S = 0.5
CONNECT_TIMEOUT_S = 90.0
DRAIN_TIMEOUT_S = 90.0
SETTLE_TIMEOUT_S = 10.0

# Something that goes on beside a drain, made with the consumer's pid.
Beside = Callable[[int], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave; with `error` set, the numbers are not to be used."""

    cell: str
    consumer: str
    round: int
    slots: int
    jobs: int
    error: str | None = None
    jobs_per_s: float = 0.0
    window_s: float = 0.0
    sockets: int = 0
    busy_peak: int = 0
    cpu_us_per_job: float = 0.0
    server_cpu_us_per_job: float = 0.0
    relay_cpu_us_per_job: float = 0.0
    rss_idle_bytes: int = 0
    rss_peak_bytes: int = 0
    bytes_per_slot: float = 0.0

    @property
    def values(self) -> dict[str, float]:
        """For a comparison of two revisions."""
        return {
            "jobs_per_s": self.jobs_per_s,
            "cpu_us_per_job": self.cpu_us_per_job,
            "server_cpu_us_per_job": self.server_cpu_us_per_job,
        }


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    processed: int
    queued: int
    working: int
    rss_bytes: int
    # Of the consumer, since it started.
    cpu_s: float = 0.0


def no_beside(_pid: int) -> AbstractContextManager[object]:
    return nullcontext()


def measure(lab: Lab, consumer: Consumer, cell: Cell, round_number: int) -> Run:
    """Do one run in a fresh lab; return its numbers, or its error."""
    slots, jobs = consumer.slots_for(cell), consumer.jobs_for(cell)
    blank = Run(cell.key, consumer.name, round_number, slots, jobs)
    payloads_for = partial(bench_payloads, sleep_ms=cell.sleep_ms)
    return measure_drain(lab, consumer, blank, rtt_ms=cell.rtt_ms, payloads_for=payloads_for)


def measure_drain(
    lab: Lab,
    consumer: Consumer,
    blank: Run,
    *,
    rtt_ms: int | None,
    payloads_for: PayloadsFor = bench_payloads,
    beside: Beside = no_beside,
) -> Run:
    """Drain `blank.jobs` jobs with `blank.slots` slots; return the run with its numbers. `beside`
    is open meanwhile.

    The lab is of no use afterwards: the consumer is killed, and its FETCHes may live on.
    """
    log = lab.logs / "consumer.log"
    process: Child | None = None
    try:
        route = lab.route(rtt_ms)
        lab.open_queue()
        process = consumer.start(blank.slots, route.url, log)
        lab.stage_jobs(blank.jobs, payloads_for)
        wait_until_idle(lab, consumer, process, blank.slots)
        with beside(process.pid):
            return _drain(lab, process, blank, route)
    except (RunError, WireError, StartError, OSError) as error:
        return replace(blank, error=with_log(error, log))
    finally:
        if process is not None:
            # Every job is done and the server goes away too: nothing is gained by an orderly end.
            process.kill_all()


@contextmanager
def running(lab: Lab, consumer: Consumer, slots: int) -> Iterator[Child]:
    """The consumer, connected and waiting for work; killed afterwards, as in `measure_drain`."""
    log = lab.logs / "consumer.log"
    process = consumer.start(slots, lab.server.url, log)
    try:
        wait_until_idle(lab, consumer, process, slots)
        yield process
    except RunError as error:
        raise RunError(with_log(error, log)) from error
    finally:
        process.kill_all()


def with_log(error: Exception, log: Path) -> str:
    """Return the error's text with the end of a consumer's log."""
    tail = log.read_text(errors="replace").strip()[-500:] if log.exists() else ""
    return f"{error}; its log ends: {tail}" if tail else str(error)


def wait_until_idle(lab: Lab, consumer: Consumer, process: Child, slots: int) -> None:
    """Wait until all its processes and connections are there and no more come."""
    consumer.wait_ready(process)
    min_connections = consumer.min_connections(slots)
    started = changed = time.monotonic()
    stable_s = KNOWN_STABLE_S if min_connections > 1 else STABLE_S
    connections = 0
    while True:
        now = time.monotonic()
        info = lab.wire.info()
        # Without our own one.
        seen = info.connections - 1
        if seen != connections:
            connections, changed = seen, now
        is_complete = connections >= min_connections and now - changed >= stable_s
        if is_complete and info.processed == lab.ahead:
            return
        if not process.running():
            raise RunError(f"ended with {process.wait_ended()} before it was connected")
        if now - started > CONNECT_TIMEOUT_S:
            raise RunError(f"{connections} connections after {CONNECT_TIMEOUT_S:.0f} s")
        time.sleep(SAMPLE_S)


def _drain(lab: Lab, process: Child, run: Run, route: Route) -> Run:
    tree = Tree(process.pid)
    sockets = tree.sockets_to(route.port)
    rss_idle = tree.rss_bytes()
    meter = CpuMeter(tree, lab.server_tree, route.relay)
    lab.release_jobs()
    released_s = time.monotonic()
    samples = watch(lab, process, tree, run.jobs)
    check_delivery(lab, run.jobs)
    cpu_us, server_us, relay_us = meter.us_per_job(run.jobs)
    rate, window_s = steady_rate(samples, run.jobs, not_before_s=released_s + lab.wakes_within_s)
    rss_peak = max(sample.rss_bytes for sample in samples)
    busy_peak = max(sample.working for sample in samples)
    return replace(
        run,
        jobs_per_s=rate,
        window_s=window_s,
        sockets=sockets,
        busy_peak=busy_peak,
        cpu_us_per_job=cpu_us,
        server_cpu_us_per_job=server_us,
        relay_cpu_us_per_job=relay_us,
        rss_idle_bytes=rss_idle,
        rss_peak_bytes=rss_peak,
        bytes_per_slot=(rss_peak - rss_idle) / run.slots,
    )


def drain_values(run: Run) -> dict[str, float]:
    """Return the numbers of a drain by name; raises when it has none."""
    if run.error is not None:
        raise RunError(run.error)
    return {
        "jobs": run.jobs,
        "jobs_per_s": run.jobs_per_s,
        "window_s": run.window_s,
        "sockets": run.sockets,
        "busy_peak": run.busy_peak,
        "consumer_cpu_us": run.cpu_us_per_job,
        "server_cpu_us": run.server_cpu_us_per_job,
        "relay_cpu_us": run.relay_cpu_us_per_job,
        "rss_idle_bytes": run.rss_idle_bytes,
        "rss_peak_bytes": run.rss_peak_bytes,
    }


class CpuMeter:
    """Processor time of some processes from now on; one that is not there used none."""

    def __init__(self, *trees: Tree | None) -> None:
        self._before = [(tree, tree.cpu_s()) if tree else None for tree in trees]

    def us_per_job(self, jobs: int) -> list[float]:
        return [
            (found[0].cpu_s() - found[1]) / jobs * 1e6 if found else 0.0 for found in self._before
        ]


def watch(lab: Lab, process: Child, tree: Tree, jobs: int) -> list[Sample]:
    """Sample until so many jobs are processed."""
    samples: list[Sample] = []
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while not samples or samples[-1].processed < jobs:
        asked = time.monotonic()
        info = lab.wire.info()
        answered = time.monotonic()
        rss, cpu_s = tree.rss_bytes(), tree.cpu_s()
        # The server counted somewhere between question and answer.
        middle_s = (asked + answered) / 2
        done = info.processed - lab.ahead
        samples.append(Sample(middle_s, done, info.queued, info.working, rss, cpu_s))
        if not process.running():
            raise RunError(f"ended with {process.wait_ended()} after {done} jobs")
        if answered > deadline:
            raise RunError(f"{done} of {jobs} jobs after {DRAIN_TIMEOUT_S:.0f} s")
        time.sleep(max(0.0, asked + SAMPLE_S - time.monotonic()))
    return samples


def steady_rate(
    samples: list[Sample], jobs: int, *, not_before_s: float = 0.0, ends_when_empty: bool = True
) -> tuple[float, float]:
    """Return jobs/s and length of the steady window, which begins at `not_before_s` at the soonest.

    It ends early when the queue is empty: then the server answers only ACKs, which would flatter a
    consumer with many jobs in hand. Sleeping jobs end in waves; as a sample holds whole waves, both
    ends lie at the same phase.
    """
    start, end = (share * jobs for share in WINDOW)
    first = next(
        (s for s in samples if s.processed >= start and s.at_s >= not_before_s), samples[-1]
    )
    last = next(s for s in samples if s.processed >= end or (ends_when_empty and s.queued == 0))
    window_s = last.at_s - first.at_s
    if window_s < MIN_WINDOW_S:
        raise RunError(f"too few jobs: the steady window lasted {window_s:.2f} s only")
    return (last.processed - first.processed) / window_s, window_s


def check_delivery(lab: Lab, jobs: int) -> None:
    """Raise unless the server has seen each job succeed once and has nothing left of any."""
    info = lab.wait_for(lambda info: info.working == 0, SETTLE_TIMEOUT_S, "settled")
    if not info.has_just(processed=lab.ahead + jobs, queued=0):
        raise RunError(f"not exactly {jobs} jobs done once: {info}")

"""One measured run: start a consumer, let it connect, hand it all jobs at once, watch the server.

The jobs are pushed to a staging queue while the consumer connects. When it waits for work, the
staging queue gets the consumer's queue name: a single step inside Redis, which every waiting FETCH
sees at once. So pushing costs nothing during the measurement and all consumers start alike.
"""

import subprocess
import time
from dataclasses import dataclass, replace

from devservers import Relay
from loadtest.cells import Cell
from loadtest.consumers import QUEUE, Consumer
from loadtest.faktory_wire import Info, WireError
from loadtest.lab import SAMPLE_S, STAGING, Lab, RunError
from loadtest.processes import Tree

# Counted between these shares of the jobs: without the first wave and without the tail.
WINDOW = (0.1, 0.9)
# Without news for so long, a consumer has all its connections; shorter where their number is known.
STABLE_S = 1.5
KNOWN_STABLE_S = 0.5
MIN_WINDOW_S = 0.5
CONNECT_TIMEOUT_S = 90.0
DRAIN_TIMEOUT_S = 90.0
SETTLE_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 15.0
# One job goes ahead of the others: it shows that the consumer works, and lets the server know the
# queue, which it would not list in INFO after the renaming alone.
AHEAD = 1


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


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    processed: int
    queued: int
    working: int
    rss_bytes: int


def measure(lab: Lab, consumer: Consumer, cell: Cell, round_number: int) -> Run:
    """Do one run and return its numbers, or its error."""
    slots, jobs = consumer.slots_for(cell), consumer.jobs_for(cell)
    blank = Run(cell.key, consumer.name, round_number, slots, jobs)
    log = lab.logs / "consumer.log"
    relay = lab.relay(cell.rtt_ms)
    process: subprocess.Popen[bytes] | None = None
    try:
        lab.wire.flush()
        lab.wire.push_all(QUEUE, AHEAD, 0)
        process = consumer.start(slots, relay.url_for(lab.server), log)
        lab.wire.push_all(STAGING, jobs, cell.sleep_ms)
        _wait_until_idle(lab, process, consumer.min_connections(slots))
        return _drain(lab, process, blank, relay)
    except (RunError, WireError, OSError) as error:
        tail = log.read_text(errors="replace").strip()[-500:] if log.exists() else ""
        return replace(blank, error=f"{error}; its log ends: {tail}" if tail else str(error))
    finally:
        if process is not None:
            stop(process)
        lab.clean_up()


def _wait_until_idle(lab: Lab, process: subprocess.Popen[bytes], min_connections: int) -> None:
    """Wait until all connections are there and no more come."""
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
        if is_complete and info.processed == AHEAD:
            return
        if process.poll() is not None:
            raise RunError(f"ended with {process.returncode} before it was connected")
        if now - started > CONNECT_TIMEOUT_S:
            raise RunError(f"{connections} connections after {CONNECT_TIMEOUT_S:.0f} s")
        time.sleep(SAMPLE_S)


def _drain(lab: Lab, process: subprocess.Popen[bytes], run: Run, relay: Relay) -> Run:
    tree = Tree(process.pid)
    trees = (tree, lab.server_tree, Tree(relay.pid))
    sockets = tree.sockets_to(relay.port)
    rss_idle = tree.rss_bytes()
    cpu_before = [one.cpu_s() for one in trees]
    lab.release_jobs()
    samples = _watch(lab, process, tree, run.jobs)
    _check_delivery(lab, run.jobs)
    cpu_us, server_us, relay_us = (
        (one.cpu_s() - before) / run.jobs * 1e6
        for one, before in zip(trees, cpu_before, strict=True)
    )
    rate, window_s = steady_rate(samples, run.jobs)
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


def _watch(lab: Lab, process: subprocess.Popen[bytes], tree: Tree, jobs: int) -> list[Sample]:
    """Sample until every job is processed."""
    samples: list[Sample] = []
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while not samples or samples[-1].processed < jobs:
        asked = time.monotonic()
        info = lab.wire.info()
        answered = time.monotonic()
        rss = tree.rss_bytes()
        # The server counted somewhere between question and answer.
        middle_s = (asked + answered) / 2
        done = info.processed - AHEAD
        samples.append(Sample(middle_s, done, info.queued, info.working, rss))
        if process.poll() is not None:
            raise RunError(f"ended with {process.returncode} after {done} jobs")
        if answered > deadline:
            raise RunError(f"{done} of {jobs} jobs after {DRAIN_TIMEOUT_S:.0f} s")
        time.sleep(max(0.0, asked + SAMPLE_S - time.monotonic()))
    return samples


def steady_rate(samples: list[Sample], jobs: int) -> tuple[float, float]:
    """Return jobs/s and length of the steady window.

    It ends early when the queue is empty: then the server answers only ACKs, which would flatter a
    consumer with many jobs in hand. Sleeping jobs end in waves; as a sample holds whole waves, both
    ends lie at the same phase.
    """
    start, end = (share * jobs for share in WINDOW)
    first = next(sample for sample in samples if sample.processed >= start)
    last = next(sample for sample in samples if sample.processed >= end or sample.queued == 0)
    window_s = last.at_s - first.at_s
    if window_s < MIN_WINDOW_S:
        raise RunError(f"too few jobs: the steady window lasted {window_s:.2f} s only")
    return (last.processed - first.processed) / window_s, window_s


def _check_delivery(lab: Lab, jobs: int) -> None:
    """Raise unless the server has seen each job succeed once and has nothing left of any."""
    info = lab.wait_for(lambda info: info.working == 0, SETTLE_TIMEOUT_S, "settled")
    expected = Info(
        processed=AHEAD + jobs,
        failures=0,
        connections=info.connections,
        queued=0,
        working=0,
        retries=0,
        dead=0,
        version=info.version,
    )
    if info != expected:
        raise RunError(f"not exactly {jobs} jobs done once: {info}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the consumer to end, and insist after a while."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

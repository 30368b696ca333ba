"""One measured run of `bench-broker`: a server of its own in an empty directory, one cell.

Whatever a run does, it ends with a look at the server's own counters: a run in which a job is
missing or was done twice has an error and no numbers.
"""

import random
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from devservers import BrokerServer, FaktoryServer
from devservers.processes import Child, StartError, make_directory, remove_directory
from devservers.protocol_server import ProtocolServer
from loadtest.bench.broker.cells import (
    MOST_PUSHED_PER_S,
    RUN_S,
    BacklogCell,
    BrokerCell,
    DrainCell,
    LatencyCell,
    PushCell,
    SustainedCell,
)
from loadtest.lab.consumers import QUEUE, Consumer
from loadtest.lab.faktory_wire import Info
from loadtest.lab.lab import PausingLab
from loadtest.lab.measure import (
    SETTLE_TIMEOUT_S,
    CpuMeter,
    Run,
    drain_values,
    measure_drain,
    running,
    steady_rate,
    watch,
)
from loadtest.lab.payloads import PUSH_BATCH, Payloads
from loadtest.lab.producer import Producer, push
from loadtest.lab.pusher import Order
from loadtest.lab.server_runs import ServerRun
from loadtest.lib.errors import RunError, WireError
from loadtest.lib.processes import Tree
from loadtest.lib.stats import percentile

# The pushing that goes on beside a drain, and that of a run with a backlog.
SUSTAINED_BATCH, SUSTAINED_CLIENTS = 100, 16
# So many jobs may be pushed and not yet processed: enough for many round trips.
SUSTAINED_AHEAD = 10_000
BACKLOG_BATCH, BACKLOG_CLIENTS, BACKLOG_PUSH_S = 100, 16, 3.0
FILL_CLIENTS = 4
BACKLOG_SLOTS = LATENCY_SLOTS = 500
# Not counted: the first of them find caches cold and code not yet run.
LATENCY_WARM_UP = 20
# Seconds between a handler and the next push, at random so as not to fall in step with a timer.
LATENCY_PAUSE_S = (0.002, 0.010)
STAMP_TIMEOUT_S = 10.0
SECOND_LOOK_S = 0.3

MAKERS: dict[str, Callable[[Path], ProtocolServer]] = {
    "faktory": lambda directory: FaktoryServer(data_dir=directory),
    "broker": lambda directory: BrokerServer(data_dir=directory),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """What a run needs beside its cell."""

    lab: PausingLab
    server: str
    jobs: int
    consumers: dict[str, Consumer]

    def ours(self, slots: int) -> AbstractContextManager[Child]:
        """Our consumer, connected and waiting for work."""
        return running(self.lab, self.consumers["ours"], slots)


def measure_server(
    cell: BrokerCell,
    server: str,
    round_number: int,
    consumers: dict[str, Consumer],
    jobs: int | None,
) -> ServerRun:
    """Do one run and return its numbers, or its error; `jobs` in place of the cell's own."""
    blank = ServerRun(cell.key, server, round_number)
    directory = make_directory()
    try:
        with PausingLab(MAKERS[server](directory)) as lab:
            bench = Bench(lab, server, jobs or cell.jobs_for(server), consumers)
            return replace(blank, values=_values(bench, cell))
    except (RunError, WireError, StartError, OSError) as error:
        return replace(blank, error=str(error) or type(error).__name__)
    finally:
        remove_directory(directory)


def _values(bench: Bench, cell: BrokerCell) -> dict[str, float]:
    match cell:
        case PushCell():
            return _push(bench, cell)
        case DrainCell():
            return _drain(bench, cell)
        case SustainedCell():
            return _sustained(bench, cell)
        case LatencyCell():
            return _latency(bench, cell.jobs)
        case BacklogCell():
            return _backlog(bench, cell)


def _push(bench: Bench, cell: PushCell) -> dict[str, float]:
    order = Order(bench.lab.server.port, QUEUE, bench.jobs, cell.batch, cell.clients, seconds=RUN_S)
    return _pushed(bench, order, queued=0)


def _pushed(bench: Bench, order: Order, *, queued: int) -> dict[str, float]:
    """Push; `queued` jobs are there already."""
    with Producer(order) as producer:
        meter = CpuMeter(bench.lab.server_tree)
        producer.go()
        pushed = producer.result()
        (server_us,) = meter.us_per_job(pushed.jobs)
    _check(bench.lab.wire.info(), queued=queued + pushed.jobs, processed=0)
    return {
        "jobs": pushed.jobs,
        "jobs_per_s": pushed.jobs / pushed.seconds,
        "answer_p50_ms": pushed.answer_p50_ms,
        "answer_p99_ms": pushed.answer_p99_ms,
        "pusher_cpu_us": pushed.cpu_s / pushed.jobs * 1e6,
        "server_cpu_us": server_us,
    }


def _drain(bench: Bench, cell: DrainCell) -> dict[str, float]:
    consumer = bench.consumers[cell.consumer]
    blank = Run(cell.key, consumer.name, 0, cell.slots, bench.jobs)
    run = measure_drain(bench.lab, consumer, blank, rtt_ms=cell.rtt_ms)
    return drain_values(run)


def _sustained(bench: Bench, cell: SustainedCell) -> dict[str, float]:
    lab, jobs = bench.lab, bench.jobs
    order = Order(
        *(lab.server.port, QUEUE, jobs, SUSTAINED_BATCH, SUSTAINED_CLIENTS), ahead=SUSTAINED_AHEAD
    )
    with bench.ours(cell.slots) as process, Producer(order) as producer:
        tree = Tree(process.pid)
        meter = CpuMeter(tree, lab.server_tree)
        producer.go()
        samples = watch(lab, process, tree, jobs)
        pushed = producer.result()
        # A real server counts a job a moment after it has left the working set.
        info = lab.wait_for(
            lambda info: info.working == 0 and info.processed >= jobs, SETTLE_TIMEOUT_S, "settled"
        )
        _check(info, queued=0, processed=jobs)
        consumer_us, server_us = meter.us_per_job(jobs)
    # The queue may be empty at times: then the pushing is the slower half.
    rate, window_s = steady_rate(samples, jobs, ends_when_empty=False)
    return {
        "jobs": jobs,
        "jobs_per_s": rate,
        "window_s": window_s,
        "answer_p50_ms": pushed.answer_p50_ms,
        "answer_p99_ms": pushed.answer_p99_ms,
        "queued_peak": max(sample.queued for sample in samples),
        "consumer_cpu_us": consumer_us,
        "server_cpu_us": server_us,
        "pusher_cpu_us": pushed.cpu_s / pushed.jobs * 1e6,
    }


def _latency(bench: Bench, jobs: int) -> dict[str, float]:
    lab = bench.lab
    to_handler_ms, to_answer_ms = [], []
    pauses = random.Random(jobs)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stamps,
        bench.ours(LATENCY_SLOTS),
    ):
        stamps.bind(("127.0.0.1", 0))
        stamps.settimeout(STAMP_TIMEOUT_S)
        payloads = Payloads(QUEUE, "bench_stamp", (stamps.getsockname()[1],))
        count = LATENCY_WARM_UP + jobs
        for n in range(count):
            line = payloads.push(n)
            pushed_ns = time.monotonic_ns()
            lab.wire.ask(line)
            answered_ns = time.monotonic_ns()
            number, began_ns = map(int, stamps.recv(64).split())
            if number != n:
                raise RunError(f"job {number} was started when {n} was due")
            if n >= LATENCY_WARM_UP:
                to_handler_ms.append((began_ns - pushed_ns) / 1e6)
                to_answer_ms.append((answered_ns - pushed_ns) / 1e6)
            time.sleep(pauses.uniform(*LATENCY_PAUSE_S))
        # A real server counts a job a moment after it has left the working set.
        info = lab.wait_for(
            lambda info: info.working == 0 and info.processed >= count, SETTLE_TIMEOUT_S, "settled"
        )
        _check(info, queued=0, processed=count)
    return {
        "jobs": jobs,
        "p50_ms": percentile(to_handler_ms, 50),
        "p99_ms": percentile(to_handler_ms, 99),
        "most_ms": max(to_handler_ms),
        "answer_p50_ms": percentile(to_answer_ms, 50),
        "answer_p99_ms": percentile(to_answer_ms, 99),
    }


def _backlog(bench: Bench, cell: BacklogCell) -> dict[str, float]:
    lab = bench.lab
    fill = Order(
        *(lab.server.port, QUEUE, cell.backlog, PUSH_BATCH, FILL_CLIENTS),
        is_lazy=True,
    )
    filled = push(fill)
    _check(lab.wire.info(), queued=cell.backlog, processed=0)
    values = {
        "fill_jobs_per_s": filled.jobs / filled.seconds,
        "filled_rss_bytes": lab.server_tree.rss_bytes(),
        "start_s": lab.restart(),
        "started_rss_bytes": lab.server_tree.rss_bytes(),
        "disk_bytes": _size_of(lab.server.data_dir),
    }
    _check(lab.wire.info(), queued=cell.backlog, processed=0)
    order = Order(
        *(lab.server.port, QUEUE, round(MOST_PUSHED_PER_S * BACKLOG_PUSH_S)),
        *(BACKLOG_BATCH, BACKLOG_CLIENTS),
        seconds=BACKLOG_PUSH_S,
    )
    pushed = _pushed(bench, order, queued=cell.backlog)
    values["push_jobs_per_s"] = pushed["jobs_per_s"]
    values["push_p99_ms"] = pushed["answer_p99_ms"]
    values |= _drain_some(bench, cell.backlog + round(pushed["jobs"]))
    return values


def _drain_some(bench: Bench, queued: int) -> dict[str, float]:
    """Drain the first jobs of a long queue; the others stay."""
    lab, jobs = bench.lab, bench.jobs
    lab.wire.pause(QUEUE)
    with bench.ours(BACKLOG_SLOTS) as process:
        tree = Tree(process.pid)
        meter = CpuMeter(tree, lab.server_tree)
        lab.release_jobs()
        released_s = time.monotonic()
        samples = watch(lab, process, tree, jobs)
        # Nothing is taken any more, so that every job is either done or queued. A job that a FETCH
        # has just taken is for a moment neither queued nor in hand, hence the second look.
        lab.wire.pause(QUEUE)
        lab.wait_for(
            lambda info: info.working == 0 and info.queued + info.processed == queued,
            SETTLE_TIMEOUT_S,
            f"settled with {queued} jobs queued or done",
        )
        time.sleep(SECOND_LOOK_S)
        info = lab.wire.info()
        _check(info, queued=queued - info.processed, processed=info.processed)
        consumer_us, server_us = meter.us_per_job(info.processed)
    rate, window_s = steady_rate(samples, jobs, not_before_s=released_s + lab.wakes_within_s)
    return {
        "drain_jobs_per_s": rate,
        "window_s": window_s,
        "drained": info.processed,
        "consumer_cpu_us": consumer_us,
        "server_cpu_us": server_us,
        "drained_rss_bytes": lab.server_tree.rss_bytes(),
    }


def _size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _check(info: Info, *, queued: int, processed: int) -> None:
    """Raise unless the server has exactly these jobs, and nothing of any job anywhere else."""
    if not info.has_just(processed=processed, queued=queued):
        raise RunError(f"not {queued} jobs queued and {processed} done once: {info}")

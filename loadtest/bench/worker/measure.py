"""One measured run of `bench-worker`: a server of its own, one worker service, one cell.

A run counts only if the server has every job done exactly once and nothing left of any, and if the
service itself counts as many.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from devservers import BrokerServer, FaktoryServer
from devservers.processes import StartError, wait_until
from devservers.protocol_server import ProtocolServer
from loadtest.bench.worker.cells import (
    PACE_JOBS_PER_S,
    SERVICE_JOB_MS,
    PacedCell,
    ProcessesCell,
    ProfileCell,
    ServiceCell,
    SlotsCell,
    WorkerCell,
)
from loadtest.bench.worker.lag_watch import LagWatch
from loadtest.lab.consumers import QUEUE, Consumer, ours
from loadtest.lab.lab import LABS, PausingLab
from loadtest.lab.measure import (
    MIN_WINDOW_S,
    CpuMeter,
    Run,
    Sample,
    check_delivery,
    drain_values,
    measure_drain,
    running,
    watch,
)
from loadtest.lab.payloads import PayloadsFor, bench_payloads, burn_payloads
from loadtest.lab.producer import Producer
from loadtest.lab.pusher import Order
from loadtest.lab.server_runs import ServerRun
from loadtest.lab.service_view import children_of
from loadtest.lib.errors import RunError, WireError
from loadtest.lib.processes import Tree
from loadtest.lib.profiling import FILE_VARIABLE, SIGNAL
from loadtest.lib.prompted import Prompted

# A hundred commands a second, over two connections: one alone may wait for its answer.
PACED_BATCH, PACED_CLIENTS = PACE_JOBS_PER_S // 100, 2
# After the first jobs have ended: not counted, because their slots were filled with the others'.
PACED_SETTLE_S = 0.5
# A run that does less of what it is offered has not done the work that it is compared by.
LEAST_OF_PACE = 0.95
BARE_S = 1.0
PROFILE_TIMEOUT_S = 10.0

SERVERS: dict[str, Callable[[], ProtocolServer]] = {
    "faktory": FaktoryServer,
    "broker": BrokerServer,
}


def measure_worker(cell: WorkerCell, server: str, round_number: int) -> ServerRun:
    """Do one run and return its numbers, or its error."""
    blank = ServerRun(cell.key, server, round_number)
    try:
        return replace(blank, values=_values(cell, server))
    except (RunError, WireError, StartError, OSError) as error:
        return replace(blank, error=str(error) or type(error).__name__)


def _values(cell: WorkerCell, server: str) -> dict[str, float]:
    match cell:
        case SlotsCell():
            payloads_for = partial(bench_payloads, sleep_ms=cell.sleep_ms)
            return _drain(server, ours(), cell.slots, cell.jobs_for(server), payloads_for)
        case ServiceCell():
            payloads_for = partial(bench_payloads, sleep_ms=SERVICE_JOB_MS)
            consumer = ours(cell.processes)
            return _drain(server, consumer, cell.slots, cell.jobs_for(server), payloads_for)
        case PacedCell():
            return _paced(server, cell)
        case ProcessesCell():
            return _processes(server, cell)
        case ProfileCell():
            return _profile(server, cell)


def _drain(
    server: str, consumer: Consumer, slots: int, jobs: int, payloads_for: PayloadsFor
) -> dict[str, float]:
    with LABS[server]() as lab:
        lags = LagWatch(jobs, lab.ahead)
        run = measure_drain(
            lab,
            consumer,
            Run("", consumer.name, 0, slots, jobs),
            rtt_ms=None,
            payloads_for=payloads_for,
            beside=lags.beside,
        )
        values = drain_values(run)
    return values | {
        "slot_bytes": (run.rss_peak_bytes - run.rss_idle_bytes) / run.busy_peak,
        "lag_p99_ms": lags.p99_ms,
    }


def _paced(server: str, cell: PacedCell) -> dict[str, float]:
    with PausingLab(SERVERS[server]()) as lab, running(lab, ours(), cell.slots) as process:
        order = Order(
            *(lab.server.port, QUEUE, cell.jobs, PACED_BATCH, PACED_CLIENTS),
            per_s=PACE_JOBS_PER_S,
            sleep_ms=cell.sleep_ms,
        )
        tree, lags = Tree(process.pid), LagWatch(cell.jobs, lab.ahead)
        sockets, rss_idle = tree.sockets_to(lab.server.port), tree.rss_bytes()
        with Producer(order) as producer, lags.beside(process.pid):
            meter = CpuMeter(lab.server_tree)
            producer.go()
            began_s = time.monotonic()
            samples = watch(lab, process, tree, cell.jobs)
            producer.result()
            check_delivery(lab, cell.jobs)
            (server_us,) = meter.us_per_job(cell.jobs)
    first, last = paced_part(samples, began_s + cell.sleep_ms / 1000, began_s + cell.push_s)
    done = last.processed - first.processed
    busy_peak = max(sample.working for sample in samples)
    rss_peak = max(sample.rss_bytes for sample in samples)
    return {
        "jobs": cell.jobs,
        "jobs_per_s": done / (last.at_s - first.at_s),
        "window_s": last.at_s - first.at_s,
        "consumer_cpu_us": (last.cpu_s - first.cpu_s) / done * 1e6,
        "server_cpu_us": server_us,
        "sockets": sockets,
        "busy_peak": busy_peak,
        "rss_idle_bytes": rss_idle,
        "rss_peak_bytes": rss_peak,
        "slot_bytes": (rss_peak - rss_idle) / busy_peak,
        "lag_p99_ms": lags.p99_ms,
    }


def paced_part(samples: list[Sample], from_s: float, until_s: float) -> tuple[Sample, Sample]:
    """Return the ends of the part in which jobs both arrived and ended; raises when the service
    did not keep the pace in it."""
    part = [one for one in samples if from_s + PACED_SETTLE_S <= one.at_s <= until_s]
    if not part or part[-1].at_s - part[0].at_s < MIN_WINDOW_S:
        raise RunError("jobs did not arrive for long enough")
    first, last = part[0], part[-1]
    rate = (last.processed - first.processed) / (last.at_s - first.at_s)
    if rate < PACE_JOBS_PER_S * LEAST_OF_PACE:
        raise RunError(f"it did {rate:,.0f} jobs/s when {PACE_JOBS_PER_S:,} arrived")
    return first, last


def _processes(server: str, cell: ProcessesCell) -> dict[str, float]:
    """Beside each run the same without a queue, before and after, because the machine's speed
    changes from minute to minute."""
    before = bare_times_per_s(cell.processes, BARE_S)
    values = _drain(server, ours(cell.processes), cell.slots, cell.jobs, burn_payloads)
    after = bare_times_per_s(cell.processes, BARE_S)
    return values | {"bare_per_s": (before + after) / 2}


def bare_times_per_s(processes: int, seconds: float) -> float:
    """Return how often so many processes together do the work of one job."""
    with ExitStack() as stack:
        started = [Prompted("loadtest.lab.burning", {"seconds": seconds}) for _ in range(processes)]
        burners = [stack.enter_context(one) for one in started]
        for burner in burners:
            burner.go()
        answers = [burner.answer() for burner in burners]
    return sum(float(answer["times"]) / float(answer["seconds"]) for answer in answers)


def _profile(server: str, cell: ProfileCell) -> dict[str, float]:
    """Return the share of each function in the processor time of a child's main thread."""
    plain = ours()
    with LABS[server]() as lab:
        file = lab.logs / "profile.json"

        def environment(slots: int) -> dict[str, str]:
            settings = plain.environment(slots)
            handlers = f"{settings['WORKER_HANDLERS']},loadtest.lib.profiling"
            return settings | {"WORKER_HANDLERS": handlers, FILE_VARIABLE: str(file)}

        drain_values(
            measure_drain(
                lab,
                replace(plain, environment=environment),
                Run("", plain.name, 0, cell.slots, cell.jobs),
                rtt_ms=None,
                beside=partial(_profiled, file=file),
            )
        )
        seconds: dict[str, float] = json.loads(file.read_text())
    total_s = sum(seconds.values())
    return {label: own_s / total_s for label, own_s in seconds.items()}


@contextmanager
def _profiled(pid: int, file: Path) -> Iterator[None]:
    (child,) = children_of(pid)
    os.kill(child, SIGNAL)
    yield
    os.kill(child, SIGNAL)
    if not wait_until(file.exists, PROFILE_TIMEOUT_S):
        raise RunError("the worker's child wrote no profile")

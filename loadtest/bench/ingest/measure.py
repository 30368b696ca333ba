"""One measured run of `bench-ingest`: fresh processes, one cell, one side of the comparison.

A run counts only if every answer was 202 and the broker has exactly the jobs that were accepted.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from devservers import ApiServer, BrokerServer
from devservers.checkout import PRODUCT_PATH
from devservers.http_server import HttpServer
from devservers.processes import Child, StartError
from loadtest.bench.ingest.cells import (
    RUN_S,
    STREAM_BATCH,
    IngestCell,
    ListCell,
    LoneCell,
    SingleCell,
    StreamCell,
)
from loadtest.bench.ingest.poster import FORM, JSON, NDJSON, Post, Posted, post
from loadtest.lab.faktory_wire import FaktoryWire
from loadtest.lab.measure import CpuMeter
from loadtest.lab.producer import Producer
from loadtest.lab.pusher import Order
from loadtest.lib.errors import RunError, WireError
from loadtest.lib.processes import Tree
from loadtest.lib.runs import SideRun

JOB = b'{"a": 1, "b": 1}'
QUEUE = "default"
# At random up to this, so as not to fall in step with a timer; ms.
LONE_PAUSE_MS = 10.0
# More than a broker takes: so many jobs are made before raw PUSHBs are measured, in jobs/s.
MOST_PUSHED_PER_S = 200_000
WARM_UP_REQUESTS = 200


class ReferenceServer(HttpServer):
    """One of loadtest/bench/ingest/reference_apps.py."""

    def __init__(self, app: str) -> None:
        super().__init__()
        self._app = app
        self.name = app

    def _start_child(self, ports: Sequence[int]) -> Child:
        command = [
            sys.executable,
            "-m",
            "loadtest.bench.ingest.reference_apps",
            self._app,
            str(ports[0]),
        ]
        return Child(command, log=self.log, env=os.environ | {"PYTHONPATH": PRODUCT_PATH})


def measure_ingest(
    cell: IngestCell, side: str, round_number: int, poster: Path, run_s: float = RUN_S
) -> SideRun:
    """Do one run and return its numbers, or its error."""
    blank = SideRun(cell.key, side, round_number)
    try:
        if side == "pushb":
            values = _push(cell, run_s)
        elif side == "api":
            values = _ingest(cell, poster, run_s)
        else:
            values = _reference(cell, side, poster, run_s)
    except (RunError, WireError, StartError, OSError) as error:
        return replace(blank, error=str(error) or type(error).__name__)
    return replace(blank, values=values)


def request_of(cell: IngestCell, run_s: float) -> Post:
    match cell:
        case SingleCell():
            return Post("/jobs/add", JOB, FORM, cell.connections, seconds=run_s)
        case LoneCell():
            return Post("/jobs/add", JOB, FORM, 1, count=cell.requests, pause_ms=LONE_PAUSE_MS)
        case ListCell():
            body = b"[%b]" % b",".join(_items(cell.jobs))
            return Post("/jobs", body, JSON, cell.connections, seconds=run_s)
        case StreamCell():
            return Post("/jobs", b"\n".join(_items(cell.lines)), NDJSON, 1, count=1)


def jobs_per_request(cell: IngestCell) -> int:
    match cell:
        case ListCell():
            return cell.jobs
        case StreamCell():
            return cell.lines
    return 1


def _items(count: int) -> list[bytes]:
    return [b'{"jobtype":"add","args":{"a":%d,"b":1}}' % number for number in range(count)]


def _ingest(cell: IngestCell, poster: Path, run_s: float) -> dict[str, float]:
    with BrokerServer() as broker, ApiServer(broker) as api:
        queued = _warm_up(poster, api.port)
        meter = CpuMeter(Tree(api.pid), Tree(broker.pid))
        posted = post(poster, api.port, request_of(cell, run_s))
        jobs = _accepted(posted) * jobs_per_request(cell)
        service_us, broker_us = meter.us_per_job(jobs)
        _check_queued(broker, queued + jobs)
    return _values(posted, jobs) | {"service_cpu_us": service_us, "broker_cpu_us": broker_us}


def _reference(cell: IngestCell, app: str, poster: Path, run_s: float) -> dict[str, float]:
    with ReferenceServer(app) as server:
        _warm_up(poster, server.port)
        meter = CpuMeter(Tree(server.pid))
        posted = post(poster, server.port, request_of(cell, run_s))
        requests = _accepted(posted)
        (service_us,) = meter.us_per_job(requests)
    return _values(posted, requests) | {"service_cpu_us": service_us, "broker_cpu_us": 0.0}


def _push(cell: IngestCell, run_s: float) -> dict[str, float]:
    """Raw PUSHBs of the same size, over as many connections."""
    with BrokerServer() as broker:
        with Producer(_order(cell, broker.port, run_s)) as producer:
            meter = CpuMeter(Tree(broker.pid))
            producer.go()
            pushed = producer.result()
            (broker_us,) = meter.us_per_job(pushed.jobs)
        _check_queued(broker, pushed.jobs)
    return {
        "jobs": pushed.jobs,
        "jobs_per_s": pushed.jobs / pushed.seconds,
        "p50_ms": pushed.answer_p50_ms,
        "p99_ms": pushed.answer_p99_ms,
        "service_cpu_us": 0.0,
        "broker_cpu_us": broker_us,
        "client_cpu_us": pushed.cpu_s / pushed.jobs * 1e6,
    }


def _order(cell: IngestCell, port: int, run_s: float) -> Order:
    if isinstance(cell, ListCell):
        most = round(MOST_PUSHED_PER_S * run_s)
        return Order(port, QUEUE, most, cell.jobs, cell.connections, seconds=run_s)
    return Order(port, QUEUE, jobs_per_request(cell), STREAM_BATCH, 1)


def _warm_up(poster: Path, port: int) -> int:
    """Let the first requests go by, which find caches cold and connections not yet made; their
    number."""
    order = Post("/jobs/add", JOB, FORM, 4, count=WARM_UP_REQUESTS)
    return _accepted(post(poster, port, order))


def _accepted(posted: Posted) -> int:
    """The number of requests. Raises unless each of them was accepted."""
    if set(posted.statuses) != {"202"}:
        raise RunError(f"not every request was answered 202: {posted.statuses}")
    return posted.requests


def _check_queued(broker: BrokerServer, expected: int) -> None:
    wire = FaktoryWire(broker.port)
    try:
        info = wire.info()
    finally:
        wire.close()
    if info.queued != expected or info.processed:
        raise RunError(f"{expected} jobs were accepted, the broker has {info}")


def _values(posted: Posted, jobs: int) -> dict[str, float]:
    return {
        "jobs": jobs,
        "jobs_per_s": jobs / posted.seconds,
        "p50_ms": posted.p50_ms,
        "p99_ms": posted.p99_ms,
        "client_cpu_us": posted.cpu_s / jobs * 1e6,
    }

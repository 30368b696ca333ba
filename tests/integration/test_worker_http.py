"""What a running worker service shows of itself over HTTP, on standard output and in its log."""

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import httpx
import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from devservers import BrokerServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from manyhands.worker.supervision.emf import NAMESPACE
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.aws_server import AwsServer, refusal
from tests.support.ledger import Ledger
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest
from tests.unit.worker.supervision import test_emf

on_the_broker = pytest.mark.parametrize("server", ["broker_process"], indirect=True)
# Figures come every five seconds.
FIGURES_WITHIN_S = 25.0
HTTP_LINE = "metrics, health and status over HTTP"
# Longer than any test: such a job ends with its worker.
FOREVER_S = 600

pytestmark = pytest.mark.timeout(90)

Pages = Callable[[str], httpx.Response]


async def pages_of(worker: WorkerUnderTest) -> Pages:
    """How to get one; the port is in the log."""
    await worker.logs(HTTP_LINE)
    (line,) = [line for line in worker.logged if line.get("event") == HTTP_LINE]
    url = f"http://127.0.0.1:{line['port']}"
    return lambda path: httpx.get(url + path, trust_env=False, timeout=20)


async def ready(pages: Pages) -> None:
    await eventually(lambda: pages("/readyz").status_code == 200, what="it was not ready")


def samples(pages: Pages, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Values by these labels, of those samples that have them."""
    text = pages("/metrics").raise_for_status().text
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"manyhands_worker_{name}" and set(labels) <= set(sample.labels)
    }


def jobs_by_outcome(pages: Pages) -> dict[str, float]:
    """Of all processes together."""
    totals: dict[str, float] = {}
    for (outcome, _), count in samples(pages, "jobs_total", "outcome", "process_id").items():
        totals[outcome] = totals.get(outcome, 0.0) + count
    return totals


def status(pages: Pages) -> dict[str, Any]:
    content: dict[str, Any] = pages("/status").raise_for_status().json()
    return content


@ON_BOTH_SERVERS
async def test_jobs_are_counted_in_every_process(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    worker = start_worker(server.url, WORKER_QUEUES=queue, WORKER_PROCESSES="2")
    pages = await pages_of(worker)
    await eventually(
        lambda: samples(pages, "children", "state").get(("ready",)) == 2, what="not both were ready"
    )
    jobs = [Job(jobtype="sleepy", args=[0.2], queue=queue) for _ in range(20)]
    await client.push_bulk([*jobs, Job(jobtype="drops", args=[], queue=queue)])

    def all_counted() -> bool:
        return jobs_by_outcome(pages) == {"done": 20, "drop": 1}

    await eventually(all_counted, FIGURES_WITHIN_S, "the jobs were not counted")
    both = {("worker", "worker-0"), ("worker", "worker-1")}
    await eventually(
        lambda: set(samples(pages, "jobs_in_hand", "process_type", "process_id")) == both,
        FIGURES_WITHIN_S,
        "not both have told their figures",
    )
    counts = samples(pages, "job_duration_seconds_count", "jobtype", "process_id")
    assert sum(count for (jobtype, _), count in counts.items() if jobtype == "sleepy") == 20
    fast = samples(pages, "job_duration_seconds_bucket", "jobtype", "process_id", "le")
    assert sum(n for (jobtype, _, le), n in fast.items() if (jobtype, le) == ("sleepy", "0.1")) == 0
    assert sum(samples(pages, "stage_jobs_total", "stage", "process_id").values()) == 21
    assert set(samples(pages, "loop_lag_seconds", "stat")) == {("p50",), ("p99",), ("max",)}
    assert samples(pages, "server_up") == {(): 1}
    for (process_id,), value in samples(pages, "resident_memory_bytes", "process_id").items():
        assert value > 10_000_000, process_id


@on_the_broker
async def test_what_waits_and_what_runs_is_told_by_stage(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    worker = start_worker(server.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="2")
    pages = await pages_of(worker)
    await ready(pages)
    await client.push_bulk([Job(jobtype="sleepy", args=[FOREVER_S], queue=queue) for _ in range(5)])

    def stage() -> dict[str, Any]:
        (only,) = status(pages)["stages"]
        return dict(only)

    await eventually(lambda: stage()["active"] == 2, what="two jobs did not run")
    await eventually(lambda: stage()["queue_depth"] == 3, what="three jobs did not wait")
    name = stage()["name"]
    assert samples(pages, "stage_queue_depth", "stage") == {(name,): 3}
    await eventually(
        lambda: samples(pages, "stage_queue_lag_seconds", "stage")[name,] > 0, what="no lag"
    )
    await eventually(
        lambda: samples(pages, "stage_active", "stage") == {(name,): 2},
        FIGURES_WITHIN_S,
        "the figures do not say that two run",
    )


@on_the_broker
async def test_counters_go_on_when_a_child_is_replaced(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    worker = start_worker(server.url, WORKER_QUEUES=queue)
    pages = await pages_of(worker)
    await ready(pages)
    job = Job(jobtype="drops", args=[], queue=queue)
    await client.push_bulk([Job(jobtype="drops", args=[], queue=queue) for _ in range(9)])
    await eventually(lambda: jobs_by_outcome(pages) == {"drop": 9}, FIGURES_WITHIN_S)

    os.kill(worker.pid, signal.SIGKILL)

    await eventually(
        lambda: samples(pages, "child_restarts_total", "process_id") == {("worker-0",): 1}
    )
    assert jobs_by_outcome(pages) == {"drop": 9}
    await ready(pages)
    await client.push(job)
    await eventually(lambda: jobs_by_outcome(pages) == {"drop": 10}, FIGURES_WITHIN_S)
    (child,) = status(pages)["service"]["children"]
    assert child["last_exit"] == "SIGKILL"
    assert child["restarts"] == 1
    assert any("SIGKILL" in event["what"] for event in status(pages)["service"]["events"])


async def test_a_server_that_is_away_makes_it_not_ready_and_not_dead(
    start_worker: StartWorker,
) -> None:
    with BrokerServer() as broker:
        worker = start_worker(broker.url, WORKER_QUEUES="default")
        pages = await pages_of(worker)
        await ready(pages)
    await eventually(lambda: pages("/readyz").status_code == 503, what="it stayed ready")
    assert pages("/readyz").json()["reasons"] == ["worker: not connected to the server"]
    assert pages("/healthz").status_code == 200
    assert samples(pages, "ready") == {(): 0}


@on_the_broker
async def test_while_it_stops_it_is_alive_and_not_ready(
    server: AnyServer, client: Client, start_worker: StartWorker, ledger: Ledger, queue: str
) -> None:
    worker = start_worker(server.url, WORKER_QUEUES=queue, WORKER_SHUTDOWN_TIMEOUT="600")
    pages = await pages_of(worker)
    await ready(pages)
    await client.push(Job(jobtype="sleepy", args=[FOREVER_S], queue=queue))
    await eventually(lambda: ledger.entries, what="the job did not start")
    worker.terminate()
    await eventually(lambda: pages("/readyz").status_code == 503, what="it stayed ready")
    assert pages("/readyz").json()["reasons"] == ["stopping"]
    assert pages("/healthz").status_code == 200
    # It would wait for its job: let it put that back.
    worker.terminate()
    assert await worker.ended() == 0


@on_the_broker
async def test_a_port_that_is_taken_is_a_line_with_what_to_do(
    server: AnyServer, start_worker: StartWorker
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        worker = start_worker(server.url, WORKER_HTTP_BIND=bind)
        assert await worker.ended() == 1
    (said,) = worker.said
    assert said.startswith(f"worker: WORKER_HTTP_BIND={bind}: something listens there already")


@on_the_broker
async def test_cloudwatch_gets_lines_when_they_are_switched_on(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    worker = start_worker(
        server.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="1", WORKER_CLOUDWATCH="true"
    )
    await client.push_bulk([Job(jobtype="sleepy", args=[FOREVER_S], queue=queue) for _ in range(4)])

    def lines() -> list[dict[str, Any]]:
        return [line for line in worker.logged if "_aws" in line]

    def is_told() -> bool:
        return any(line.get("QueueDepth") == 3 and line["ActiveWorkers"] == 1 for line in lines())

    await eventually(is_told, 30, "no line says what waits and what runs")
    for line in lines():
        jsonschema.validate(line, test_emf.SCHEMA)
        assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == NAMESPACE


@on_the_broker
async def test_cloudwatch_is_told_by_the_supervisor_when_that_is_switched_on(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    with AwsServer() as aws:
        # It is away at first.
        aws.replies["/"].insert(0, refusal(503, "ServiceUnavailable"))
        worker = start_worker(
            server.url,
            WORKER_QUEUES=queue,
            WORKER_CONCURRENCY="1",
            WORKER_CLOUDWATCH_PUT="true",
            AWS_REGION="eu-central-1",
            AWS_ACCESS_KEY_ID="a",
            AWS_SECRET_ACCESS_KEY="b",
            AWS_ENDPOINT_URL_CLOUDWATCH=f"{aws.url}/",
        )
        pages = await pages_of(worker)
        jobs = [Job(jobtype="sleepy", args=[FOREVER_S], queue=queue) for _ in range(4)]
        await client.push_bulk(jobs)

        def is_told() -> bool:
            told = {(metric, value) for metric, _, value in aws.points}
            return {("QueueDepth", 3.0), ("ActiveWorkers", 1.0)} <= told

        await eventually(is_told, 60, "it was not told what waits and what runs")
        await worker.logs("CloudWatch does not take the metrics")

        def sent() -> float:
            return samples(pages, "cloudwatch_points_total", "outcome").get(("sent",), 0.0)

        await eventually(lambda: sent() >= 2, what="nothing was counted as sent")


@on_the_broker
async def test_jobs_that_fail_alike_share_one_line_and_every_line_has_the_fixed_fields(
    server: AnyServer, client: Client, start_worker: StartWorker, queue: str
) -> None:
    worker = start_worker(server.url, WORKER_QUEUES=queue)
    pages = await pages_of(worker)
    await ready(pages)
    # The last line of its start.
    await worker.logs("worker-0 is ready")
    child_pid, before = worker.pid, len(worker.logged)
    jobs = [Job(jobtype="fails", args=["on purpose"], queue=queue) for _ in range(10)]
    jobs += [Job(jobtype="drops", args=[], queue=queue) for _ in range(10)]
    await client.push_bulk(jobs)
    await eventually(lambda: jobs_by_outcome(pages) == {"failed": 10, "drop": 10}, FIGURES_WITHIN_S)
    assert [line["event"] for line in worker.logged[before:]] == ["a job failed"]
    worker.terminate()
    await worker.ended()
    assert len([job.jid for job in jobs if job.jid in worker.stderr]) == 1
    for line in worker.logged:
        assert list(line)[:4] == ["timestamp", "level", "component", "event"], line
        assert line["service"] == "worker"
        process_id = {worker.supervisor_pid: "supervisor", child_pid: "worker-0"}[line["pid"]]
        assert line["process_id"] == process_id

"""What a worker service says of itself over HTTP."""

from typing import Any

import httpx

from tests.support.worker_process import WorkerUnderTest

LISTENING = "metrics, health and status over HTTP"


def read_status(worker: WorkerUnderTest) -> dict[str, Any]:
    """The service's part of /status."""
    status: dict[str, Any] = _get(worker, "/status").raise_for_status().json()["service"]
    return status


def children_of(worker: WorkerUnderTest) -> list[dict[str, Any]]:
    children: list[dict[str, Any]] = read_status(worker)["children"]
    return children


def child_of(worker: WorkerUnderTest, process_id: str) -> dict[str, Any]:
    (child,) = [child for child in children_of(worker) if child["process_id"] == process_id]
    return child


def metric_of(worker: WorkerUnderTest, name: str, labels: str = "") -> float:
    """The largest of its processes; `labels` are in the line, as in `figure="busy"`."""
    lines = _get(worker, "/metrics").raise_for_status().text.splitlines()
    found = [line for line in lines if line.startswith(name) and labels in line]
    return max((float(line.rpartition(" ")[2]) for line in found), default=0.0)


def is_ready(worker: WorkerUnderTest) -> bool:
    return _get(worker, "/readyz").status_code == httpx.codes.OK


def url_of(worker: WorkerUnderTest) -> str:
    (line,) = [line for line in worker.logged if line["event"] == LISTENING]
    return f"http://{line['host']}:{line['port']}"


def _get(worker: WorkerUnderTest, path: str) -> httpx.Response:
    return httpx.get(f"{url_of(worker)}{path}", trust_env=False, timeout=20)


def damaged_shards(worker: WorkerUnderTest) -> list[str]:
    """As /readyz names them; none before it listens."""
    if not any(line["event"] == LISTENING for line in worker.logged):
        return []
    named: list[str] = _get(worker, "/readyz").json().get("damaged_shards", [])
    return named

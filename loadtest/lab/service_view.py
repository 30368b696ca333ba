"""What a worker service shows of itself over HTTP: its children, their jobs, their loops' lag."""

import http.client
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from loadtest.lib.processes import listening_port

ANSWER_TIMEOUT_S = 5.0
JOBS = "manyhands_worker_jobs_total"
LOOP_LAG = "manyhands_worker_loop_lag_seconds"


@dataclass(frozen=True, slots=True)
class ChildFigures:
    """Of one child, as it told them last: jobs that it has done, jobs that ended otherwise, and
    the lag of its event loop in the five seconds before."""

    done: int = 0
    not_done: int = 0
    lag_p99_s: float = 0.0


def read_figures(text: str) -> dict[str, ChildFigures]:
    """Read what `/metrics` answers; by process id, children that have told nothing are missing."""
    found: dict[str, ChildFigures] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.labels.get("process_id", "")
            old = found.get(name, ChildFigures())
            if sample.name == JOBS and sample.labels["outcome"] == "done":
                found[name] = replace(old, done=old.done + round(sample.value))
            elif sample.name == JOBS:
                found[name] = replace(old, not_done=old.not_done + round(sample.value))
            elif sample.name == LOOP_LAG and sample.labels["stat"] == "p99":
                found[name] = replace(old, lag_p99_s=sample.value)
    return found


def worst_lag_s(figures: Iterable[ChildFigures], ahead: int) -> float:
    """Return the longest lag of the children that have done more than what went ahead."""
    lags = [one.lag_p99_s for one in figures if one.done > ahead]
    return max(lags, default=0.0)


def ready_pids(status: dict[str, Any]) -> list[int]:
    """Return the pids of the children that take jobs, from what `/status` answers."""
    children = status["service"]["children"]
    return [
        child["pid"] for child in children if child["state"] == "ready" and child["is_connected"]
    ]


def ask(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def children_of(pid: int) -> list[int]:
    """Return the pids of a service's children that are ready; none while it starts."""
    port = listening_port(pid)
    try:
        return ready_pids(json.loads(ask(port, "/status"))) if port else []
    except (OSError, http.client.HTTPException):
        return []


def is_service_ready(pid: int, children: int) -> bool:
    return len(children_of(pid)) == children

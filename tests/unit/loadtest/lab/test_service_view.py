"""What a benchmark reads of a worker service, from what the service's own code writes."""

import json

import msgspec
import pytest

from loadtest.lab.service_view import ChildFigures, read_figures, ready_pids, worst_lag_s
from manyhands.worker.process.figures import JOBS, LOOP_LAG
from manyhands.worker.service.families import filled
from manyhands.worker.service.link import Figures, Sample
from manyhands.worker.supervision.http import status_document
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.status import ChildState
from tests.support.service_status import child, service


def figures_of(done: int, failed: int, p99_s: float) -> Figures:
    jobs = [
        Sample(["bench_noop", "done"], done),
        Sample(["bench_sleep", "done"], 1),
        Sample(["bench_noop", "failed"], failed),
        Sample(["bench_sleep", "put_back"], 1),
    ]
    lags = [Sample(["p50"], 0.001), Sample(["p99"], p99_s), Sample(["max"], 0.5)]
    return Figures([filled(JOBS, jobs), filled(LOOP_LAG, lags)])


def test_jobs_of_all_types_and_the_lag_are_read_by_process():
    kept = ServiceMetrics()
    kept.keep("worker", "worker-0", 1, figures_of(20_000, 0, 0.025))
    kept.keep("worker", "worker-1", 1, figures_of(5, 2, 0.05))
    found = read_figures(kept.text(service(child())).decode())
    assert found["worker-0"] == ChildFigures(done=20_001, not_done=1, lag_p99_s=0.025)
    assert found["worker-1"] == ChildFigures(done=6, not_done=3, lag_p99_s=0.05)


def test_a_service_that_has_told_nothing_yet_has_done_nothing():
    found = read_figures(ServiceMetrics().text(service(child())).decode())
    assert sum(one.done + one.not_done for one in found.values()) == 0


@pytest.mark.parametrize(("ahead", "worst_s"), [(0, 0.9), (1, 0.03), (3, 0.0)])
def test_the_lag_of_a_child_without_work_does_not_count(ahead, worst_s):
    children = [ChildFigures(3, 0, 0.02), ChildFigures(2, 0, 0.03), ChildFigures(1, 0, 0.9)]
    assert worst_lag_s(children, ahead) == worst_s


def test_children_that_start_or_are_not_connected_are_not_ready():
    status = service(
        child("worker-0", pid=11),
        child("worker-1", pid=12, state=ChildState.STARTING),
        child("worker-2", pid=13, is_connected=False),
        child("worker-3", pid=14),
    )
    text = msgspec.json.encode(status_document(status, ServiceMetrics()), enc_hook=list)
    assert ready_pids(json.loads(text)) == [11, 14]

"""`bench-worker` as a user runs it, and its runs: services that are started, watched and killed."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from devservers import BrokerServer
from devservers.processes import group_alive, wait_until
from loadtest.bench.worker import cells as worker_cells
from loadtest.bench.worker import measure as worker_measure
from loadtest.bench.worker.cells import PacedCell, ProfileCell
from loadtest.bench.worker.measure import bare_times_per_s, measure_worker
from loadtest.lab.consumers import LEAST_CONNECTIONS, ours
from loadtest.lab.service_view import children_of
from loadtest.lib.processes import Tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def bench_worker(out: Path, cells: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "bench-worker", "--rounds", "1"),
        *("--cells", cells, "--out", str(out)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.proof
async def test_a_cell_is_run_on_both_servers_and_written_down(tmp_path):
    code, said = await bench_worker(tmp_path, "slots/100ms/20")
    assert code == 0, said
    written = json.loads((tmp_path / "worker.json").read_text())
    runs = {run["server"]: run for run in written["runs"]}
    assert set(runs) == {"faktory", "broker"}
    for run in runs.values():
        assert run["error"] is None
        assert run["values"]["jobs"] == 800
        assert run["values"]["jobs_per_s"] > 0
        assert run["values"]["lag_p99_ms"] > 0
        assert run["values"]["busy_peak"] >= 20
    assert "100 ms jobs, 20 slots" in (tmp_path / "worker.md").read_text()
    assert "<svg" in (tmp_path / "worker.svg").read_text()


@pytest.mark.proof
def test_a_paced_load_is_done_completely(monkeypatch):
    # How fast this machine is at the moment is not the question.
    monkeypatch.setattr(worker_measure, "LEAST_OF_PACE", 0.0)
    cell = PacedCell(50)
    run = measure_worker(cell, "broker", 1)
    assert run.error is None
    assert run.values["jobs"] == cell.jobs
    assert run.values["consumer_cpu_us"] > 0


@pytest.mark.proof
def test_a_profile_names_functions_of_the_worker(monkeypatch):
    monkeypatch.setitem(worker_cells.SERVER_JOBS_PER_S, "broker", 10_000)
    run = measure_worker(ProfileCell(50), "broker", 1)
    assert run.error is None
    assert any(label.startswith("worker/jobs/execution.py ") for label in run.values)
    assert sum(run.values.values()) == pytest.approx(1.0)


def test_a_service_of_two_processes_is_seen_whole_and_killed_whole(tmp_path):
    with BrokerServer() as broker:
        consumer = ours(processes=2)
        process = consumer.start(40, broker.url, tmp_path / "log")
        try:
            consumer.wait_ready(process)
            assert len(set(children_of(process.pid)) - {process.pid}) == 2
            least = consumer.min_connections(40)
            assert least == 2 * LEAST_CONNECTIONS
            assert wait_until(lambda: Tree(process.pid).sockets_to(broker.port) >= least, 10)
        finally:
            process.kill_all()
        assert wait_until(lambda: not group_alive(process.pid), 10)


def test_a_bare_loop_in_two_processes_is_counted_together():
    assert bare_times_per_s(2, 0.05) > 0

"""The plan of `bench-worker`: which cell runs on which server, and in which order."""

from rich.console import Console

from loadtest.bench.worker.cells import Matrix, is_planned
from loadtest.bench.worker.measure import measure_worker
from loadtest.bench.worker.report import worker_outcome
from loadtest.lab.server_runs import SERVERS, ServerRun, plan_servers
from loadtest.lib.progress import do_all


def run_worker(console: Console, matrix: Matrix, rounds: int) -> tuple[list[ServerRun], bool]:
    """Do every run with a progress bar; return them and whether all were done."""
    return do_all(
        console,
        list(plan_servers(matrix, rounds, is_planned)),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SERVERS[step.server]}",
        run=lambda step: measure_worker(step.cell, step.server, step.round),
        error=lambda run: run.error,
        result=worker_outcome,
    )

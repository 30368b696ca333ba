"""The plan of `bench-worker`: which cell runs on which server, and in which order."""

from rich.console import Console

from loadtest.progress import do_all
from loadtest.server_runs import SERVERS, ServerRun, plan_servers
from loadtest.worker_cells import Matrix, is_planned
from loadtest.worker_measure import measure_worker
from loadtest.worker_report import worker_outcome


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

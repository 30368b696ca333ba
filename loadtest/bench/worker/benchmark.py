"""`bench-worker`: what the worker service costs, by its slots and its processes."""

from rich.console import Console

from loadtest.bench.worker.cells import CORE, FORMS, FULL, Matrix, is_planned, parse_worker_cells
from loadtest.bench.worker.measure import measure_worker
from loadtest.bench.worker.report import (
    print_worker_report,
    worker_outcome,
    write_worker_report,
)
from loadtest.lab.facts import server_facts
from loadtest.lab.server_runs import SERVERS, ServerReport, plan_servers
from loadtest.lib.benchmark import Benchmark, Cells, Wanted
from loadtest.lib.progress import run_steps


def run(console: Console, wanted: Wanted[Matrix]) -> ServerReport:
    matrix, rounds = wanted.cells, wanted.rounds
    done = run_steps(
        *(console, plan_servers(matrix, rounds, is_planned), rounds),
        who=lambda server: SERVERS[server],
        run=lambda step: measure_worker(step.cell, step.side, step.round),
        result=worker_outcome,
    )
    return ServerReport.of(wanted.machine, tuple(matrix), done)


BENCHMARK = Benchmark(
    name="worker",
    help="drain by worker services of 50 to 20,000 slots and of several processes",
    rounds=3,
    facts=server_facts,
    cells=Cells(
        default=CORE,
        read=parse_worker_cells,
        help=f"on both servers, some of {FORMS}",
        full=FULL,
    ),
    run=run,
    show=print_worker_report,
    write=write_worker_report,
)

"""`bench-broker`: a real Faktory and the broker, in turns."""

from rich.console import Console

from loadtest.bench.broker.cells import (
    AGAINST,
    DEFAULT,
    FORMS,
    FULL,
    LARGE_BACKLOG,
    BrokerCell,
    DrainCell,
    PushCell,
    is_planned,
    parse_broker_cells,
)
from loadtest.bench.broker.measure import measure_server
from loadtest.bench.broker.report import METRICS, print_broker_report, write_broker_report
from loadtest.lab.consumers import Consumer, make_consumers
from loadtest.lab.facts import server_facts
from loadtest.lab.server_runs import SERVERS, ServerReport, ServerRun, outcome, plan_servers
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.figures import Figure
from loadtest.lib.options import Option, count, one_or_more
from loadtest.lib.progress import run_steps


def needed_consumers(cells: tuple[BrokerCell, ...]) -> list[str]:
    """Return the names of the consumers that take part, each once."""
    names = []
    for cell in cells:
        if isinstance(cell, DrainCell):
            names.append(cell.consumer)
        elif not isinstance(cell, PushCell):
            names.append("ours")
    return list(dict.fromkeys(names))


def possible_cells(
    cells: tuple[BrokerCell, ...], consumers: dict[str, Consumer]
) -> tuple[BrokerCell, ...]:
    """Return the cells without those whose consumer could not be built here."""
    return tuple(cell for cell in cells if set(needed_consumers((cell,))) <= set(consumers))


def run(console: Console, wanted: Wanted[tuple[BrokerCell, ...]]) -> ServerReport:
    servers, jobs, rounds = wanted.options.servers, wanted.options.jobs, wanted.rounds
    consumers = _consumers(wanted.cells)
    cells = possible_cells(wanted.cells, consumers)
    done = run_steps(
        *(console, plan_servers(dict.fromkeys(cells, servers), rounds, is_planned), rounds),
        who=lambda server: SERVERS[server],
        run=lambda step: measure_server(step.cell, step.side, step.round, consumers, jobs),
        result=lambda run: outcome(run, METRICS),
    )
    return ServerReport.of(wanted.machine, cells, done)


def measure_one(key: str, jobs: float | None) -> ServerRun:
    cells = parse_broker_cells(key)
    return measure_server(cells[0], "broker", 1, _consumers(cells), round(jobs) if jobs else None)


def _consumers(cells: tuple[BrokerCell, ...]) -> dict[str, Consumer]:
    return {one.name: one for one in make_consumers(needed_consumers(cells))}


BENCHMARK = Benchmark(
    name="broker",
    help="push to and drain from a real Faktory and the broker, in turns",
    rounds=3,
    facts=server_facts,
    cells=Cells(
        default=DEFAULT,
        read=parse_broker_cells,
        help=f"some of {FORMS}",
        full=FULL,
        full_help=f"also a backlog of {LARGE_BACKLOG:,} jobs, once and the broker only",
    ),
    options=(
        Option(
            "--jobs",
            "jobs that a run pushes at most, or drains; default: about four seconds' worth",
            count,
        ),
        one_or_more(SERVERS, "--servers", "server"),
    ),
    run=run,
    show=print_broker_report,
    write=write_broker_report,
    against=Against(
        cells=AGAINST,
        figures=(
            Figure("jobs_per_s", "jobs/s"),
            Figure("p50_ms", "p50 ms", 2, is_less_better=True),
            Figure("push_jobs_per_s", "push jobs/s"),
            Figure("drain_jobs_per_s", "drain jobs/s"),
            Figure("server_cpu_us", "broker CPU µs/job", 1, is_less_better=True),
            Figure("consumer_cpu_us", "worker CPU µs/job", 1, is_less_better=True),
        ),
        size="jobs",
        measure=measure_one,
    ),
)

"""`bench-hosts`: crawls and fetch jobs on one to three worker hosts, and fetch jobs with and
without politeness."""

from rich.console import Console

from devservers.hosts import can_make_hosts
from loadtest.bench.hosts.cells import CELLS, SIDES, HostsCell, parse_hosts_cells
from loadtest.bench.hosts.measure import measure_hosts
from loadtest.bench.hosts.report import (
    HostsReport,
    hosts_outcome,
    print_hosts_report,
    write_hosts_report,
)
from loadtest.lib.benchmark import Benchmark, Cells, Wanted
from loadtest.lib.errors import RunError
from loadtest.lib.machine import basic_facts, postgres_facts, sqlite_facts
from loadtest.lib.options import Option, count
from loadtest.lib.progress import run_steps
from loadtest.lib.runs import in_turns
from loadtest.web.synthetic_web import build_web


def run(console: Console, wanted: Wanted[tuple[HostsCell, ...]]) -> HostsReport:
    if not can_make_hosts():
        raise RunError("only root may make the hosts (network namespaces), and needs iproute2")
    build_web()
    cells = wanted.cells
    if pages := wanted.options.pages:
        cells = tuple(cell.with_pages(pages) for cell in cells)
    done = run_steps(
        *(console, in_turns(cells, wanted.rounds, lambda cell, _round: cell.sides)),
        wanted.rounds,
        who=lambda side: SIDES[side],
        run=lambda step: measure_hosts(step.cell, step.side, step.round),
        result=hosts_outcome,
    )
    return HostsReport.of(wanted.machine, cells, done)


def hosts_facts() -> dict[str, str]:
    return basic_facts("go") | postgres_facts() | sqlite_facts()


BENCHMARK = Benchmark(
    name="hosts",
    help="crawls and fetch jobs on one to three worker hosts; fetch jobs with and without manners",
    rounds=3,
    facts=hosts_facts,
    cells=Cells(
        default=CELLS,
        read=parse_hosts_cells,
        help="some of crawl/1, crawl/2, crawl/3, jobs/1, jobs/2, jobs/3, manners",
    ),
    options=(Option("--pages", "of each worker host, instead of the cell's own number", count),),
    run=run,
    show=print_hosts_report,
    write=write_hosts_report,
)

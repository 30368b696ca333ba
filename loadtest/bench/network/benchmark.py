"""`bench-network`: what distance costs our worker and Rust's, on both servers."""

from rich.console import Console

from loadtest.bench.consumer.drains import run_drains
from loadtest.bench.consumer.report import DrainReport
from loadtest.bench.network.cells import NETWORK, parse_network_cells
from loadtest.bench.network.report import (
    network_section,
    print_network_report,
    write_network_report,
)
from loadtest.lab.cells import Cell
from loadtest.lab.consumers import make_consumers, on_broker
from loadtest.lab.facts import server_facts
from loadtest.lib.benchmark import Benchmark, Cells, Wanted


def run(console: Console, wanted: Wanted[tuple[Cell, ...]]) -> DrainReport:
    ours, *others = make_consumers(["ours", "rust"])
    done = run_drains(console, wanted.cells, [ours, on_broker(ours), *others], wanted.rounds)
    return DrainReport.of(wanted.machine, wanted.cells, done)


BENCHMARK = Benchmark(
    name="network",
    help="drain jobs of 100 ms over distances, and compare with the sizing formula",
    rounds=3,
    facts=server_facts,
    cells=Cells(default=NETWORK, read=parse_network_cells, help="such as 50/500,200/2000"),
    run=run,
    show=print_network_report,
    write=write_network_report,
    section=network_section,
)

"""`python -m loadtest`: the load test, the synthetic web, and every benchmark of loadtest/bench."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from devservers import BuildError
from devservers.processes import StartError
from loadtest.against.checkouts import described
from loadtest.against.report import print_against_report, write_against_report
from loadtest.against.turns import AgainstReport, run_against
from loadtest.bench import benchmark_names, find_benchmark
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.errors import PeerError, RunError
from loadtest.lib.guide import GUIDE, fill_section
from loadtest.lib.machine import facts
from loadtest.lib.options import count
from loadtest.lib.report import command_line, date_text
from loadtest.load import command as load_command
from loadtest.load import mixed_command, page_command
from loadtest.web import command as web_command

OUT = Path("docs/benchmarks")
AGAINST_ROUNDS = 5


def main() -> int:
    options = make_parser().parse_args()
    console = Console(markup=False, highlight=False)
    try:
        code: int = options.run(console, options)
    except (BuildError, PeerError, RunError, StartError) as error:
        print(f"loadtest: {error}", file=sys.stderr)
        return 1
    return code


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest")
    commands = parser.add_subparsers(required=True)
    load = commands.add_parser("run", help=load_command.HELP, description=load_command.HELP)
    load.set_defaults(run=load_command.run)
    load_command.add_options(load)
    pages = commands.add_parser("pages", help=page_command.HELP, description=page_command.HELP)
    pages.set_defaults(run=page_command.run)
    page_command.add_options(pages)
    mixed = commands.add_parser("mixed", help=mixed_command.HELP, description=mixed_command.HELP)
    mixed.set_defaults(run=mixed_command.run)
    mixed_command.add_options(mixed)
    for benchmark in map(find_benchmark, benchmark_names()):
        bench = commands.add_parser(
            f"bench-{benchmark.name}", help=benchmark.help, description=benchmark.help
        )
        bench.set_defaults(run=partial(_run, benchmark))
        _add_options(bench, benchmark)
    web = commands.add_parser("web", help=web_command.HELP, description=web_command.HELP)
    web.set_defaults(run=lambda _, options: web_command.run(options))
    web_command.add_options(web)
    return parser


def _add_options(bench: argparse.ArgumentParser, benchmark: Benchmark[Any, Any]) -> None:
    cells, against = benchmark.cells, benchmark.against
    if cells and cells.full:
        bench.add_argument("--full", action="store_true", help=cells.full_help)
    bench.add_argument("--rounds", type=count, help=_rounds_help(benchmark))
    if against:
        bench.add_argument(
            "--against",
            metavar="REVISION",
            help="of git: compare this checkout with it instead, in turns",
        )
    if cells:
        bench.add_argument("--cells", type=cells.read, help=cells.help)
    for option in benchmark.options:
        option.add_to(bench)
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _rounds_help(benchmark: Benchmark[Any, Any]) -> str:
    text = f"default {benchmark.rounds}"
    if benchmark.cells and benchmark.cells.full_rounds:
        text += f", full {benchmark.cells.full_rounds}"
    if benchmark.against:
        text += f", against a revision {AGAINST_ROUNDS}"
    return text


def _run(benchmark: Benchmark[Any, Any], console: Console, options: argparse.Namespace) -> int:
    """Run, show and write a benchmark; 1 when a run failed its check or was cut short."""
    if benchmark.against and options.against:
        return _compare(benchmark, benchmark.against, console, options)
    report = benchmark.run(console, _wanted(benchmark, options))
    benchmark.show(console, report)
    benchmark.write(report, options.out)
    name = benchmark.name
    console.print(f"written: {name}.md, {name}.json and {name}.svg in {options.out}")
    if report.errors or not report.is_complete:
        return 1
    # What is kept as the benchmark's result is in the guide, too.
    if benchmark.section and options.out == OUT:
        fill_section(GUIDE, name, benchmark.section(report))
        console.print(f"written: its section in {GUIDE}")
    return 0


def _wanted(benchmark: Benchmark[Any, Any], options: argparse.Namespace) -> Wanted[Any]:
    cells, rounds = None, benchmark.rounds
    if benchmark.cells:
        cells, rounds = choose(benchmark.cells, rounds, options)
    return Wanted(cells, options.rounds or rounds, options, benchmark.facts())


def choose(cells: Cells[Any], rounds: int, options: argparse.Namespace) -> tuple[Any, int]:
    """The cells that are measured, and in how many rounds unless the command line says so."""
    if cells.full and options.full:
        return options.cells or cells.full, cells.full_rounds or rounds
    return options.cells or cells.default, rounds


def _compare(
    benchmark: Benchmark[Any, Any],
    against: Against,
    console: Console,
    options: argparse.Namespace,
) -> int:
    """Run, show and write how this checkout compares with another revision of it; 1 when a run
    failed its check or was cut short."""
    name = benchmark.name
    cells = {cell.key: cell.title for cell in options.cells or against.cells}
    machine = facts() | {"new": described("HEAD"), "old": described(options.against)}
    runs, is_complete = run_against(
        *(console, options.against, name, list(cells)),
        rounds=options.rounds or AGAINST_ROUNDS,
        size=getattr(options, against.size) if against.size else None,
    )
    report = AgainstReport(
        *(command_line(), date_text(), machine, name, against.figures),
        *(cells, runs, is_complete),
    )
    print_against_report(console, report)
    write_against_report(report, options.out)
    console.print(f"written: {name}-against.md and .json in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m loadtest`: the benchmarks of the repository."""

import argparse
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from devservers import BuildError
from loadtest.bench_consumer import run_all
from loadtest.cells import CORE, FULL, Cell, parse_cells
from loadtest.consumers import MAKERS, make_consumers
from loadtest.machine import facts
from loadtest.report import Report, print_report, write_report

CORE_ROUNDS = 5
FULL_ROUNDS = 3


def main() -> int:
    options = _parser().parse_args()
    console = Console(markup=False, highlight=False)
    try:
        return bench_consumer(console, options)
    except BuildError as error:
        print(f"loadtest: {error}", file=sys.stderr)
        return 1


def bench_consumer(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    cells: tuple[Cell, ...] = options.cells or (FULL if options.full else CORE)
    rounds: int = options.rounds or (FULL_ROUNDS if options.full else CORE_ROUNDS)
    machine = facts()
    consumers = make_consumers(options.consumers)
    if not consumers:
        print("loadtest: no consumer could be built", file=sys.stderr)
        return 1
    result = run_all(console, cells, consumers, rounds)
    report = Report(
        command=shlex.join(["python", "-m", "loadtest", *sys.argv[1:]]),
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=machine | {"Faktory": result.faktory_version},
        cells=cells,
        runs=result.runs,
        is_complete=result.is_complete,
    )
    print_report(console, report)
    write_report(report, options.out)
    console.print(f"written: consumer.md, consumer.json and consumer.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest")
    commands = parser.add_subparsers(required=True)
    bench = commands.add_parser(
        "bench-consumer", help="drain the same jobs by us, Rust, Go and PyPI; one real Faktory"
    )
    bench.add_argument("--full", action="store_true", help="all cells instead of the core ones")
    bench.add_argument("--rounds", type=_count, help=f"default {CORE_ROUNDS}, full {FULL_ROUNDS}")
    bench.add_argument("--cells", type=parse_cells, help="such as noop/50/1000,1s/50/8000")
    bench.add_argument(
        "--consumers", type=_names, default=list(MAKERS), help=f"of {','.join(MAKERS)}"
    )
    bench.add_argument("--out", type=Path, default=Path("docs/benchmarks"), help="directory")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(MAKERS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such consumer: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())

"""`python -m loadtest`: the benchmarks of the repository."""

import argparse
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from devservers import BuildError
from loadtest import broker_cells
from loadtest.bench_broker import needed_consumers, possible_cells, run_servers, server_facts
from loadtest.bench_consumer import run_all
from loadtest.broker_cells import FORMS, SERVERS, BrokerCell, parse_broker_cells
from loadtest.broker_report import BrokerReport, print_broker_report, write_broker_report
from loadtest.cells import CORE, FULL, Cell, parse_cells
from loadtest.consumers import MAKERS, make_consumers
from loadtest.machine import facts
from loadtest.report import Report, print_report, write_report

CORE_ROUNDS = 5
FULL_ROUNDS = 3
BROKER_ROUNDS = 3
OUT = Path("docs/benchmarks")


def main() -> int:
    options = _parser().parse_args()
    console = Console(markup=False, highlight=False)
    try:
        code: int = options.run(console, options)
    except BuildError as error:
        print(f"loadtest: {error}", file=sys.stderr)
        return 1
    return code


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
        command=_command(),
        date=_now(),
        machine=machine | {"Faktory": result.faktory_version},
        cells=cells,
        runs=result.runs,
        is_complete=result.is_complete,
    )
    print_report(console, report)
    write_report(report, options.out)
    console.print(f"written: consumer.md, consumer.json and consumer.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_broker(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    chosen: tuple[BrokerCell, ...] = options.cells or (
        broker_cells.FULL if options.full else broker_cells.DEFAULT
    )
    consumers = {one.name: one for one in make_consumers(needed_consumers(chosen))}
    cells = possible_cells(chosen, consumers)
    machine = server_facts()
    runs, is_complete = run_servers(
        *(console, cells, options.servers, consumers), rounds=options.rounds, jobs=options.jobs
    )
    report = BrokerReport(_command(), _now(), machine, cells, runs, is_complete)
    print_broker_report(console, report)
    write_broker_report(report, options.out)
    console.print(f"written: broker.md, broker.json and broker.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def _command() -> str:
    return shlex.join(["python", "-m", "loadtest", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest")
    commands = parser.add_subparsers(required=True)
    _add_bench_consumer(commands.add_parser("bench-consumer", help=CONSUMER_HELP))
    _add_bench_broker(
        commands.add_parser("bench-broker", help=BROKER_HELP, description=BROKER_HELP)
    )
    return parser


CONSUMER_HELP = "drain the same jobs by us, Rust, Go and PyPI, from a real Faktory"
BROKER_HELP = "push to and drain from a real Faktory and the broker, in turns"


def _add_bench_consumer(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_consumer)
    bench.add_argument("--full", action="store_true", help="all cells instead of the core ones")
    bench.add_argument("--rounds", type=_count, help=f"default {CORE_ROUNDS}, full {FULL_ROUNDS}")
    bench.add_argument("--cells", type=parse_cells, help="such as noop/50/1000,1s/50/8000")
    bench.add_argument(
        "--consumers", type=_names, default=list(MAKERS), help=f"of {','.join(MAKERS)}"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_broker(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_broker)
    bench.add_argument(
        "--full",
        action="store_true",
        help=f"also a backlog of {broker_cells.LARGE_BACKLOG:,} jobs, once and the broker only",
    )
    bench.add_argument(
        "--rounds", type=_count, default=BROKER_ROUNDS, help=f"default {BROKER_ROUNDS}"
    )
    bench.add_argument("--cells", type=parse_broker_cells, help=f"some of {FORMS}")
    bench.add_argument(
        "--jobs",
        type=_count,
        help="jobs that a run pushes at most, or drains; default: about four seconds' worth",
    )
    bench.add_argument(
        "--servers", type=_servers, default=list(SERVERS), help=f"of {','.join(SERVERS)}"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _names(text: str) -> list[str]:
    return _some_of(text, list(MAKERS), "consumer")


def _servers(text: str) -> list[str]:
    return _some_of(text, list(SERVERS), "server")


def _some_of(text: str, known: list[str], what: str) -> list[str]:
    names = text.split(",")
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such {what}: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())

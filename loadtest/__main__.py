"""`python -m loadtest`: the load test and the benchmarks of the repository."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from devservers import BuildError
from devservers.processes import StartError
from loadtest.against.checkouts import described
from loadtest.against.report import print_against_report, write_against_report
from loadtest.against.turns import AgainstReport, Titled, run_against
from loadtest.bench.broker import cells as broker_cells
from loadtest.bench.broker.benchmark import (
    needed_consumers,
    possible_cells,
    run_servers,
    server_facts,
)
from loadtest.bench.broker.cells import FORMS, BrokerCell, parse_broker_cells
from loadtest.bench.broker.report import print_broker_report, write_broker_report
from loadtest.bench.consumer.benchmark import run_all
from loadtest.bench.consumer.report import Report, consumer_section, print_report, write_report
from loadtest.bench.crawl.benchmark import crawl_facts, profile_cells, run_crawl
from loadtest.bench.crawl.cells import AGAINST as AGAINST_CRAWLS
from loadtest.bench.crawl.cells import CELLS as CRAWL_CELLS
from loadtest.bench.crawl.cells import CrawlCell, parse_crawl_cells
from loadtest.bench.crawl.report import CrawlReport, print_crawl_report, write_crawl_report
from loadtest.bench.fetch.benchmark import fetch_facts, run_fetch
from loadtest.bench.fetch.cells import CELLS as FETCH_CELLS
from loadtest.bench.fetch.cells import RUN_S as FETCH_RUN_S
from loadtest.bench.fetch.cells import SIDES as FETCH_SIDES
from loadtest.bench.fetch.cells import parse_fetch_cells
from loadtest.bench.fetch.report import FetchReport, print_fetch_report, write_fetch_report
from loadtest.bench.ingest.benchmark import ingest_facts, run_ingest
from loadtest.bench.ingest.cells import DEFAULT as INGEST_CELLS
from loadtest.bench.ingest.cells import FORMS as INGEST_FORMS
from loadtest.bench.ingest.cells import RUN_S as INGEST_RUN_S
from loadtest.bench.ingest.cells import parse_ingest_cells
from loadtest.bench.ingest.report import IngestReport, print_ingest_report, write_ingest_report
from loadtest.bench.network.cells import NETWORK, parse_network_cells
from loadtest.bench.network.report import (
    network_section,
    print_network_report,
    write_network_report,
)
from loadtest.bench.sinks.benchmark import run_sinks, sinks_facts
from loadtest.bench.sinks.cells import BATCHES as SINKS_BATCHES
from loadtest.bench.sinks.cells import CELLS as SINKS_CELLS
from loadtest.bench.sinks.cells import of_size, parse_sinks_cells
from loadtest.bench.sinks.report import SinksReport, print_sinks_report, write_sinks_report
from loadtest.bench.state.benchmark import run_state, state_facts
from loadtest.bench.state.report import StateReport, print_state_report, write_state_report
from loadtest.bench.warc.benchmark import run_warc, warc_facts
from loadtest.bench.warc.cells import SIZE_MB as WARC_SIZE_MB
from loadtest.bench.warc.report import WarcReport, print_warc_report, write_warc_report
from loadtest.bench.worker import cells as worker_cells
from loadtest.bench.worker.benchmark import run_worker
from loadtest.bench.worker.cells import Matrix, parse_worker_cells
from loadtest.bench.worker.report import print_worker_report, write_worker_report
from loadtest.lab.cells import CORE, FULL, Cell, parse_cells
from loadtest.lab.consumers import MAKERS, PeerError, make_consumers, on_broker
from loadtest.lab.lab import RunError, faktory_version
from loadtest.lab.server_runs import SERVERS, ServerReport
from loadtest.lib.guide import GUIDE, fill_section
from loadtest.lib.machine import facts
from loadtest.load.run import SERVERS as RUN_SERVERS
from loadtest.load.run import LoadRun, failures_of, print_load, run_load, write_load
from loadtest.load.stand import USERS, Load
from loadtest.load.verdict import Targets
from loadtest.web.command import add_web, run_web

CORE_ROUNDS = 5
FULL_ROUNDS = 3
BROKER_ROUNDS = 3
CRAWL_ROUNDS = 3
AGAINST_ROUNDS = 5
FETCH_ROUNDS = 3
INGEST_ROUNDS = 5
NETWORK_ROUNDS = 3
WORKER_ROUNDS = 3
SINKS_ROUNDS = 3
STATE_ROUNDS = 3
WARC_ROUNDS = 3
WARC_MEMORY_MB = 1024
SEEN_URLS = 5_000_000
OUT = Path("docs/benchmarks")
# A load test that everything on two cores can bear, and what it must reach there.
USERS_DEFAULT = 100
SECONDS_DEFAULT = 30
TARGETS = Targets(min_jobs_per_s=2000, max_p95_ms=1000)
RUN_OUT = Path("loadtest-results")


def main() -> int:
    options = _parser().parse_args()
    console = Console(markup=False, highlight=False)
    try:
        code: int = options.run(console, options)
    except (BuildError, PeerError, RunError, StartError) as error:
        print(f"loadtest: {error}", file=sys.stderr)
        return 1
    return code


def bench_consumer(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    cells: tuple[Cell, ...] = options.cells or (FULL if options.full else CORE)
    rounds: int = options.rounds or (FULL_ROUNDS if options.full else CORE_ROUNDS)
    consumers = make_consumers(options.consumers)
    if not consumers:
        print("loadtest: no consumer could be built", file=sys.stderr)
        return 1
    machine = facts() | {"Faktory": faktory_version()}
    runs, is_complete = run_all(console, cells, consumers, rounds)
    report = Report(_command(), _now(), machine, cells, runs, is_complete)
    print_report(console, report)
    write_report(report, options.out)
    console.print(f"written: consumer.md, consumer.json and consumer.svg in {options.out}")
    return _end(console, options, report, "consumer", consumer_section(report))


def bench_network(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write what distance costs; 1 when a run failed its check or was cut short."""
    ours, *others = make_consumers(["ours", "rust"])
    cells: tuple[Cell, ...] = options.cells
    machine = server_facts()
    runs, is_complete = run_all(console, cells, [ours, on_broker(ours), *others], options.rounds)
    report = Report(_command(), _now(), machine, cells, runs, is_complete)
    print_network_report(console, report)
    write_network_report(report, options.out)
    console.print(f"written: network.md, network.json and network.svg in {options.out}")
    return _end(console, options, report, "network", network_section(report))


def _end(
    console: Console, options: argparse.Namespace, report: Report, name: str, section: list[str]
) -> int:
    """Bring what was kept as the benchmark's result into the guide too; return the exit code."""
    if report.errors or not report.is_complete:
        return 1
    if options.out == OUT:
        fill_section(GUIDE, name, section)
        console.print(f"written: its section in {GUIDE}")
    return 0


def bench_against(
    console: Console,
    options: argparse.Namespace,
    benchmark: str,
    default: Sequence[Titled],
    size: float | None,
) -> int:
    """Run, show and write how this checkout compares with another revision of it; 1 when a run
    failed its check or was cut short."""
    cells = {cell.key: cell.title for cell in options.cells or default}
    machine = facts() | {"new": described("HEAD"), "old": described(options.against)}
    runs, is_complete = run_against(
        *(console, options.against, benchmark, list(cells)),
        rounds=options.rounds or AGAINST_ROUNDS,
        size=size,
    )
    report = AgainstReport(_command(), _now(), machine, benchmark, cells, runs, is_complete)
    print_against_report(console, report)
    write_against_report(report, options.out)
    console.print(f"written: {benchmark}-against.md and .json in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_broker(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    if options.against:
        return bench_against(console, options, "broker", broker_cells.AGAINST, options.jobs)
    chosen: tuple[BrokerCell, ...] = options.cells or (
        broker_cells.FULL if options.full else broker_cells.DEFAULT
    )
    consumers = {one.name: one for one in make_consumers(needed_consumers(chosen))}
    cells = possible_cells(chosen, consumers)
    machine = server_facts()
    runs, is_complete = run_servers(
        *(console, cells, options.servers, consumers),
        rounds=options.rounds or BROKER_ROUNDS,
        jobs=options.jobs,
    )
    report = ServerReport(_command(), _now(), machine, cells, runs, is_complete)
    print_broker_report(console, report)
    write_broker_report(report, options.out)
    console.print(f"written: broker.md, broker.json and broker.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_ingest(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    if options.against:
        return bench_against(console, options, "ingest", INGEST_CELLS, options.seconds)
    cells = options.cells or INGEST_CELLS
    machine = ingest_facts()
    runs, is_complete = run_ingest(
        console, cells, rounds=options.rounds or INGEST_ROUNDS, run_s=options.seconds
    )
    report = IngestReport(_command(), _now(), machine, cells, runs, is_complete)
    print_ingest_report(console, report)
    write_ingest_report(report, options.out)
    console.print(f"written: ingest.md, ingest.json and ingest.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_fetch(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    if options.against:
        return bench_against(console, options, "fetch", FETCH_CELLS, options.seconds)
    cells = options.cells or FETCH_CELLS
    rounds = options.rounds or FETCH_ROUNDS
    machine = fetch_facts()
    runs, is_complete = run_fetch(
        console, cells, options.sides, rounds=rounds, run_s=options.seconds
    )
    report = FetchReport(_command(), _now(), machine, cells, runs, is_complete)
    print_fetch_report(console, report)
    write_fetch_report(report, options.out)
    console.print(f"written: fetch.md, fetch.json and fetch.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_worker(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write what the service costs; 1 when a run failed its check or was cut
    short."""
    matrix: Matrix = options.cells or (worker_cells.FULL if options.full else worker_cells.CORE)
    machine = server_facts()
    runs, is_complete = run_worker(console, matrix, options.rounds)
    report = ServerReport(_command(), _now(), machine, tuple(matrix), runs, is_complete)
    print_worker_report(console, report)
    write_worker_report(report, options.out)
    console.print(f"written: worker.md, worker.json and worker.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_state(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write what the state store costs; 1 when it was cut short."""
    machine = state_facts()
    runs, is_complete = run_state(console, options.seen, options.rounds)
    report = StateReport(_command(), _now(), machine, runs, is_complete)
    print_state_report(console, report)
    write_state_report(report, options.out)
    console.print(f"written: state.md, state.json and state.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_warc(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write what archives cost; 1 when a run failed its check or was cut short."""
    machine = warc_facts()
    runs, files, is_complete = run_warc(console, options.size_mb, options.rounds, options.memory_mb)
    report = WarcReport(_command(), _now(), machine, files, runs, is_complete)
    print_warc_report(console, report)
    write_warc_report(report, options.out)
    console.print(f"written: warc.md, warc.json and warc.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_crawl(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the comparison; 1 when a run failed its check or was cut short."""
    if options.against:
        return bench_against(console, options, "crawl", AGAINST_CRAWLS, options.pages)
    machine = crawl_facts()
    profiles = profile_cells(console) if options.profile else ()
    chosen = (options.cells or CRAWL_CELLS, profiles)
    cells, profiles = (_of_size(some, options.pages) for some in chosen)
    rounds = options.rounds or CRAWL_ROUNDS
    runs, is_complete = run_crawl(console, cells, profiles, rounds, with_peers=options.peers)
    report = CrawlReport(_command(), _now(), machine, (*cells, *profiles), runs, is_complete)
    print_crawl_report(console, report)
    write_crawl_report(report, options.out)
    console.print(f"written: crawl.md, crawl.json and crawl.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def bench_sinks(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write what sinks take; 1 when a run failed its check or was cut short."""
    machine = sinks_facts()
    cells = of_size(options.cells, options.pages) if options.pages else options.cells
    runs, is_complete = run_sinks(console, cells, rounds=options.rounds, batches=options.batches)
    report = SinksReport(_command(), _now(), machine, cells, runs, is_complete)
    print_sinks_report(console, report)
    write_sinks_report(report, options.out)
    console.print(f"written: sinks.md, sinks.json and sinks.svg in {options.out}")
    return 1 if report.errors or not report.is_complete else 0


def _of_size(cells: tuple[CrawlCell, ...], pages: int | None) -> tuple[CrawlCell, ...]:
    return tuple(cell.with_pages(pages) for cell in cells) if pages else cells


def load_test(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the load test; 1 when a promise was broken or a target missed."""
    targets = Targets(options.min_jobs_per_s, options.max_p95_ms)
    load = Load(options.users, options.seconds, options.kinds, options.shape == "burst")
    verdict, failures = run_load(console, options.server, load, options.out)
    run = LoadRun(_command(), _now(), verdict, failures + failures_of(verdict, targets))
    print_load(console, run)
    write_load(run, options.out)
    console.print(f"written: locust.html, locust_*.csv and summary.json in {options.out}")
    return 1 if run.failures else 0


def _command() -> str:
    return shlex.join(["python", "-m", "loadtest", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest")
    commands = parser.add_subparsers(required=True)
    _add_run(commands.add_parser("run", help=RUN_HELP, description=RUN_HELP))
    _add_bench_consumer(commands.add_parser("bench-consumer", help=CONSUMER_HELP))
    _add_bench_broker(
        commands.add_parser("bench-broker", help=BROKER_HELP, description=BROKER_HELP)
    )
    _add_bench_ingest(
        commands.add_parser("bench-ingest", help=INGEST_HELP, description=INGEST_HELP)
    )
    _add_bench_fetch(commands.add_parser("bench-fetch", help=FETCH_HELP, description=FETCH_HELP))
    _add_bench_crawl(commands.add_parser("bench-crawl", help=CRAWL_HELP, description=CRAWL_HELP))
    _add_bench_sinks(commands.add_parser("bench-sinks", help=SINKS_HELP, description=SINKS_HELP))
    _add_bench_network(
        commands.add_parser("bench-network", help=NETWORK_HELP, description=NETWORK_HELP)
    )
    _add_bench_worker(
        commands.add_parser("bench-worker", help=WORKER_HELP, description=WORKER_HELP)
    )
    _add_bench_state(commands.add_parser("bench-state", help=STATE_HELP, description=STATE_HELP))
    _add_bench_warc(commands.add_parser("bench-warc", help=WARC_HELP, description=WARC_HELP))
    web = commands.add_parser("web", help=WEB_HELP, description=WEB_HELP)
    web.set_defaults(run=lambda _, options: run_web(options))
    add_web(web)
    return parser


RUN_HELP = "post jobs by Locust to an API of its own, with server and worker behind it"
CONSUMER_HELP = "drain the same jobs by us, Rust, Go and PyPI, from a real Faktory"
BROKER_HELP = "push to and drain from a real Faktory and the broker, in turns"
FETCH_HELP = "fetch pages by our fetcher, bare aiohttp, pyreqwest and httpx, on one core"
CRAWL_HELP = "crawl the synthetic web by us, Scrapy and Colly, and by one to three processes"
SINKS_HELP = "write batches into three sinks at once, and crawl with and without sinks"
NETWORK_HELP = "drain jobs of 100 ms over distances, and compare with the sizing formula"
WORKER_HELP = "drain by worker services of 50 to 20,000 slots and of several processes"
STATE_HELP = "admit, claim and settle URLs in the state store, by several processes and among many"
WARC_HELP = "decode a WARC file and export it to Parquet, beside FastWARC and warcio with pyarrow"
WEB_HELP = "serve the synthetic web until Ctrl-C, and tell then how it was visited"
INGEST_HELP = "hand jobs in by POST, list and stream, beside bare servers and raw PUSHB"


def _add_run(run: argparse.ArgumentParser) -> None:
    run.set_defaults(run=load_test)
    run.add_argument("--server", choices=list(RUN_SERVERS), default="broker")
    run.add_argument("--users", type=_count, default=USERS_DEFAULT, help="of Locust, at the most")
    run.add_argument("--seconds", type=_count, default=SECONDS_DEFAULT)
    run.add_argument("--kinds", type=_kinds, default=list(USERS), help=f"of {','.join(USERS)}")
    run.add_argument("--shape", choices=["steady", "burst"], default="steady")
    run.add_argument(
        "--min-jobs-per-s",
        type=float,
        default=TARGETS.min_jobs_per_s,
        help="completed; fewer fail the run (default %(default)g)",
    )
    run.add_argument(
        "--max-p95-ms",
        type=float,
        default=TARGETS.max_p95_ms,
        help="from POST to done; more fail the run (default %(default)g)",
    )
    run.add_argument("--out", type=Path, default=RUN_OUT, help="directory (default %(default)s)")


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
    _add_against(bench, BROKER_ROUNDS)
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


def _add_bench_ingest(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_ingest)
    _add_against(bench, INGEST_ROUNDS)
    bench.add_argument("--cells", type=parse_ingest_cells, help=f"some of {INGEST_FORMS}")
    bench.add_argument(
        "--seconds", type=float, default=INGEST_RUN_S, help="of a run of single POSTs or lists"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_fetch(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_fetch)
    _add_against(bench, FETCH_ROUNDS)
    bench.add_argument(
        "--cells",
        type=parse_fetch_cells,
        help="such as http/keep/20k,https or a beginning of one",
    )
    bench.add_argument(
        "--sides", type=_sides, default=list(FETCH_SIDES), help=f"of {','.join(FETCH_SIDES)}"
    )
    bench.add_argument("--seconds", type=float, default=FETCH_RUN_S, help="of a run")
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_crawl(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_crawl)
    _add_against(bench, CRAWL_ROUNDS)
    bench.add_argument(
        "--cells",
        type=parse_crawl_cells,
        help="some of plain20,tls138,scaling/1,scaling/2,scaling/3 (scaling: all three)",
    )
    bench.add_argument("--peers", action="store_true", help="Scrapy and Colly with TLS, too")
    bench.add_argument(
        "--profile", action="store_true", help="also where the CPU goes, with a crawl of its own"
    )
    bench.add_argument("--pages", type=_count, help="of each web, instead of the cell's own number")
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_sinks(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_sinks)
    bench.add_argument(
        "--rounds", type=_count, default=SINKS_ROUNDS, help=f"default {SINKS_ROUNDS}"
    )
    bench.add_argument(
        "--cells",
        type=parse_sinks_cells,
        default=SINKS_CELLS,
        help=f"some of {','.join(cell.key for cell in SINKS_CELLS)}, or batch or crawl",
    )
    bench.add_argument(
        "--batches",
        type=_count,
        default=SINKS_BATCHES,
        help=f"of each side in a round (default {SINKS_BATCHES})",
    )
    bench.add_argument("--pages", type=_count, help="of each crawl, instead of its own number")
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_network(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_network)
    bench.add_argument(
        "--rounds", type=_count, default=NETWORK_ROUNDS, help=f"default {NETWORK_ROUNDS}"
    )
    bench.add_argument(
        "--cells", type=parse_network_cells, default=NETWORK, help="such as 50/500,200/2000"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_worker(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_worker)
    bench.add_argument("--full", action="store_true", help="all cells instead of the core ones")
    bench.add_argument(
        "--rounds", type=_count, default=WORKER_ROUNDS, help=f"default {WORKER_ROUNDS}"
    )
    bench.add_argument(
        "--cells", type=parse_worker_cells, help=f"on both servers, some of {worker_cells.FORMS}"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_state(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_state)
    bench.add_argument(
        "--rounds", type=_count, default=STATE_ROUNDS, help=f"default {STATE_ROUNDS}"
    )
    bench.add_argument(
        "--seen", type=_count, default=SEEN_URLS, help="URLs that are known (default %(default)s)"
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_bench_warc(bench: argparse.ArgumentParser) -> None:
    bench.set_defaults(run=bench_warc)
    bench.add_argument("--rounds", type=_count, default=WARC_ROUNDS, help=f"default {WARC_ROUNDS}")
    bench.add_argument(
        "--size-mb",
        type=_count,
        default=WARC_SIZE_MB,
        help="of the file of the rounds, compressed (default %(default)s)",
    )
    bench.add_argument(
        "--memory-mb",
        type=int,
        default=WARC_MEMORY_MB,
        help="of the longest file whose memory is looked at; 0: none (default %(default)s)",
    )
    bench.add_argument("--out", type=Path, default=OUT, help="directory")


def _add_against(bench: argparse.ArgumentParser, rounds: int) -> None:
    bench.add_argument(
        "--rounds", type=_count, help=f"default {rounds}, against a revision {AGAINST_ROUNDS}"
    )
    bench.add_argument(
        "--against",
        metavar="REVISION",
        help="of git: compare this checkout with it instead, in turns",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _names(text: str) -> list[str]:
    return _some_of(text, list(MAKERS), "consumer")


def _kinds(text: str) -> list[str]:
    return _some_of(text, list(USERS), "kind")


def _sides(text: str) -> list[str]:
    return _some_of(text, list(FETCH_SIDES), "client")


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

"""`python -m loadtest run`: its options, and what it shows and writes."""

import argparse
from pathlib import Path

from rich.console import Console

from loadtest.lib.options import count, one_or_more
from loadtest.lib.report import command_line, date_text
from loadtest.load.run import SERVERS, LoadRun, failures_of, print_load, run_load, write_load
from loadtest.load.stand import USERS, Load
from loadtest.load.verdict import Targets

HELP = "post jobs by Locust to an API of its own, with server and worker behind it"
# A load test that everything on two cores can bear, and what it must reach there.
USERS_DEFAULT = 100
SECONDS_DEFAULT = 30
TARGETS = Targets(min_jobs_per_s=2000, max_p95_ms=1000)
OUT = Path("loadtest-results")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", choices=list(SERVERS), default="broker")
    parser.add_argument("--users", type=count, default=USERS_DEFAULT, help="of Locust, at the most")
    parser.add_argument("--seconds", type=count, default=SECONDS_DEFAULT)
    one_or_more(USERS, "--kinds", "kind").add_to(parser)
    parser.add_argument("--shape", choices=["steady", "burst"], default="steady")
    parser.add_argument(
        "--min-jobs-per-s",
        type=float,
        default=TARGETS.min_jobs_per_s,
        help="completed; fewer fail the run (default %(default)g)",
    )
    parser.add_argument(
        "--max-p95-ms",
        type=float,
        default=TARGETS.max_p95_ms,
        help="from POST to done; more fail the run (default %(default)g)",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="directory (default %(default)s)")


def run(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write the load test; 1 when a promise was broken or a target missed."""
    targets = Targets(options.min_jobs_per_s, options.max_p95_ms)
    load = Load(options.users, options.seconds, options.kinds, options.shape == "burst")
    verdict, failures = run_load(console, options.server, load, options.out)
    done = LoadRun(command_line(), date_text(), verdict, failures + failures_of(verdict, targets))
    print_load(console, done)
    write_load(done, options.out)
    console.print(f"written: locust.html, locust_*.csv and summary.json in {options.out}")
    return 1 if done.failures else 0

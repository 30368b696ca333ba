"""`python -m loadtest web`: the synthetic web by itself, for a crawl by hand or by the demo.

Tells two lines of JSON on stdout: where it is, when it is ready, and at its end how it was visited.
"""

import argparse
import json
import signal
from typing import Any

from loadtest.web.oracle import Coverage, coverage
from loadtest.web.politeness import Verdict, judge
from loadtest.web.synthetic_web import Counts, SyntheticWeb, WebSpec

HELP = "serve the synthetic web until Ctrl-C, and tell then how it was visited"
ENDS = {signal.SIGINT, signal.SIGTERM}


def add_options(web: argparse.ArgumentParser) -> None:
    spec = WebSpec()
    web.add_argument("--hosts", type=int, default=spec.hosts, help="default %(default)s")
    web.add_argument("--pages", type=int, default=spec.pages, help="of all hosts, %(default)s")
    web.add_argument("--profile", choices=["plain", "web"], default=spec.profile)
    web.add_argument("--latency-ms", type=float, default=spec.latency_ms)
    web.add_argument(
        "--delay",
        type=float,
        default=1.0,
        help="seconds that its visitors have promised to wait, to judge them by (%(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Until SIGINT or SIGTERM."""
    spec = WebSpec(
        hosts=options.hosts,
        pages=max(options.pages, options.hosts),
        profile=options.profile,
        latency_ms=options.latency_ms,
    )
    with SyntheticWeb(spec) as web:
        # Blocked only now: what it started must not inherit that.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        perfect = web.perfect_crawl()
        _tell(
            event="ready",
            seeds=web.seeds,
            pages=sum(each.ends == "done" and each.verdict == "must" for each in perfect.values()),
            control=web.url,
            worker_settings=web.worker_settings,
        )
        signal.sigwait(ENDS)
        visits = web.ledger()
        _tell(
            event="verdict",
            **describe(
                judge(visits, delay_s=options.delay), web.counts(), coverage(perfect, visits)
            ),
        )
    return 0


def describe(verdict: Verdict, counts: Counts, covered: Coverage) -> dict[str, Any]:
    violations = sum(one.count for one in verdict.all_violations.values())
    return {
        "visits": verdict.visits,
        "robots": counts.robots,
        "pages": counts.pages,
        "twice": verdict.repeated.count,
        "violations": violations - verdict.repeated.count,
        "least_gap_s": verdict.least_gap_s,
        "missed": len(covered.missed),
        "unwanted": len(covered.unwanted),
        "text": f"{verdict}; {covered}",
    }


def _tell(**members: Any) -> None:
    print(json.dumps(members, separators=(",", ":")), flush=True)

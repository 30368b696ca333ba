"""`python -m loadtest mixed`: Locust's users post jobs, want pages fetched and start crawls."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from loadtest.lib.options import count, one_or_more
from loadtest.lib.terminal import terminal_table
from loadtest.load.mixed_stand import KINDS, MixedVerdict, mixed_stand

HELP = "post jobs, pages to fetch and crawls by Locust, and check a ledger of each"
USERS, SECONDS = 20, 30
SITES = 200
ANSWER_MS = 20.0
# Of lists of pages, or of the seeds of crawls; those who post single pages ask for fewer. Both have
# half of the pages.
MOST_URLS_PER_USER_S = 40
STANDSTILL_S = 30.0
OUT = Path("loadtest-results")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=count, default=USERS, help="default %(default)s")
    parser.add_argument("--seconds", type=count, default=SECONDS, help="default %(default)s")
    one_or_more(KINDS, "--kinds", "kind").add_to(parser)
    parser.add_argument("--out", type=Path, default=OUT, help="directory (default %(default)s)")


def run(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write it; 1 when a promise was broken, or something still waits."""
    results = options.out.absolute()
    results.mkdir(parents=True, exist_ok=True)
    urls = max(SITES, options.users * options.seconds * MOST_URLS_PER_USER_S)
    with mixed_stand(SITES, urls, ANSWER_MS, options.kinds) as stand:
        console.print(f"API at {stand.api.url}: {', '.join(options.kinds)}")
        with stand.locust(options.users, options.seconds, results) as locust:
            code = locust.wait()
            failures = [f"Locust ended with {code}: {locust.log_text()[-500:]}"] if code else []
        verdict = stand.settled(STANDSTILL_S)
    rows = rows_of(verdict)
    table = terminal_table(("traffic", "accepted", "done", "waiting", "dead"))
    for row in rows:
        table.add_row(row[0], *(f"{number:,}" for number in row[1:]))
    console.print(table)
    failures += verdict.broken_promises()
    failures += [f"{what}: nothing was accepted" for what, accepted, *_ in rows if not accepted]
    failures += [f"{what}: {waiting:,} still wait" for what, _, _, waiting, _ in rows if waiting]
    (results / "mixed.json").write_text(json.dumps(asdict(verdict), indent=1) + "\n")
    for failure in failures:
        console.print(f"FAILED: {failure}")
    console.print(f"written: locust.html, locust_*.csv and mixed.json in {options.out}")
    return 1 if failures else 0


def rows_of(verdict: MixedVerdict) -> list[tuple[str, int, int, int, int]]:
    """Accepted = done + waiting + dead, but for what was lost."""
    rows = []
    if (add := verdict.add) is not None:
        rows.append(("add: jobs", add.total.accepted, add.total.completed, 0, 0))
    if (fetch := verdict.fetch) is not None:
        rows.append(("fetch: pages", fetch.accepted, fetch.done, fetch.waiting, fetch.dead))
    if (crawl := verdict.crawl) is not None:
        what = f"crawl: seeds of {crawl.crawls:,}"
        rows.append((what, crawl.accepted, crawl.done, crawl.waiting, crawl.dead))
    return rows

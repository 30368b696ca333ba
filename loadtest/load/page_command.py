"""`python -m loadtest pages`: Locust's users want pages fetched, while worker hosts are killed."""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from devservers.hosts import can_make_hosts
from loadtest.lib.errors import RunError
from loadtest.lib.options import count
from loadtest.load.page_stand import PageStand, page_stand
from loadtest.load.pages import PageVerdict

HELP = "post pages to fetch by Locust to an API, with two worker hosts behind it that are killed"
USERS, SECONDS, KILLS = 8, 60, 6
SITES = 200
ANSWER_MS = 20.0
# Of lists; those who post single pages ask for fewer.
MOST_PAGES_PER_USER_S = 20
# Longer than a shard of a host that was killed waits for its next owner, and what that has to do.
STANDSTILL_S = 60.0
OUT = Path("loadtest-results")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=count, default=USERS, help="default %(default)s")
    parser.add_argument("--seconds", type=count, default=SECONDS, help="default %(default)s")
    parser.add_argument("--kills", type=count, default=KILLS, help="of workers, %(default)s")
    parser.add_argument("--out", type=Path, default=OUT, help="directory (default %(default)s)")


def run(console: Console, options: argparse.Namespace) -> int:
    """Run, show and write it; 1 when a promise was broken."""
    if not can_make_hosts():
        raise RunError("only root may make the hosts (network namespaces), and needs iproute2")
    results = options.out.absolute()
    results.mkdir(parents=True, exist_ok=True)
    pages = options.users * options.seconds * MOST_PAGES_PER_USER_S
    with page_stand(SITES, max(pages, SITES), ANSWER_MS) as stand:
        console.print(f"API at {stand.api.url}, workers on {', '.join(stand.workers)}")
        waited, verdict = load_with_kills(
            stand, options.users, options.seconds, options.kills, results
        )
    console.print(
        f"{verdict.accepted:,} accepted = {verdict.done:,} done + {verdict.waiting:,} waiting + "
        f"{verdict.dead:,} dead; {waited:,} waited when Locust ended"
    )
    console.print(f"{len(stand.kills_ns)} kills, {verdict.repeated:,} pages fetched twice")
    (results / "pages.json").write_text(json.dumps(asdict(verdict), indent=1) + "\n")
    failures = verdict.broken_promises()
    if verdict.waiting:
        failures.append(f"{verdict.waiting:,} jobs still wait")
    for failure in failures:
        console.print(f"FAILED: {failure}")
    return 1 if failures else 0


def load_with_kills(
    stand: PageStand, users: int, seconds: int, kills: int, results: Path
) -> tuple[int, PageVerdict]:
    """How many jobs waited when Locust had ended, and what came of all. Kills come evenly while it
    runs."""
    with stand.locust(users, seconds, results) as locust:
        for _ in range(kills):
            time.sleep(seconds / (kills + 1))
            if not locust.is_running:
                raise RunError(f"Locust ended too soon: {locust.log_text()[-2000:]}")
            stand.kill_worker()
        if code := locust.wait():
            raise RunError(f"Locust ended with {code}: {locust.log_text()[-2000:]}")
    waited = len(stand.accepted()) - stand.ended()
    return waited, stand.verdict(stand.settled(STANDSTILL_S))

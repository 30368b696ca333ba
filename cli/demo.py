"""Everything in one command: broker, API, workers and a made-up web, which is crawled and reports
how politely it was visited."""

import argparse
import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from manyhands.cli.api_client import api_client
from manyhands.cli.consoles import for_people
from manyhands.cli.figures import Snapshot
from manyhands.cli.seeds import UsageError
from manyhands.cli.services import (
    CRAWL_HANDLERS,
    ROOT,
    Place,
    ServiceFailed,
    Site,
    api,
    broker,
    results_of,
    web,
    worker,
)
from manyhands.cli.stall import AFTER_S
from manyhands.cli.stop import INTERRUPTED, Stop, stop_by_signals
from manyhands.cli.summary import summary_table
from manyhands.cli.watch import Display, Watch
from manyhands.shared.crawl.states import CrawlState

LATENCY_MS = 20
PARSE_SLOTS = 40
# A start that takes longer is building the web.
BUILDING_AFTER_S = 5.0
SHOWN_RECORDS = 3
CONTACT = "demo@example.org"
RECORDS = "pages.ndjson"
MARK = "this-is-a-demo.txt"


async def run_demo(arguments: argparse.Namespace) -> int:
    if not (ROOT / "loadtest").is_dir():
        raise ServiceFailed("the demo needs the whole repository: run `make demo` in a checkout")
    console = for_people()
    place = await asyncio.to_thread(_new_place, arguments.dir)
    with stop_by_signals(lambda: console.print("stopping")) as stop:
        code = await _run(console, place, arguments, stop)
    console.print(what_next(arguments.dir))
    return code


def _new_place(directory: Path) -> Place:
    """Raises UsageError, ServiceFailed."""
    if directory.exists() and not (directory / MARK).is_file():
        if not directory.is_dir() or any(directory.iterdir()):
            raise UsageError(f"{directory} is not of an earlier demo: name another --dir")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    place = Place(directory.absolute())
    place.make()
    (directory / MARK).write_text("A demo may be replaced by the next one.\n")
    return place


def what_next(directory: Path) -> str:
    return (
        f"its records: {directory / RECORDS}; logs: {directory / 'logs'}; remove it with: "
        f"rm -r {directory}\n"
        "next: manyhands crawl https://example.org --email me@example.org   a site of your choice\n"
        "      manyhands up                                                 crawls and jobs by HTTP"
        f"\n      manyhands up --dir {directory}, then `manyhands results 1`: what the demo found"
    )


async def _run(console: Console, place: Place, arguments: argparse.Namespace, stop: Stop) -> int:
    started_at = time.monotonic()
    records = place.directory / RECORDS
    async with (
        web(place, *_web_arguments(arguments)) as webs,
        broker(place) as brokers,
        api(place, brokers, results_of({"SINKS": f"jsonl:{records}"})) as apis,
    ):
        site = await webs.ready(_Building(console).tell)
        crawl = (await apis.api.post("/crawls", _request(site, arguments)))["id"]
        settings = _worker_settings(site, records, arguments.slots)
        async with (
            worker(place, brokers, settings) as workers,
            api_client(workers.url) as worker_api,
        ):
            console.print(
                f"a web of {arguments.hosts:,} hosts and {site.pages:,} pages, a broker, the API "
                f"and a worker of {arguments.slots} slots: up after "
                f"{time.monotonic() - started_at:.1f} s",
            )
            services = (webs.service, brokers.service, apis.service, workers.service)
            display = Display(console, site.pages)
            watch = Watch(apis.api, worker_api, crawl, services, display)
            snapshot = await watch.to_the_end(stop, _give_up)
        if snapshot is None:
            return INTERRUPTED
        verdict = await webs.verdict()
    return _summary(console, snapshot, verdict, _lines(records), site.pages)


class _Building:
    """State: whether it has been said."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._is_told = False

    def tell(self, waited_s: float) -> None:
        if waited_s > BUILDING_AFTER_S and not self._is_told:
            self._is_told = True
            self._console.print("building the synthetic web (once)")


def _web_arguments(arguments: argparse.Namespace) -> list[str]:
    return [
        *("--hosts", str(arguments.hosts), "--pages", str(arguments.pages)),
        *("--delay", str(arguments.delay), "--latency-ms", str(LATENCY_MS)),
    ]


def _request(site: Site, arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "contact": CONTACT,
        "seeds": site.seeds,
        "politeness": {"delay_s": arguments.delay},
        "labels": {"name": "demo"},
    }


def _worker_settings(site: Site, records: Path, slots: int) -> dict[str, str]:
    return {
        **site.worker_settings,
        "WORKER_STAGES": f"crawl:1x{slots} parse:1x{PARSE_SLOTS}",
        "WORKER_HANDLERS": CRAWL_HANDLERS,
        "SINKS": f"jsonl:{records}",
    }


async def _give_up(snapshot: Snapshot) -> None:
    raise ServiceFailed(
        f"nothing moved for {AFTER_S:.0f} s: {snapshot.done:,} pages done, "
        f"{snapshot.urls['queued']:,} wait; {snapshot.limited_by}"
    )


def _summary(
    console: Console,
    snapshot: Snapshot,
    verdict: Mapping[str, Any],
    records: list[bytes],
    pages: int,
) -> int:
    console.print(summary_table(snapshot), soft_wrap=False)
    console.print(_origin_table(verdict), soft_wrap=False)
    for line in records[:SHOWN_RECORDS]:
        record = orjson.loads(line)
        shown = f"{record['url']}  {record['title']!r}, {len(record['links'])} links"
        console.print(shown)
    wrong = wrongs(snapshot, verdict, len(records), pages)
    for text in wrong:
        console.print(f"not as it should be: {text}")
    return 1 if wrong else 0


def _origin_table(verdict: Mapping[str, Any]) -> Table:
    title = "what the web itself counted"
    table = Table(title=title, title_justify="left", show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column()
    table.add_row("requests", f"{verdict['visits']:,}, of them robots.txt {verdict['robots']:,}")
    table.add_row("pages", f"{verdict['pages']:,}, of them twice {verdict['twice']:,}")
    least = verdict["least_gap_s"]
    gap = "" if least is None else f", least pause {least:.3f} s"
    table.add_row("politeness", f"{verdict['violations']:,} violations{gap}")
    return table


def wrongs(snapshot: Snapshot, verdict: Mapping[str, Any], records: int, pages: int) -> list[str]:
    """What went wrong, compared with a perfect crawl."""
    found = []
    if snapshot.state is not CrawlState.COMPLETED:
        found.append(f"the crawl ended as {snapshot.state}: {snapshot.reason}")
    if snapshot.done != pages or records != pages:
        found.append(f"{snapshot.done:,} pages done and {records:,} records, of {pages:,} pages")
    if verdict["twice"] or verdict["violations"]:
        found.append(str(verdict["text"]))
    return found


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.exists() else []

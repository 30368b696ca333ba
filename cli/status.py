"""`manyhands status`: queues and crawls, or one crawl, once or repeatedly."""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from manyhands.cli.api_client import NOT_SET_UP, Api, ApiFailed, api_client
from manyhands.cli.consoles import for_results
from manyhands.cli.figures import queue_groups
from manyhands.cli.summary import counts, error_text, size

EVERY_S = 1.0
NEWEST = 10
SHOWN_ERRORS = 10
SETS = ("retries", "dead", "scheduled", "working")


async def run_status(arguments: argparse.Namespace) -> int:
    console = for_results()
    async with api_client(arguments.api, arguments.key) as client:
        if not arguments.watch:
            found = await _ask(client, arguments.crawl)
            if arguments.json:
                print(orjson.dumps(found).decode())
            else:
                console.print(rendered(found), soft_wrap=False)
            return 0
        if arguments.json:
            while True:
                print(orjson.dumps(await _ask(client, arguments.crawl)).decode(), flush=True)
                await asyncio.sleep(EVERY_S)
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(rendered(await _ask(client, arguments.crawl)), refresh=True)
                await asyncio.sleep(EVERY_S)


async def _ask(client: Api, crawl: int | None) -> dict[str, Any]:
    if crawl is not None:
        view = await client.get(f"/crawls/{crawl}")
        return {**view, **await client.get(f"/crawls/{crawl}/errors")}
    queues = await client.get("/queues")
    sets = (await client.get("/stats"))["faktory"]["sets"]
    try:
        crawls = (await client.get("/crawls", limit=NEWEST))["crawls"]
    except ApiFailed as error:
        if error.status != NOT_SET_UP:
            raise
        return {"queues": queues, "sets": sets, "crawls": None}
    # The list has no counts.
    views = [await client.get(f"/crawls/{listed['id']}") for listed in crawls]
    return {"queues": queues, "sets": sets, "crawls": views}


def rendered(found: Mapping[str, Any]) -> RenderableType:
    if "queues" not in found:
        return crawl_table(found)
    return Group(
        queues_table(found["queues"]),
        Text(),
        Text(sets_told(found["sets"])),
        Text(),
        crawls_table(found["crawls"]),
    )


def sets_told(sets: Mapping[str, int]) -> str:
    """The jobs that are in no queue."""
    return " · ".join(f"{name} {sets.get(name, 0):,}" for name in SETS)


def queues_table(queues: list[Mapping[str, Any]]) -> RenderableType:
    if not queues:
        return Text("no queue has had a job yet")
    table = Table(box=None, pad_edge=False)
    table.add_column("queue")
    table.add_column("jobs", justify="right")
    table.add_column("oldest", justify="right")
    table.add_column("")
    for name, jobs, oldest_s, paused in queue_groups(queues):
        table.add_row(name, f"{jobs:,}", f"{oldest_s:,.1f} s" if jobs else "–", paused)
    return table


def crawls_table(crawls: list[Mapping[str, Any]] | None) -> RenderableType:
    if crawls is None:
        return Text("there are no crawls here: CRAWL_STATE is not set")
    if not crawls:
        return Text("no crawls yet")
    table = Table(box=None, pad_edge=False)
    for name, side in (("crawl", "right"), ("state", "left"), ("pages", "right")):
        table.add_column(name, justify="right" if side == "right" else "left")
    table.add_column("pages/s", justify="right")
    table.add_column("queued", justify="right")
    table.add_column("limited by, or why it ended")
    for crawl in crawls:
        table.add_row(*_crawl_row(crawl))
    return table


def _crawl_row(crawl: Mapping[str, Any]) -> tuple[str, ...]:
    number, state = str(crawl["id"]), crawl["state"].replace("_", " ")
    pages, queued = crawl["counters"]["pages"], crawl["urls"]["queued"]
    why = crawl["limited_by"] if crawl["ended_at"] is None else crawl["reason"]
    return (number, state, f"{pages:,}", _rate(crawl), f"{queued:,}", why)


def _rate(crawl: Mapping[str, Any]) -> str:
    rate = crawl["pages_per_s"] or crawl["mean_pages_per_s"]
    return "–" if rate is None else f"{rate:,.1f}"


def crawl_table(crawl: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    reason = f": {crawl['reason']}" if crawl["reason"] else ""
    table.add_row("crawl", f"{crawl['id']}, {crawl['state'].replace('_', ' ')}{reason}")
    counters = crawl["counters"]
    table.add_row("pages", f"{counters['pages']:,}, {size(counters['bytes'])}, {_rate(crawl)}/s")
    table.add_row("URLs", counts(crawl["urls"]))
    links = {name: count for name, count in counters.items() if name not in ("pages", "bytes")}
    table.add_row("counters", counts(links))
    if crawl["ended_at"] is None:
        table.add_row("limited by", crawl["limited_by"])
    for number, error in enumerate(crawl["errors"][:SHOWN_ERRORS]):
        table.add_row("" if number else "left out", error_text(error))
    for number, note in enumerate(crawl["notes"]):
        table.add_row("" if number else "notes", f"{note['at'][:19]} {note['text']}")
    return table

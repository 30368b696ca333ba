"""`manyhands crawl`: one crawl to its end, with all that it needs on this machine."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError
from rich.console import Console

from manyhands.cli.api_client import Api, api_client
from manyhands.cli.consoles import for_people
from manyhands.cli.crawl_run import find_order
from manyhands.cli.figures import Snapshot, put_off, why_nothing
from manyhands.cli.saved import read_kept
from manyhands.cli.seeds import UsageError, look_up, read_urls
from manyhands.cli.services import (
    CRAWL_HANDLERS,
    Place,
    ServiceFailed,
    api,
    broker,
    sinks,
    variables,
    worker,
)
from manyhands.cli.stall import AFTER_S
from manyhands.cli.stop import INTERRUPTED, stop_by_signals
from manyhands.cli.summary import is_good, summary_document, summary_table
from manyhands.cli.watch import Display, Watch
from manyhands.shared.crawl.spec import CrawlSpec

STAGES = "crawl:1x200 parse:1x80"
NO_EMAIL = (
    "--email is missing: your address. It is sent with each request, so that a site's owner "
    "can write to you"
)
# By the part of the request that they make.
OPTIONS = {"contact": "--email", "records.fields": "--fields"}
STOPPING = "stopping: what is being fetched is finished (Ctrl-C again ends at once)"
# The sections whose variables the user may set for a crawl.
PASSED = ("fetch", "allow", "crawl", "pressure")
SHOWN_PUT_OFF = 3


def crawl_request(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request for the API. Raises UsageError."""
    if not arguments.email:
        raise UsageError(NO_EMAIL)
    request: dict[str, Any] = {
        "contact": arguments.email,
        "scope": {
            "within": arguments.within,
            "max_depth": arguments.max_depth,
            "exclude": arguments.exclude,
        },
        "limits": {"pages": arguments.max_pages},
        "politeness": {"delay_s": arguments.delay},
        "records": {"fields": [name.strip() for name in arguments.fields.split(",")]},
    }
    if arguments.skip_files:
        request["scope"]["skips_files"] = True
    discovery: dict[str, Any] = dict.fromkeys(arguments.without, False)
    if arguments.sitemaps:
        discovery["sitemaps"] = arguments.sitemaps
    if discovery:
        request["discovery"] = discovery
    try:
        CrawlSpec(**request)
    except ValidationError as error:
        first = error.errors()[0]
        said = first["msg"].removeprefix("Value error, ")
        place = ".".join(map(str, first["loc"]))
        name = OPTIONS.get(place, place)
        raise UsageError(f"{name}: {said}") from None
    return request | {"seeds": [url.text for url in read_urls(arguments.urls)]}


async def run_crawl(arguments: argparse.Namespace) -> int:
    console = for_people()
    request = crawl_request(arguments) if arguments.urls else None
    await _check_hosts(console, arguments.urls)
    place = Place(arguments.state.absolute())
    if request is None and read_kept(place.directory) is None:
        raise UsageError(f"no URL is given, and {arguments.state} has no crawl to resume")
    place.make()
    with stop_by_signals(lambda: console.print(STOPPING)) as stop:
        async with (
            broker(place) as brokers,
            api(place, brokers, variables("crawl")) as apis,
        ):
            order = await find_order(apis.api, arguments.state, request, arguments.output)
            records = order.kept.records(place.directory, order.id)
            console.print(f"{order}\nrecords go to {records}")
            settings = _worker_settings(records)
            async with (
                worker(place, brokers, settings) as workers,
                api_client(workers.url) as worker_api,
            ):
                watch = Watch(
                    apis.api,
                    worker_api,
                    order.id,
                    (brokers.service, apis.service, workers.service),
                    Display(console, order.kept.request["limits"]["pages"]),
                )
                stalls = Stalls(console, apis.api)
                snapshot = await watch.to_the_end(stop, stalls.tell)
    if snapshot is None or not snapshot.state.is_final:
        return _interrupted(console, snapshot, arguments.state)
    return _ended(console, snapshot, records, as_json=arguments.json)


async def _check_hosts(console: Console, texts: Sequence[str]) -> None:
    """Report a wrong name at once: a polite crawler would keep trying it for hours."""
    if variables("fetch").get("FETCH_DNS_SERVERS"):
        return
    found = await look_up(read_urls(texts))
    problem = found.problem(are_private_allowed=bool(variables("allow")))
    if problem is not None:
        raise ServiceFailed(problem)
    if found.missing:
        console.print(f"host not found: {', '.join(found.missing)}")


def _worker_settings(records: Path) -> dict[str, str]:
    return {
        **variables(*PASSED),
        "WORKER_STAGES": STAGES,
        "WORKER_HANDLERS": CRAWL_HANDLERS,
        **sinks(f"jsonl:{records}"),
    }


@dataclass(slots=True)
class Stalls:
    """A real site may ask to be left alone for an hour: say so, but it is no error."""

    console: Console
    api: Api

    async def tell(self, snapshot: Snapshot) -> None:
        domains = await self.api.get("/domains", limit=SHOWN_PUT_OFF)
        why = "; ".join(put_off(domains["domains"])) or snapshot.limited_by
        self.console.print(
            f"nothing has moved for {AFTER_S:.0f} s: {why}. Ctrl-C stops; the crawl can be resumed"
        )


def _interrupted(console: Console, snapshot: Snapshot | None, state: Path) -> int:
    if snapshot is not None:
        console.print(summary_table(snapshot), soft_wrap=False)
    console.print(f"stopped before its end; resume with: manyhands crawl --state {state}")
    return INTERRUPTED


def _ended(console: Console, snapshot: Snapshot, records: Path, *, as_json: bool) -> int:
    console.print(summary_table(snapshot), soft_wrap=False)
    nothing = why_nothing(snapshot)
    if nothing is not None:
        console.print(f"nothing was fetched: {nothing}")
    else:
        console.print(f"records: {records}")
    if as_json:
        print(orjson.dumps(summary_document(snapshot, records)).decode())
    return 0 if is_good(snapshot) and nothing is None else 1

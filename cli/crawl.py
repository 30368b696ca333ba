"""`manyhands crawl`: one crawl to its end, with all that it needs on this machine."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError
from rich.console import Console

from manyhands.cli.api_client import Api, api_client
from manyhands.cli.arguments import SLOTS, STAGES
from manyhands.cli.consoles import for_people
from manyhands.cli.crawl_run import check_output, find_order
from manyhands.cli.figures import Snapshot, put_off, why_nothing
from manyhands.cli.given_files import FILES, keep_exclusions, keep_seeds
from manyhands.cli.output import FOLDER, Output, absolute_sink
from manyhands.cli.saved import absolute, lines_of, read_kept
from manyhands.cli.seeds import UsageError, look_up, read_urls
from manyhands.cli.services import (
    CRAWL_HANDLERS,
    Place,
    ServiceFailed,
    api,
    broker,
    results_of,
    sinks,
    variables,
    worker,
)
from manyhands.cli.stall import AFTER_S
from manyhands.cli.stop import INTERRUPTED, stop_by_signals
from manyhands.cli.summary import is_good, summary_document, summary_table
from manyhands.cli.watch import Display, Watch
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.masking import masked_url

NO_EMAIL = (
    "--email is missing: your address. It is sent with each request, so that a site's owner "
    "can write to you"
)
# By the part of the request that they make.
OPTIONS = {"contact": "--email", "records.fields": "--fields", "handlers": "--handlers"}
STOPPING = "stopping: what is being fetched is finished (Ctrl-C again ends at once)"
# The sections whose variables the user may set for a crawl.
PASSED = ("fetch", "allow", "crawl", "pressure")
SHOWN_PUT_OFF = 3
MARKDOWN = "markdown"


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
        "limits": {"pages": arguments.max_pages, "duration_s": arguments.max_duration},
        "politeness": {"delay_s": arguments.delay},
        "records": {"fields": _fields(arguments)},
    }
    if arguments.handlers is not None:
        request["handlers"] = arguments.handlers
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


def _fields(arguments: argparse.Namespace) -> list[str]:
    names = [name.strip() for name in arguments.fields.split(",")]
    # It is what the files are made of.
    is_wanted = (arguments.output or "").endswith(FOLDER) and MARKDOWN not in names
    return [*names, MARKDOWN] if is_wanted else names


async def run_crawl(arguments: argparse.Namespace) -> int:
    console = for_people()
    has_seeds = bool(arguments.urls or arguments.seed_file)
    request = crawl_request(arguments) if has_seeds else None
    place = Place(arguments.state.absolute())
    is_first = read_kept(place.directory) is None
    if is_first:
        # Else the same command may go on with what it wrote.
        check_output(arguments.output)
    await _check_hosts(console, arguments.urls)
    if request is None and is_first:
        raise UsageError(f"no URL is given, and {arguments.state} has no crawl to resume")
    place.make()
    if request is not None:
        request |= await asyncio.to_thread(_given_files, place, arguments)
    with stop_by_signals(lambda: console.print(STOPPING)) as stop:
        async with (
            broker(place) as brokers,
            api(place, brokers, _api_settings(place, arguments)) as apis,
        ):
            sinks_too = [absolute_sink(url) for url in arguments.sink]
            order = await find_order(
                apis.api, arguments.state, request, arguments.output, sinks_too
            )
            output = Output(order.kept.records(place.directory, order.id))
            told = [f"records go to {output.file}", *map(masked_url, order.kept.sinks)]
            console.print(f"{order}\n{', '.join(told)}")
            own = output.sinks(lines_of(place.directory, order.id))
            settings = _worker_settings(
                [*own, *order.kept.sinks],
                _stages(console, arguments),
                order.kept.request.get("handlers"),
            )
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
    records = await asyncio.to_thread(output.join)
    return _ended(console, snapshot, records, as_json=arguments.json)


def _given_files(place: Place, arguments: argparse.Namespace) -> dict[str, str]:
    """Members of the request. Raises UsageError."""
    found = {}
    if arguments.seed_file is not None:
        found["seed_file"] = keep_seeds(place.directory, arguments.seed_file)
    if arguments.exclude_file is not None:
        found["exclusions_file"] = keep_exclusions(place.directory, arguments.exclude_file)
    return found


def _api_settings(place: Place, arguments: argparse.Namespace) -> dict[str, str]:
    settings = variables("crawl", "allow") | _files_of(place)
    kept = read_kept(place.directory)
    output = arguments.output or (None if kept is None else kept.output)
    if output is None:
        # The file is called after the crawl, which the API has yet to start.
        return settings
    own, *_ = Output(absolute(output)).sinks(lines_of(place.directory, 1))
    return settings | results_of({"SINKS": own})


def _files_of(place: Place) -> dict[str, str]:
    directory = place.directory / FILES
    directory.mkdir(exist_ok=True)
    return {"CRAWL_FILES": str(directory)}


def _stages(console: Console, arguments: argparse.Namespace) -> str:
    if arguments.max_workers is None:
        return str(arguments.stages)
    stages = STAGES.replace(f"x{SLOTS} ", f"x{arguments.max_workers} ")
    console.print(f"--max-workers is deprecated: use --stages '{stages}'")
    return stages


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


def _worker_settings(urls: Sequence[str], stages: str, handlers: str | None) -> dict[str, str]:
    return {
        **variables(*PASSED),
        "WORKER_STAGES": stages,
        "WORKER_HANDLERS": ",".join(filter(None, (CRAWL_HANDLERS, handlers))),
        **sinks(*urls),
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


def _ended(console: Console, snapshot: Snapshot, records: Sequence[Path], *, as_json: bool) -> int:
    console.print(summary_table(snapshot), soft_wrap=False)
    nothing = why_nothing(snapshot)
    if snapshot.seed_file_refused:
        console.print(f"lines of the seed file that are no URL: {snapshot.seed_file_refused:,}")
    if nothing is not None:
        console.print(f"nothing was fetched: {nothing}")
    else:
        console.print(f"records: {', '.join(map(str, records))}")
    if as_json:
        print(orjson.dumps(summary_document(snapshot, records[0])).decode())
    return 0 if is_good(snapshot) and nothing is None else 1

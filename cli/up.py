"""`manyhands up`: all services in the foreground, until Ctrl-C."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from manyhands.cli.consoles import for_people
from manyhands.cli.kept import Kept
from manyhands.cli.services import (
    ALL_HANDLERS,
    ARCHIVE_HANDLERS,
    Place,
    api,
    broker,
    check_free,
    results_of,
    variables,
    worker,
)
from manyhands.cli.stop import INTERRUPTED, stop_by_signals

# The same ports as in the documentation.
BROKER = {"BROKER_BIND": "127.0.0.1:7419", "BROKER_HTTP_BIND": "127.0.0.1:7420"}
API = {"API_BIND": "127.0.0.1:3000"}
WORKER = {
    "WORKER_HTTP_BIND": "127.0.0.1:7421",
    "WORKER_HANDLERS": ALL_HANDLERS,
    "WORKER_STAGES": "crawl+fetch:1x500 parse+add:1x200",
}
ARCHIVE_STAGES = "warc+export:1x6"
# What reading WARC files and writing tables takes.
ARCHIVE_PACKAGES = ("fastwarc", "isal", "pyarrow")
LOOK_EVERY_S = 0.5
STOPPING = "stopping: jobs and fetches in hand are finished (Ctrl-C again ends at once)"


async def run_up(arguments: argparse.Namespace) -> int:
    console = for_people()
    place = Place(arguments.dir.absolute())
    place.make()
    for_broker = BROKER | variables("broker")
    for_worker = _worker_settings(console, place)
    for_api = API | results_of(for_worker) | variables("api", "batch", "crawl", "allow")
    if arguments.api_bind:
        for_api["API_BIND"] = arguments.api_bind
    for variable, value in (for_broker | for_api | for_worker).items():
        if variable in (*BROKER, *API, "WORKER_HTTP_BIND"):
            check_free(variable, value)
    with stop_by_signals(lambda: console.print(STOPPING)) as stop:
        async with Kept(lambda: broker(place, for_broker), console.print) as brokers:
            first = brokers.running
            # The others look for it where it was.
            for_broker |= {"BROKER_BIND": first.address, "BROKER_HTTP_BIND": first.http}
            async with (
                Kept(lambda: api(place, first, for_api), console.print) as apis,
                Kept(lambda: worker(place, first, for_worker), console.print) as workers,
            ):
                url = apis.running.url
                console.print(f"API      {url}  (crawls, jobs; {url}/openapi.json)")
                console.print(f"broker   {first.url}  (any Faktory client)")
                console.print(f"worker   {workers.running.url}/status")
                console.print(f"records  {_records_told(place)}")
                console.print(f"logs     {place.directory / 'logs'}; Ctrl-C stops all of it")
                while not await stop.wait(LOOK_EVERY_S):
                    for kept in (brokers, apis, workers):
                        await kept.look()
    return INTERRUPTED


def _worker_settings(console: Console, place: Place) -> dict[str, str]:
    settings = WORKER | {"WARC_FILES": str(Path.cwd())}
    if not variables("sinks").keys() & {"SINKS", "SINKS_FILE"}:
        settings["SINKS"] = f"jsonl:{_records(place)}"
    missing = [name for name in ARCHIVE_PACKAGES if find_spec(name) is None]
    if missing:
        console.print(f"without the stages warc and export: {', '.join(missing)} not installed")
    else:
        settings["WORKER_HANDLERS"] += f",{ARCHIVE_HANDLERS}"
        settings["WORKER_STAGES"] += f" {ARCHIVE_STAGES}"
    return settings | variables("worker", "fetch", "allow", "crawl", "sinks", "pressure", "warc")


def _records(place: Place) -> Path:
    return place.directory / "pages.ndjson"


def _records_told(place: Place) -> str:
    is_given = variables("sinks").keys() & {"SINKS", "SINKS_FILE"}
    return "as SINKS says" if is_given else str(_records(place))

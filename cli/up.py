"""`manyhands up`: all services in the foreground, until Ctrl-C or until one of them ends."""

import argparse

from manyhands.cli.consoles import for_people
from manyhands.cli.services import (
    ALL_HANDLERS,
    Place,
    api,
    broker,
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
LOOK_EVERY_S = 0.5
STOPPING = "stopping: jobs and fetches in hand are finished (Ctrl-C again ends at once)"


async def run_up(arguments: argparse.Namespace) -> int:
    console = for_people()
    place = Place(arguments.dir.absolute())
    place.make()
    records = place.directory / "pages.ndjson"
    for_api = API | variables("api", "batch", "crawl")
    if arguments.api_bind:
        for_api["API_BIND"] = arguments.api_bind
    for_worker = WORKER | {"SINKS": f"jsonl:{records}"}
    for_worker |= variables("worker", "fetch", "allow", "crawl", "sinks", "pressure")
    with stop_by_signals(lambda: console.print(STOPPING)) as stop:
        async with (
            broker(place, BROKER | variables("broker")) as brokers,
            api(place, brokers, for_api) as apis,
            worker(place, brokers, for_worker) as workers,
        ):
            console.print(f"API      {apis.url}  (crawls, jobs; {apis.url}/openapi.json)")
            console.print(f"broker   {brokers.url}  (any Faktory client)")
            console.print(f"worker   {workers.url}/status")
            where = "as SINKS says" if "SINKS" in variables("sinks") else str(records)
            console.print(f"records  {where}")
            console.print(f"logs     {place.directory / 'logs'}; Ctrl-C stops all of it")
            services = (brokers.service, apis.service, workers.service)
            while not await stop.wait(LOOK_EVERY_S):
                for service in services:
                    service.check()
    return INTERRUPTED

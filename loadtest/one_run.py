"""The process that does one run of ours for `--against`: `python -m loadtest.one_run BENCHMARK CELL
[SIZE]`, started in the checkout whose product is measured. Its last line is the run as JSON."""

import json
import sys
from collections.abc import Callable
from typing import Protocol

from loadtest.bench.broker.benchmark import needed_consumers
from loadtest.bench.broker.cells import parse_broker_cells
from loadtest.bench.broker.measure import measure_server
from loadtest.bench.crawl.cells import OURS as OUR_CRAWLER
from loadtest.bench.crawl.cells import parse_crawl_cells
from loadtest.bench.crawl.measure import measure_crawl
from loadtest.bench.fetch.cells import OURS as OUR_FETCHER
from loadtest.bench.fetch.cells import RUN_S as FETCH_RUN_S
from loadtest.bench.fetch.cells import parse_fetch_cells
from loadtest.bench.fetch.measure import measure_fetch
from loadtest.bench.fetch.origin import build_origin
from loadtest.bench.ingest.cells import RUN_S as INGEST_RUN_S
from loadtest.bench.ingest.cells import parse_ingest_cells
from loadtest.bench.ingest.measure import measure_ingest
from loadtest.bench.ingest.poster import build_poster
from loadtest.lab.consumers import make_consumers

# The plan counts the rounds.
ROUND = 1


class Measured(Protocol):
    @property
    def error(self) -> str | None: ...

    @property
    def values(self) -> dict[str, float]: ...


def _broker(key: str, jobs: float | None) -> Measured:
    cells = parse_broker_cells(key)
    consumers = {one.name: one for one in make_consumers(needed_consumers(cells))}
    return measure_server(cells[0], "broker", ROUND, consumers, round(jobs) if jobs else None)


def _ingest(key: str, seconds: float | None) -> Measured:
    (cell,) = parse_ingest_cells(key)
    return measure_ingest(cell, "api", ROUND, build_poster(), seconds or INGEST_RUN_S)


def _fetch(key: str, seconds: float | None) -> Measured:
    (cell,) = parse_fetch_cells(key)
    return measure_fetch(cell, OUR_FETCHER, ROUND, build_origin(), seconds or FETCH_RUN_S)


def _crawl(key: str, pages: float | None) -> Measured:
    (cell,) = parse_crawl_cells(key)
    return measure_crawl(cell.with_pages(round(pages)) if pages else cell, OUR_CRAWLER, ROUND)


MEASURES: dict[str, Callable[[str, float | None], Measured]] = {
    "broker": _broker,
    "ingest": _ingest,
    "fetch": _fetch,
    "crawl": _crawl,
}


def main() -> int:
    benchmark, cell, *size = sys.argv[1:]
    run = MEASURES[benchmark](cell, float(size[0]) if size else None)
    print(json.dumps({"error": run.error, "values": run.values}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

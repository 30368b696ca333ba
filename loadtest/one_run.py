"""The process that does one run of ours for `--against`: `python -m loadtest.one_run BENCHMARK CELL
[SIZE]`, started in the checkout whose product is measured. Its last line is the run as JSON."""

import json
import sys
from collections.abc import Callable
from typing import Protocol

from loadtest.bench_broker import needed_consumers
from loadtest.broker_cells import parse_broker_cells
from loadtest.broker_measure import measure_server
from loadtest.consumers import make_consumers
from loadtest.crawl_cells import OURS as OUR_CRAWLER
from loadtest.crawl_cells import parse_crawl_cells
from loadtest.crawl_measure import measure_crawl
from loadtest.fetch_cells import OURS as OUR_FETCHER
from loadtest.fetch_cells import RUN_S as FETCH_RUN_S
from loadtest.fetch_cells import parse_fetch_cells
from loadtest.fetch_measure import measure_fetch
from loadtest.ingest_cells import RUN_S as INGEST_RUN_S
from loadtest.ingest_cells import parse_ingest_cells
from loadtest.ingest_measure import measure_ingest
from loadtest.origin import build_origin
from loadtest.poster import build_poster

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

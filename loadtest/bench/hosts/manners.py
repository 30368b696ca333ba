"""Fetch jobs with and without politeness: one worker service on this machine, a broker that has all
jobs before it starts, and the store of the polite way in SQLite files.

A run counts only if the origin saw every page exactly once, and each job has left one record. How
polite it was is shown.
"""

import tempfile
import time
from contextlib import closing
from pathlib import Path

import orjson

from devservers import BrokerServer
from devservers.processes import Child, wait_until
from loadtest.bench.crawl.cpu import usage_of
from loadtest.bench.crawl.figures import Visited, check_coverage, manners
from loadtest.bench.crawl.run import CONTACT, LOG_TAIL, START_TIMEOUT_S, roles_of
from loadtest.bench.hosts.cells import POLITE, HostsCell
from loadtest.bench.hosts.pushing import push_fetch_jobs
from loadtest.lab.faktory_wire import FaktoryWire
from loadtest.lab.service_view import is_service_ready
from loadtest.lib.errors import RunError
from loadtest.lib.worker_service import start_worker
from loadtest.web.oracle import coverage, wanted_urls
from loadtest.web.politeness import NS, judge
from loadtest.web.synthetic_web import SyntheticWeb
from manyhands.shared.settings import CrawlSettings

TIMEOUT_S = 900.0
LOOK_S = 0.2
# One that fetches, and one that parses.
CHILDREN = 2
RECORDS = "records.ndjson"


def measure_manners(cell: HostsCell, side: str) -> dict[str, float]:
    with (
        SyntheticWeb(cell.web) as web,
        BrokerServer() as broker,
        tempfile.TemporaryDirectory() as name,
        closing(FaktoryWire(broker.port)) as wire,
    ):
        perfect = web.perfect_crawl()
        push_fetch_jobs(broker.url, wanted_urls(perfect), CrawlSettings().shards)
        directory = Path(name)
        settings = web.worker_settings | _settings(cell, side, directory)
        worker = start_worker(broker.url, settings, directory / "worker.log")
        try:
            if not wait_until(lambda: is_service_ready(worker.pid, CHILDREN), START_TIMEOUT_S):
                raise RunError(f"the worker is not ready: {worker.log_text()[-LOG_TAIL:]}")
            roots, roles = (broker.pid, worker.pid), roles_of(broker.pid, worker.pid)
            before = usage_of(roots, roles)
            _wait(worker, web, wire, directory / RECORDS, cell.web.pages)
            used = usage_of(roots, roles).since(before)
            ended_ns = web.counts().now_ns
            _check_records(directory / RECORDS, cell.web.pages)
        finally:
            worker.kill_all()
        visits = web.ledger()
        covered = coverage(perfect, visits)
        check_coverage(covered)
        values = manners(judge(visits, delay_s=0.0), covered)
        if values["twice"]:
            raise RunError(f"{values['twice']:.0f} pages were fetched twice")
        visited = Visited.of(visits)
        return {
            **visited.values(),
            **values,
            **{f"us_{role}": s / visited.pages * 1e6 for role, s in used.by_role.items()},
            # Until the last record was written.
            "jobs_per_s": visited.pages / (ended_ns - visited.began_ns) * NS,
        }


def _settings(cell: HostsCell, side: str, directory: Path) -> dict[str, str]:
    return {
        "WORKER_HANDLERS": cell.handlers,
        "WORKER_STAGES": cell.stages,
        "CRAWL_STATE": str(directory / "state"),
        "SINKS": f"jsonl:{directory / RECORDS}",
        "FETCH_CONTACT": CONTACT,
        "FETCH_DELAY_S": "0",
        "FETCH_POLITE": str(side == POLITE).lower(),
    }


def _wait(worker: Child, web: SyntheticWeb, wire: FaktoryWire, records: Path, jobs: int) -> None:
    """Until the origin gave all pages, no job is in hand, and all records are there."""

    def is_over() -> bool:
        info = wire.info()
        if info.failures or info.dead or info.retries:
            raise RunError(f"jobs failed: {info}")
        is_idle = info.working == 0 and web.counts().pages >= jobs
        return is_idle and len(_ids(records)) >= jobs

    deadline = time.monotonic() + TIMEOUT_S
    while not is_over():
        if not worker.running() or time.monotonic() > deadline:
            raise RunError(
                f"{web.counts().pages} of {jobs} pages; the worker's log ends: "
                f"{worker.log_text()[-LOG_TAIL:]}"
            )
        time.sleep(LOOK_S)


def _check_records(path: Path, jobs: int) -> None:
    """Raises RunError unless each job has left one."""
    ids = _ids(path)
    if len(ids) != jobs or len(set(ids)) != jobs:
        raise RunError(f"{len(ids)} records of {len(set(ids))} jobs, of {jobs}")


def _ids(records: Path) -> list[str]:
    """The file may not be there yet, and its last line half written."""
    lines = records.read_bytes().splitlines(keepends=True) if records.exists() else []
    return [orjson.loads(line)["id"] for line in lines if line.endswith(b"\n")]

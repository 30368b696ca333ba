"""One measured run of `bench-hosts`: a web of its own, so many worker hosts, one crawl or one
load of fetch jobs.

A run on hosts counts only if the origin saw every page exactly once and nothing else, and no
violation of politeness, and if the store counts as many pages as the origin.
"""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import psycopg

from devservers.hosts import NetworkError
from devservers.processes import Child, StartError
from loadtest.bench.crawl.figures import manners as manners_values
from loadtest.bench.crawl.run import (
    CONTACT,
    LOG_TAIL,
    START_TIMEOUT_S,
    check_perfect,
    counters_of,
    start_crawl,
)
from loadtest.bench.hosts.cells import CRAWL, DISTANCE_MS, JOBS, MANNERS, WORKERS, HostsCell
from loadtest.bench.hosts.manners import measure_manners
from loadtest.bench.hosts.pushing import push_fetch_jobs
from loadtest.lib.errors import RunError
from loadtest.lib.runs import SideRun
from loadtest.web.oracle import coverage, wanted_urls
from loadtest.web.politeness import judge
from loadtest.web.server_host import ServerHost, network_of, server_host
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ControlStore, ShardReaders
from manyhands.shared.settings import CrawlSettings

SCHEMA = "schema=bench"
# After all are ready: what a start leaves behind is done.
SETTLE_S = 2.0
LOOK_S = 0.5
TIMEOUT_S = 300.0
ENDED = ("done", "failed", "disallowed", "skipped")
# Of a run, and not of the benchmark.
FAULTS = (RunError, StartError, NetworkError, OSError, psycopg.Error, subprocess.TimeoutExpired)
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class State:
    """What a worker on any host writes, seen from the server host."""

    control: ControlStore
    readers: ShardReaders
    shards: int

    def counters(self, crawl: int) -> dict[str, int]:
        return dict(counters_of(self.readers, self.control.layout(self.shards), crawl))

    def is_shared_out(self, owners: int) -> bool:
        owned = Counter(lease.owner for lease in self.control.leases() if lease.is_live)
        has_all = len(owned) == owners and owned.total() == self.shards
        return has_all and max(owned.values()) - min(owned.values()) <= 1


def measure_hosts(cell: HostsCell, side: str, round_number: int) -> SideRun:
    """Do one run and return its numbers, or its error."""
    blank = SideRun(cell.key, side, round_number)
    try:
        values = measure_manners(cell, side) if cell.kind == MANNERS else _on_hosts(cell)
    except FAULTS as error:
        return replace(blank, error=str(error) or type(error).__name__)
    return replace(blank, values=values)


def _on_hosts(cell: HostsCell) -> Values:
    with (
        network_of(WORKERS[: cell.hosts]) as network,
        server_host(network, cell.web, DISTANCE_MS) as servers,
        _opened_state(f"{servers.postgres.url}?{SCHEMA}") as state,
        _workers(cell, servers) as workers,
    ):
        _wait(workers, lambda: state.is_shared_out(cell.hosts), START_TIMEOUT_S, "are not ready")
        time.sleep(SETTLE_S)
        busy_s, began_s = _busy_s(), time.monotonic()
        crawl = _begin(cell, servers, state)
        is_over = partial(_is_over, state, crawl, cell.web.pages)
        _wait(workers, is_over, TIMEOUT_S, f"did not end: {state.counters(crawl)}")
        cores_busy = (_busy_s() - busy_s) / (time.monotonic() - began_s)
        return _values(servers, state.counters(crawl)) | {"cores_busy": cores_busy}


def _values(servers: ServerHost, counters: dict[str, int]) -> Values:
    web = servers.web
    visited = check_perfect(web, counters)
    covered = coverage(web.perfect_crawl(), web.ledger())
    return visited.values() | manners_values(judge(web.ledger(), delay_s=0.0), covered)


@contextmanager
def _opened_state(place: str) -> Iterator[State]:
    shards = CrawlSettings().shards
    with (
        closing(store_at((place,))) as store,
        closing(store.open_control()) as control,
        closing(store.readers()) as readers,
    ):
        control.layout(shards)
        yield State(control, readers, shards)


@contextmanager
def _workers(cell: HostsCell, servers: ServerHost) -> Iterator[list[Child]]:
    """Killed at the end: nobody reads the records of the jobs' pages."""
    settings = {
        "WORKER_HANDLERS": cell.handlers,
        "WORKER_STAGES": cell.stages,
        "CRAWL_STATE": f"{servers.postgres_url}?{SCHEMA}",
        "FETCH_CONTACT": CONTACT,
        "FETCH_DELAY_S": "0",
    }
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        workers = []
        for host in WORKERS[: cell.hosts]:
            sinks = {"SINKS": f"jsonl:{directory / host}.ndjson"} if cell.kind == JOBS else {}
            log = directory / f"{host}.log"
            workers.append(servers.start_worker(host, settings | sinks, log))
            opened.callback(workers[-1].kill_all)
        yield workers


def _begin(cell: HostsCell, servers: ServerHost, state: State) -> int:
    """The crawl, or that to which all fetch jobs belong."""
    if cell.kind == CRAWL:
        return start_crawl(state.control, state.shards, servers.web.seeds)
    urls = wanted_urls(servers.web.perfect_crawl())
    push_fetch_jobs(servers.broker.url, urls, state.shards)
    return NO_CRAWL


def _is_over(state: State, crawl: int, jobs: int) -> bool:
    if crawl == NO_CRAWL:
        counters = state.counters(crawl)
        return sum(counters[name] for name in ENDED) >= jobs
    found = state.control.crawl(crawl)
    if found.state.is_final and found.state is not CrawlState.COMPLETED:
        raise RunError(f"the crawl ended as {found.state}: {found.reason}")
    return found.state.is_final


def _wait(
    workers: Sequence[Child], is_so: Callable[[], bool], within_s: float, else_they: str
) -> None:
    ends_at = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > ends_at:
            logs = [worker.log_text()[-LOG_TAIL:] for worker in workers]
            raise RunError(f"the workers {else_they}; their logs end: {logs}")
        for worker in workers:
            if not worker.running():
                raise RunError(f"a worker ended; its log: {worker.log_text()[-LOG_TAIL:]}")
        time.sleep(LOOK_S)


def _busy_s() -> float:
    """Of all cores since the machine started."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq

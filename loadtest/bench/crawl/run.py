"""One crawl of the synthetic web by our own processes: a broker and a worker service, started for
it, and watched through the state store. No API: the crawl is written where the API would."""

import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devservers import BrokerServer
from devservers.processes import Child, wait_until
from loadtest.bench.crawl.cells import CrawlCell
from loadtest.bench.crawl.cpu import OTHER, Usage, peak_rss_bytes, usage_of
from loadtest.bench.crawl.figures import Look, Visited, check_counters, check_coverage
from loadtest.lab.service_view import ask, children_of
from loadtest.lib.errors import RunError
from loadtest.lib.processes import listening_port
from loadtest.lib.worker_service import start_worker
from loadtest.web.oracle import coverage
from loadtest.web.politeness import judge
from loadtest.web.synthetic_web import SyntheticWeb
from manyhands.shared.crawl.spec import CrawlSpec, PolitenessSpec, RecordSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Layout, NewCrawl
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ControlStore, ShardReaders
from manyhands.shared.settings import CrawlSettings
from manyhands.shared.urls import shard_of_url

CONTACT = "bench@example.org"
HANDLERS = "manyhands.worker.handlers.crawl,manyhands.worker.handlers.parse"
# Beyond the deepest page of any web.
MOST_DEPTH = 1000
START_TIMEOUT_S = 60.0
CRAWL_TIMEOUT_S = 600.0
DEFAULT_RECORD = RecordSpec()
# From the moment that all is ready: what a start leaves behind is done.
SETTLE_S = 1.0
LOOK_S = 0.1
LOG_TAIL = 500

# Something that goes on while a crawl is done, made with the role of each process by its pid.
Beside = Callable[[Mapping[int, str]], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Crawled:
    """A crawl that has completed."""

    counters: Mapping[str, int]
    # From its creation to its end.
    used: Usage
    peak_rss_bytes: int
    looks: list[Look]
    ended_at_s: float


@dataclass(frozen=True, slots=True)
class CrawlService:
    """Broker and workers, ready to crawl."""

    control: ControlStore
    readers: ShardReaders
    shards: int
    broker_pid: int
    workers: Child

    def crawl(
        self, web: SyntheticWeb, beside: Beside, records: RecordSpec = DEFAULT_RECORD
    ) -> Crawled:
        """All of it, from all front pages. Raises RunError if it does not complete."""
        roots = (self.broker_pid, self.workers.pid)
        roles = self._roles()
        with beside(roles):
            before = usage_of(roots, roles)
            crawl = start_crawl(self.control, self.shards, web.seeds, records)
            looks = self._watch(crawl)
            ended_at_s = time.monotonic()
            used = usage_of(roots, roles).since(before)
        return Crawled(self.counters(crawl), used, peak_rss_bytes(roots), looks, ended_at_s)

    def end(self) -> float:
        """As an operator ends it: by SIGTERM, so that sinks finish their files. The processor
        seconds that it took. Raises RunError unless all was orderly."""
        roles = self._roles()
        before = usage_of((self.broker_pid, self.workers.pid), roles)
        # Helpers of Python's own outlive the service: nobody is told what they used.
        before_s = before.total_s - before.by_role.get(OTHER, 0.0)
        ended_s = _used_by_ended_children_s()
        self.workers.end()
        if code := self.workers.wait_ended():
            raise RunError(f"the worker service ended with {code}")
        # Ours are told all that the service and its children have used since they started.
        after_s = usage_of((self.broker_pid,), roles).total_s
        return after_s + _used_by_ended_children_s() - ended_s - before_s

    def counters(self, crawl: int) -> Mapping[str, int]:
        return counters_of(self.readers, self.control.layout(self.shards), crawl)

    def _roles(self) -> dict[int, str]:
        return roles_of(self.broker_pid, self.workers.pid)

    def _watch(self, crawl: int) -> list[Look]:
        looks: list[Look] = []
        deadline_s = time.monotonic() + CRAWL_TIMEOUT_S
        while not (found := self.control.crawl(crawl)).state.is_final:
            if not self.workers.running():
                raise RunError(f"the worker service ended with {self.workers.wait_ended()}")
            if time.monotonic() > deadline_s:
                raise RunError(f"the crawl did not end: {dict(self.counters(crawl))}")
            figures = [member.figures for member in self.control.members()]
            looks.append(
                Look(
                    time.monotonic(),
                    sum(one.get("busy", 0) for one in figures),
                    sum(one.get("ready", 0) for one in figures),
                )
            )
            time.sleep(LOOK_S)
        if found.state is not CrawlState.COMPLETED:
            raise RunError(f"the crawl ended as {found.state}: {found.reason}")
        return looks


@contextmanager
def crawl_service(
    web: SyntheticWeb,
    cell: CrawlCell,
    directory: Path,
    settings: Mapping[str, str],
    state: str | None = None,
) -> Iterator[CrawlService]:
    """Started for this cell, and killed afterwards unless it has ended: without sinks nothing is
    gained by an orderly end. `settings` are more variables of all its processes; the state is in
    files of `directory`, unless `state` says where."""
    state = state or str(directory / "state")
    shards = CrawlSettings().shards
    env = {
        "WORKER_HANDLERS": HANDLERS,
        "WORKER_STAGES": cell.stages,
        "CRAWL_STATE": state,
        **web.worker_settings,
        **settings,
    }
    with (
        closing(store_at((state,))) as store,
        closing(store.open_control()) as control,
        closing(store.readers()) as readers,
        BrokerServer(settings=settings) as broker,
    ):
        control.layout(shards)
        workers = start_worker(broker.url, env, directory / "worker.log")
        try:
            wait_for_shards(control, workers, cell, shards)
            time.sleep(SETTLE_S)
            yield CrawlService(control, readers, shards, broker.pid, workers)
        except RunError as error:
            raise RunError(f"{error}; its log ends: {workers.log_text()[-LOG_TAIL:]}") from error
        finally:
            workers.kill_all()


def roles_of(broker_pid: int, supervisor_pid: int) -> dict[int, str]:
    """By pid, of a broker and a worker service."""
    port = listening_port(supervisor_pid)
    if port is None:
        raise RunError("the worker service does not listen")
    status = json.loads(ask(port, "/status"))
    children = {child["pid"]: child["process_type"] for child in status["service"]["children"]}
    return {broker_pid: "broker", supervisor_pid: "supervisor"} | children


def start_crawl(
    control: ControlStore, shards: int, seeds: Sequence[str], records: RecordSpec = DEFAULT_RECORD
) -> int:
    """Written where the API would; its number."""
    spec = CrawlSpec(
        contact=CONTACT,
        scope=ScopeSpec(max_depth=MOST_DEPTH),
        politeness=PolitenessSpec(delay_s=0.0),
        records=records,
    )
    crawl, _ = control.create_crawl(NewCrawl(spec), time.time())
    by_shard: dict[int, list[str]] = {}
    for url in seeds:
        by_shard.setdefault(shard_of_url(url, shards), []).append(url)
    control.add_seeds(crawl.id, by_shard)
    control.all_seeds_added(crawl.id)
    return crawl.id


def counters_of(readers: ShardReaders, layout: Layout, crawl: int) -> Mapping[str, int]:
    """Of all shards together."""
    totals: Counter[str] = Counter()
    for of_shard in readers.counters(layout, crawl):
        totals.update(of_shard)
    return totals


def check_perfect(web: SyntheticWeb, counters: Mapping[str, int]) -> Visited:
    """Raises RunError unless all was as a perfect crawl has it."""
    visits = web.ledger()
    check_coverage(coverage(web.perfect_crawl(), visits))
    verdict = judge(visits, delay_s=0.0)
    if not verdict.is_polite:
        raise RunError(f"not polite: {verdict}")
    check_counters(counters, web.counts())
    return Visited.of(visits)


def wait_for_shards(control: ControlStore, workers: Child, cell: CrawlCell, shards: int) -> None:
    """Until every child takes jobs, and those that crawl have the same share of all shards."""

    def is_ready() -> bool:
        owned = Counter(lease.owner for lease in control.leases() if lease.is_live)
        is_shared_out = len(owned) == cell.processes and owned.total() == shards
        return (
            is_shared_out
            and max(owned.values()) - min(owned.values()) <= 1
            and len(children_of(workers.pid)) == cell.children
        )

    if not wait_until(lambda: not workers.running() or is_ready(), START_TIMEOUT_S):
        raise RunError("the workers were not ready in time")
    if not workers.running():
        raise RunError(f"the worker service ended with {workers.wait_ended()}")


def _used_by_ended_children_s() -> float:
    """Of this process, for which it has waited; and of those for which they have."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

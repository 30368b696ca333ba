"""Crawls by real worker processes, of the synthetic web or of any other site, watched through the
state store."""

import contextlib
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from devservers import PostgresServer
from loadtest.web import faults
from loadtest.web.oracle import Coverage, coverage
from loadtest.web.politeness import Verdict, Visit, judge
from loadtest.web.synthetic_web import SyntheticWeb
from manyhands.shared.crawl.spec import (
    CrawlSpec,
    DiscoverySpec,
    LimitSpec,
    PolitenessSpec,
    ScopeSpec,
)
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Crawl, NewCrawl
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.sqlite.one_host import HostBeats
from manyhands.shared.settings import CrawlSettings
from manyhands.shared.urls import shard_of_url
from manyhands.worker.crawl.fetching.slots import UNSETTLED_PER_SLOT
from tests.support.waiting import eventually

CONTACT = "crawler@example.org"
HANDLERS = "manyhands.worker.handlers.crawl,manyhands.worker.handlers.parse"
ASKED_FOR = "asked for"


class Crawls:
    """The state of a test, a directory or what else CRAWL_STATE may be, and the crawls in it.
    `site` is what a worker must be told to reach the site."""

    def __init__(
        self, place: Path | str, seeds: Sequence[str], site: Mapping[str, str], shards: int = 16
    ) -> None:
        self.place = str(place)
        self.seeds = seeds
        self.site = site
        self.shards = shards
        self.store = store_at(CrawlSettings(state=self.place).state)  # type: ignore[arg-type]
        self.control = self.store.open_control()
        self.control.layout(shards)

    def close(self) -> None:
        self.control.close()
        self.store.close()

    def settings(self, stages: str = "crawl:1x100 parse:1x40", **more: str) -> dict[str, str]:
        """For `start_worker`."""
        return {
            "WORKER_HANDLERS": HANDLERS,
            "WORKER_STAGES": stages,
            "CRAWL_STATE": self.place,
            "CRAWL_SHARDS": str(self.shards),
            "CRAWL_LEASE_S": "2",
            "CRAWL_RETRY_S": "1",
            # The next owner waits so long where one that died may have requests open.
            "FETCH_TIMEOUT_S": "5",
            **self.site,
            **more,
        }

    def start(
        self,
        *,
        delay_s: float = 0.0,
        limits: LimitSpec | None = None,
        scope: ScopeSpec | None = None,
        discovery: DiscoverySpec | None = None,
        seeds: list[str] | None = None,
        handlers: str | None = None,
    ) -> int:
        """From all seeds, unless told otherwise; its number."""
        spec = CrawlSpec(
            contact=CONTACT,
            scope=scope or ScopeSpec(max_depth=1000),
            limits=limits or LimitSpec(),
            discovery=discovery or DiscoverySpec(),
            politeness=PolitenessSpec(delay_s=delay_s),
            handlers=handlers,
        )
        crawl, _ = self.control.create_crawl(NewCrawl(spec), time.time())
        by_shard: dict[int, list[str]] = {}
        for url in seeds or self.seeds:
            by_shard.setdefault(shard_of_url(url, self.shards), []).append(url)
        self.control.add_seeds(crawl.id, by_shard)
        self.control.all_seeds_added(crawl.id)
        return crawl.id

    def cancel(self, crawl: int) -> None:
        self.control.change_state(
            crawl,
            {CrawlState.RUNNING},
            CrawlState.STOPPING,
            time.time(),
            reason=ASKED_FOR,
            ends_as=CrawlState.CANCELLED,
        )

    def crawl(self, crawl: int) -> Crawl:
        return self.control.crawl(crawl)

    def counters(self, crawl: int) -> Mapping[str, int]:
        layout = self.control.layout(self.shards)
        totals: Counter[str] = Counter()
        for shard in range(layout.shards):
            reader = self.store.open_reader(layout.generation, shard)
            if reader is not None:
                totals.update(reader.counters(crawl))
                reader.close()
        return totals

    async def ended(self, crawl: int, within_s: float = 60.0) -> Crawl:
        try:
            await eventually(lambda: self.crawl(crawl).state.is_final, within_s)
        except AssertionError:
            raise AssertionError(
                f"the crawl has not ended: {self.crawl(crawl)}, {dict(self.counters(crawl))}"
            ) from None
        return self.crawl(crawl)

    async def has_pages(self, crawl: int, pages: int, within_s: float = 60.0) -> None:
        await eventually(lambda: self.counters(crawl)["pages"] >= pages, within_s)


class Crawling(Crawls):
    """Crawls of the synthetic web."""

    def __init__(self, place: Path | str, web: SyntheticWeb, shards: int = 16) -> None:
        super().__init__(place, web.seeds, web.worker_settings, shards)
        self.web = web

    def coverage(self) -> Coverage:
        return coverage(self.web.perfect_crawl(), self.web.ledger())

    def pages_twice(self) -> int:
        visits = Counter(visit.url for visit in self._pages())
        return sum(count - 1 for count in visits.values())

    def repeated(self) -> set[str]:
        """The pages that were answered more than once."""
        visits = Counter(visit.url for visit in self._pages())
        return {url for url, count in visits.items() if count > 1}

    def open_at(self, fault_ns: int) -> set[str]:
        return faults.open_at(self.web.ledger(), fault_ns)

    def answering_at(self, fault_ns: int) -> int:
        return faults.answering_at(self.web.ledger(), fault_ns)

    def repeats_at(self, faults_ns: Sequence[int]) -> Counter[int | None]:
        return faults.repeats_at(self.web.ledger(), faults_ns)

    def verdict(self, delay_s: float, *, may_repeat: bool = False) -> Verdict:
        """`may_repeat`: pages that were in flight when somebody died may be fetched again; they
        are counted by themselves."""
        verdict = judge(self.web.ledger(), delay_s=delay_s)
        if may_repeat:
            verdict.repeated.count = 0
        return verdict

    def _pages(self) -> Iterator[Visit]:
        return faults.pages_of(self.web.ledger())


@contextlib.contextmanager
def beating(directory: Path, boot: str) -> Iterator[None]:
    """A machine with another boot id that uses the directory."""
    beats, is_over = HostBeats(directory, boot), threading.Event()

    def run() -> None:
        while not is_over.wait(0.1):
            beats.beat()

    beats.beat()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def new_schema(postgres: PostgresServer) -> str:
    """A place for a state of its own."""
    return f"{postgres.url}?schema=test_{secrets.token_hex(8)}"


def process_of(member: str) -> int:
    """Its name is host, process and a number."""
    return int(member.rsplit(".", 2)[1])


def in_flight_at_most(slots: int) -> int:
    """Of a process that dies: what its slots fetch, and the answers on their way to broker and
    store."""
    return slots * (1 + UNSETTLED_PER_SLOT)


def is_complete(crawl: Crawl) -> bool:
    return crawl.state is CrawlState.COMPLETED

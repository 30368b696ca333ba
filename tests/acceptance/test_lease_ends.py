"""The end of a lease, seen from the sites: whatever becomes of an owner with requests open, a
domain is never asked twice at a time, and another owner fetches what is left."""

import asyncio
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from devservers import BrokerServer, PostgresServer, Toxiproxy
from devservers.toxiproxy import Proxy
from loadtest.web.oracle import coverage
from loadtest.web.politeness import NS, Visit
from loadtest.web.synthetic_web import Expected, SyntheticWeb, WebSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Member
from tests.acceptance.scale import CRAWL_HOSTS, CRAWL_KILL_EVERY_S, CRAWL_KILLS, CRAWL_PAGES
from tests.conftest import StartWorker
from tests.support.crawling import Crawling, in_flight_at_most, new_schema, process_of
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

pytestmark = pytest.mark.timeout(120)

# An answer takes much longer than a lease: the next owner comes while it is on its way.
LEASE_S = 1.5
ANSWER_S = 4.0
LONGEST_FETCH_S = 5.0
DELAY_S = 0.1
SLOTS = 50
# From the first moment of a fault that stops an owner to its end.
STOPPED_S = 4.0
FIRST, SECOND = "Manyhands/first", "Manyhands/second"
# Those that are alone in their domains, so that it does not take long.
HOSTS = [number for number in range(32) if number % 4 == 3]
WEB = WebSpec(hosts=32, pages=64, latency_ms=1000 * ANSWER_S)


@dataclass
class Hosts:
    """Two that crawl; the first reaches the database through a proxy."""

    crawling: Crawling
    crawl: int
    first: WorkerUnderTest
    proxy: Proxy

    def member(self) -> Member | None:
        """The first host's, once it has requests open."""
        members = self.crawling.control.members()
        pids = self.first.children
        found = [one for one in members if process_of(one.name) in pids and one.figures["busy"] > 1]
        return found[0] if len(members) == 2 and found else None

    async def cut_off_from_the_database(self, pid: int) -> None:
        """Until the other host has all shards."""
        # Bytes are swallowed, and nobody hears of it.
        for stream in ("upstream", "downstream"):
            self.proxy.add_toxic("timeout", stream, stream, timeout=0)
        await eventually(lambda: all(owner != pid for owner in self.owners()), 30)
        self.proxy.remove_toxics()

    def owners(self) -> list[int]:
        leases = self.crawling.control.leases()
        return [process_of(lease.owner) for lease in leases]

    async def stop_for_a_while(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)
        os.kill(pid, signal.SIGCONT)

    async def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    async def fault(self, what: Callable[[int], Awaitable[None]]) -> int:
        """When it came, by the origin's clock."""
        member = await eventually(self.member, 30)
        assert member is not None
        at_ns = self.crawling.web.counts().now_ns
        await what(process_of(member.name))
        return at_ns

    async def assert_completes(self, fault_ns: int) -> list[Visit]:
        """The visits of the first host that were open at the fault."""
        ended = await self.crawling.ended(self.crawl)
        assert ended.state is CrawlState.COMPLETED
        covered = coverage(wanted(self.crawling.web), self.crawling.web.ledger())
        assert covered.is_exact, str(covered)
        assert self.crawling.counters(self.crawl)["done"] == covered.wanted
        verdict = self.crawling.verdict(DELAY_S, may_repeat=True)
        assert verdict.is_polite, str(verdict)
        assert verdict.most_at_once_per_domain == 1
        assert self.crawling.repeated() <= self.crawling.open_at(fault_ns)
        visits = [one for one in self.crawling.web.ledger() if one.agent.startswith(FIRST)]
        still_open = [one for one in visits if one.arrived_ns <= fault_ns < one.ended_ns]
        assert still_open, "it was not the fault that this test is about"
        return still_open


def wanted(web: SyntheticWeb) -> dict[str, Expected]:
    fronts = tuple(web.seeds[number] for number in HOSTS)
    return {url: one for url, one in web.perfect_crawl().items() if url.startswith(fronts)}


@pytest.fixture
def hosts(
    postgres: PostgresServer,
    toxiproxy: Toxiproxy,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    web: SyntheticWeb,
) -> Iterator[Hosts]:
    schema = f"?schema=test_{secrets.token_hex(8)}"
    proxy = toxiproxy.proxy(postgres.port)
    crawling = Crawling(postgres.url + schema, web)
    crawl = crawling.start(delay_s=DELAY_S, seeds=[web.seeds[number] for number in HOSTS])
    settings = crawling.settings(
        "crawl:1x20 parse:1x10", CRAWL_LEASE_S=f"{LEASE_S}", FETCH_TIMEOUT_S=f"{LONGEST_FETCH_S}"
    )
    behind_proxy = {"CRAWL_STATE": postgres.url_at(proxy.port) + schema}
    first = start_worker(broker_process.url, **settings | behind_proxy, FETCH_USER_AGENT=FIRST)
    start_worker(broker_process.url, **settings, FETCH_USER_AGENT=SECOND)
    yield Hosts(crawling, crawl, first, proxy)
    crawling.close()


async def test_an_owner_that_is_stopped_for_longer_than_its_lease(hosts: Hosts) -> None:
    """Its sockets stay open meanwhile: the next owner waits until they are no use any more."""
    fault_ns = await hosts.fault(hosts.stop_for_a_while)

    still_open = await hosts.assert_completes(fault_ns)
    assert max(one.ended_ns for one in still_open) > fault_ns + LEASE_S * NS


async def test_a_host_that_is_cut_off_from_the_database_closes_its_sockets_in_time(
    hosts: Hosts,
) -> None:
    fault_ns = await hosts.fault(hosts.cut_off_from_the_database)
    until_ns = hosts.crawling.web.counts().now_ns

    await hosts.assert_completes(fault_ns)
    lease_ends_ns = fault_ns + LEASE_S * NS
    of_first = [one for one in hosts.crawling.web.ledger() if one.agent.startswith(FIRST)]
    assert [one for one in of_first if lease_ends_ns < one.ended_ns < until_ns] == []
    assert [one for one in of_first if one.status == 0], "nothing was closed"


@pytest.mark.proof
async def test_an_owner_that_is_killed_with_requests_open(hosts: Hosts) -> None:
    fault_ns = await hosts.fault(hosts.kill)

    await hosts.assert_completes(fault_ns)


@pytest.mark.proof
@pytest.mark.timeout(1200)
async def test_a_long_crawl_whose_owners_are_killed_again_and_again(
    postgres: PostgresServer,
    broker_process: BrokerServer,
    start_worker: StartWorker,
    record_property: Callable[[str, object], None],
) -> None:
    spec = WebSpec(hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=20)
    with SyntheticWeb(spec) as web:
        crawling = Crawling(new_schema(postgres), web)
        crawl = crawling.start(delay_s=DELAY_S)
        start_worker(
            broker_process.url,
            # Long enough not to be lost because the machine is busy.
            **crawling.settings(f"crawl:2x{SLOTS} parse:1x20", CRAWL_LEASE_S="5"),
        )
        await crawling.has_pages(crawl, CRAWL_PAGES // 20)
        faults_ns = []
        for _ in range(CRAWL_KILLS):
            members = await eventually(crawling.control.members, 30)
            os.kill(process_of(members[0].name), signal.SIGKILL)
            faults_ns.append(web.counts().now_ns)
            await asyncio.sleep(CRAWL_KILL_EVERY_S)

        ended = await crawling.ended(crawl, 900)

        assert ended.state is CrawlState.COMPLETED
        assert crawling.coverage().is_exact, str(crawling.coverage())
        verdict = crawling.verdict(DELAY_S, may_repeat=True)
        assert verdict.is_polite, str(verdict)
        assert verdict.most_at_once_per_domain == 1
        assert crawling.counters(crawl)["done"] == crawling.coverage().wanted
        repeats = crawling.repeats_at(faults_ns)
        record_property("pages", crawling.coverage().wanted)
        record_property("owners killed", CRAWL_KILLS)
        record_property("fetched twice", repeats.total())
        record_property("most at one fault", max(repeats.values(), default=0))
        record_property("open at the faults", sum(map(crawling.answering_at, faults_ns)))
        assert repeats[None] == 0
        assert max(repeats.values()) <= in_flight_at_most(SLOTS)
        crawling.close()

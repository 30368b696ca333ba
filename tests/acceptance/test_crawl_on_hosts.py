"""Workers on hosts of their own: the web, the broker and the database are on one, all of them reach
each other over a network only. One ledger has the requests of all hosts, and decides."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers import PostgresStandby, SettableClock
from devservers.api import ApiServer
from devservers.faketime import libfaketime
from devservers.hosts import Network
from loadtest.web.politeness import NS
from loadtest.web.server_host import ServerHost, network_of, server_host
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import DomainRule
from manyhands.shared.urls import parse_url, registrable_domain
from tests.acceptance.scale import (
    CRAWL_HOSTS,
    CRAWL_KILL_EVERY_S,
    CRAWL_PAGES,
    HOST_JOBS,
    HOSTS_ANSWER_MS,
    HOSTS_KILLS,
    IS_PROOF,
    ORDERS_KILLS,
)
from tests.conftest import StartWorker
from tests.support.broker_state import BrokerState
from tests.support.crawling import CONTACT, Crawling, process_of
from tests.support.failover import assert_said_once, fail_over
from tests.support.hosts import need_hosts
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

ENDED_WITHIN_S = 900 if IS_PROOF else 120
pytestmark = pytest.mark.timeout(120 + ENDED_WITHIN_S)

WORKER_HOSTS = ["worker1", "worker2", "worker3"]
SLOTS = 50
DELAY_S = 0.1
# In a proof as long as the default, and not lost because the machine is busy.
LEASE_S = 5.0 if IS_PROOF else 2.0
# Longer than the machine may be busy: a lease that is lost would fetch pages again.
LONG_LEASE_S = 20.0
TAKEN_OVER_WITHIN_S = LEASE_S + 2.0
AWAY_S = 2.0
# Longer than all that the next owners wait for.
CUT_OFF_S = 8.0
# An order to a domain: read by its owner, and requests that were under way have arrived.
OBEYED_WITHIN_S = 3.0
CLOCKS_AHEAD_S = dict(zip(WORKER_HOSTS, (60, -60, 0), strict=True))
NOT_ALLOWED = "not allowed by robots.txt"
JOBS_DELAY_S = 0.04
JOBS_SLOTS = 200
# Of HOST_JOBS.
REFUSED_JOBS = 20
# With this seed the first host's robots.txt forbids the folder /private/ and nothing else.
JOBS_WEB = WebSpec(
    hosts=1,
    pages=1,
    big_host_pages=HOST_JOBS,
    profile="web",
    seed=1,
    size_bytes=2000,
    size_spread=0,
    is_on_network=True,
)

Record = Callable[[str, object], None]


@pytest.fixture
def network() -> Iterator[Network]:
    need_hosts()
    with network_of(WORKER_HOSTS) as network:
        yield network


@dataclass
class Fleet:
    """The server host, on which the test itself runs, and the workers: host → its service."""

    servers: ServerHost
    start_worker: StartWorker
    crawling: Crawling
    # What the workers, who are elsewhere, know of the web and of the state.
    settings: dict[str, str]
    workers: dict[str, WorkerUnderTest]
    standby: PostgresStandby | None

    @property
    def network(self) -> Network:
        return self.servers.network

    @property
    def web(self) -> SyntheticWeb:
        return self.crawling.web

    def start(self, host: str, **more: str) -> None:
        self.workers[host] = self.network.on(
            host, lambda: self.start_worker(self.servers.broker_url, **self.settings | more)
        )

    def owns(self, host: str) -> int:
        """How many shards."""
        pids = self.workers[host].children
        return sum(process_of(one.owner) in pids for one in self.crawling.control.leases())

    async def own_all(self) -> None:
        await eventually(lambda: all(map(self.owns, self.workers)), 60, "a host owns no shard")

    async def lose(self, host: str, fault: Callable[[str], None]) -> tuple[int, float]:
        """When the fault came, by the origin's clock, and after how many seconds others had all
        shards of the host."""
        pids = self.workers[host].children
        at_ns, began = self.web.counts().now_ns, time.monotonic()
        fault(host)

        def are_elsewhere() -> bool:
            leases = self.crawling.control.leases()
            return len(leases) == self.crawling.shards and not any(
                process_of(lease.owner) in pids for lease in leases
            )

        await eventually(are_elsewhere, 30, f"the shards of {host} have no other owner")
        return at_ns, time.monotonic() - began

    def kill(self, host: str) -> None:
        self.workers[host].signal(signal.SIGKILL)


@pytest.fixture
def start_fleet(network: Network, start_worker: StartWorker) -> Iterator[Callable[..., Fleet]]:
    """With its web, and a standby of its database if there is to be one."""
    with ExitStack() as opened:

        def start(spec: WebSpec, *, has_standby: bool = False) -> Fleet:
            servers = opened.enter_context(server_host(network, spec))
            place, standby = servers.postgres.url, None
            if has_standby:
                standby = opened.enter_context(PostgresStandby(servers.postgres))
                place = standby.url_of_both
            crawling = Crawling(place, servers.web)
            opened.callback(crawling.close)
            settings = crawling.settings(f"crawl:1x{SLOTS} parse:1x20", CRAWL_LEASE_S=f"{LEASE_S}")
            return Fleet(
                servers, start_worker, crawling, servers.from_elsewhere(settings), {}, standby
            )

        yield start


async def assert_whole_and_polite(fleet: Fleet, crawl: int) -> None:
    crawling = fleet.crawling
    ended = await crawling.ended(crawl, ENDED_WITHIN_S)
    assert ended.state is CrawlState.COMPLETED
    covered = crawling.coverage()
    assert covered.is_exact, str(covered)
    assert crawling.counters(crawl)["done"] == covered.wanted
    verdict = crawling.verdict(DELAY_S, may_repeat=True)
    assert verdict.is_polite, str(verdict)
    assert verdict.most_at_once_per_domain == 1


async def test_three_hosts_share_a_crawl(
    start_fleet: Callable[..., Fleet], record_property: Record
) -> None:
    fleet = start_fleet(
        WebSpec(hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=20, is_on_network=True)
    )
    crawling = fleet.crawling
    for host in WORKER_HOSTS:
        fleet.start(host, FETCH_USER_AGENT=f"Manyhands/{host}", CRAWL_LEASE_S=f"{LONG_LEASE_S}")
    await fleet.own_all()
    crawl = crawling.start(delay_s=DELAY_S)

    await assert_whole_and_polite(fleet, crawl)

    assert crawling.pages_twice() == 0
    agents = {visit.agent for visit in fleet.web.ledger()}
    assert len(agents) == len(WORKER_HOSTS), agents
    record_property("pages", crawling.coverage().wanted)
    record_property("hosts", len(WORKER_HOSTS))


@pytest.mark.proof
@pytest.mark.alone
@pytest.mark.timeout(600 + ENDED_WITHIN_S)
async def test_a_crawl_while_hosts_are_cut_off_and_hosts_broker_and_database_are_killed(
    start_fleet: Callable[..., Fleet], record_property: Record
) -> None:
    fleet = start_fleet(
        WebSpec(
            hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=HOSTS_ANSWER_MS, is_on_network=True
        )
    )
    crawling, network, faults = fleet.crawling, fleet.network, []
    for host in WORKER_HOSTS:
        fleet.start(host)
    await fleet.own_all()
    crawl = crawling.start(delay_s=DELAY_S)
    await crawling.has_pages(crawl, CRAWL_PAGES // 20, ENDED_WITHIN_S)

    began = time.monotonic()
    faults.append(await fleet.lose(WORKER_HOSTS[0], network.cut_off))
    await asyncio.sleep(max(0.0, began + 2 * LEASE_S - time.monotonic()))
    network.plug_in_again(WORKER_HOSTS[0])
    await fleet.own_all()
    for number in range(HOSTS_KILLS):
        host = WORKER_HOSTS[number % len(WORKER_HOSTS)]
        faults.append(await fleet.lose(host, fleet.kill))
        fleet.start(host)
        await asyncio.sleep(max(0.0, CRAWL_KILL_EVERY_S - faults[-1][1]))
    await fleet.own_all()
    faults_ns = [at_ns for at_ns, _ in faults]
    for server in (fleet.servers.broker, fleet.servers.postgres):
        faults_ns.append(fleet.web.counts().now_ns)
        server.kill()
        await asyncio.sleep(AWAY_S)
        server.start()
    await fleet.own_all()
    assert crawling.crawl(crawl).state is CrawlState.RUNNING, "it was over before the faults"

    await assert_whole_and_polite(fleet, crawl)

    repeats = crawling.repeats_at(faults_ns)
    open_at = {at_ns: len(crawling.open_at(at_ns)) for at_ns in faults_ns}
    takeovers_s = [round(after_s, 2) for _, after_s in faults]
    record_property("pages", crawling.coverage().wanted)
    record_property("hosts killed", HOSTS_KILLS)
    record_property("fetched twice", repeats.total())
    record_property("most at one fault", max(repeats.values(), default=0))
    record_property("open at the faults", sum(map(crawling.answering_at, faults_ns)))
    record_property("takeovers, s", str(takeovers_s))
    assert repeats[None] == 0
    assert all(repeats[at_ns] <= number for at_ns, number in open_at.items()), (repeats, open_at)
    assert max(takeovers_s) <= TAKEN_OVER_WITHIN_S, takeovers_s


@pytest.mark.proof
async def test_what_a_host_could_not_send_is_not_sent_when_the_network_is_back(
    start_fleet: Callable[..., Fleet],
) -> None:
    """Its kernel would try for long, and others fetch from the site by then."""
    fleet = start_fleet(WebSpec(hosts=32, pages=1600, latency_ms=20, is_on_network=True))
    crawling, network = fleet.crawling, fleet.network
    cut_off, other = WORKER_HOSTS[:2]
    for host in (cut_off, other):
        fleet.start(host, FETCH_USER_AGENT=f"Manyhands/{host}", FETCH_TIMEOUT_S="2")
    await fleet.own_all()
    crawl = crawling.start(delay_s=DELAY_S)
    await crawling.has_pages(crawl, 200)

    cut_ns, _ = await fleet.lose(cut_off, network.cut_off)
    pages = crawling.counters(crawl)["pages"]
    await asyncio.sleep(CUT_OFF_S)
    assert crawling.counters(crawl)["pages"] > pages
    back_ns = fleet.web.counts().now_ns
    network.plug_in_again(cut_off)
    await eventually(lambda: fleet.owns(cut_off), 60)
    owns_ns = fleet.web.counts().now_ns

    await assert_whole_and_polite(fleet, crawl)
    visits = [one for one in fleet.web.ledger() if one.agent.startswith(f"Manyhands/{cut_off}")]
    assert [one for one in visits if one.arrived_ns < cut_ns]
    late = [one for one in visits if back_ns < one.arrived_ns < owns_ns - NS]
    assert late == []


@pytest.mark.proof
@pytest.mark.faketime
async def test_hosts_whose_clocks_are_a_minute_off_share_a_crawl(
    start_fleet: Callable[..., Fleet], record_property: Record, tmp_path: Path
) -> None:
    """One is ahead, one behind; the shards of the first go to the others."""
    # From its hosts nothing can be fetched.
    libfaketime()
    fleet = start_fleet(
        WebSpec(hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=20, is_on_network=True)
    )
    crawling = fleet.crawling
    began = datetime.now(UTC)
    for host, ahead_s in CLOCKS_AHEAD_S.items():
        clock = SettableClock(tmp_path / f"clock-{host}")
        clock.step(ahead_s)
        # Nobody waits for fetches of one that gives its shards back.
        more = {"CRAWL_LEASE_S": f"{LONG_LEASE_S}", "FETCH_TIMEOUT_S": "300"}
        fleet.start(host, FETCH_USER_AGENT=f"Manyhands/{host}", **more, **clock.settings)
    await fleet.own_all()
    for host, ahead_s in CLOCKS_AHEAD_S.items():
        said = datetime.fromisoformat(fleet.workers[host].logged[0]["timestamp"])
        assert (said - began).total_seconds() == pytest.approx(ahead_s, abs=29)
    crawl = crawling.start(delay_s=DELAY_S)
    await crawling.has_pages(crawl, CRAWL_PAGES // 3, ENDED_WITHIN_S)
    first = fleet.workers[WORKER_HOSTS[0]]
    first.terminate()

    await assert_whole_and_polite(fleet, crawl)

    assert await first.ended() == 0, first.stderr
    assert crawling.pages_twice() == 0
    record_property("pages", crawling.coverage().wanted)


@pytest.mark.proof
async def test_hosts_go_on_with_the_standby_of_their_database(
    start_fleet: Callable[..., Fleet], record_property: Record
) -> None:
    spec = WebSpec(
        hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=HOSTS_ANSWER_MS, is_on_network=True
    )
    fleet = start_fleet(spec, has_standby=True)
    assert fleet.standby is not None
    crawling, workers = fleet.crawling, fleet.workers.values()
    for host in WORKER_HOSTS:
        fleet.start(host, CRAWL_LEASE_S=f"{LONG_LEASE_S}")
    await fleet.own_all()
    crawl = crawling.start(delay_s=DELAY_S)
    await crawling.has_pages(crawl, CRAWL_PAGES // 20, ENDED_WITHIN_S)
    fault_ns = fleet.web.counts().now_ns
    await fail_over(fleet.servers.postgres, fleet.standby, workers, 1)

    await assert_whole_and_polite(fleet, crawl)

    for worker in workers:
        assert_said_once(worker, 1)
    repeats, were_open = crawling.repeats_at([fault_ns]), len(crawling.open_at(fault_ns))
    record_property("pages", crawling.coverage().wanted)
    record_property("fetched twice", repeats.total())
    record_property("open at the fault", were_open)
    assert repeats[None] == 0
    assert repeats[fault_ns] <= were_open


async def test_the_jobs_of_one_host_are_fetched_one_at_a_time_by_two_hosts(
    start_fleet: Callable[..., Fleet], record_property: Record, tmp_path: Path
) -> None:
    """Through the API, one POST each; all slots of both hosts are free for them."""
    fleet = start_fleet(JOBS_WEB)
    crawling, web = fleet.crawling, fleet.web
    site = web.seeds[0]
    ends = {one.url: one.ends for one in web.perfect_crawl().values() if one.kind == "page"}
    pages = [url for url, end in ends.items() if end == "done" and url.startswith(site)]
    pages = pages[: HOST_JOBS - REFUSED_JOBS]
    refused = [f"{site}private/{number}" for number in range(REFUSED_JOBS)]
    assert len(pages) + len(refused) == HOST_JOBS
    for host in WORKER_HOSTS[:2]:
        fleet.start(
            host,
            WORKER_HANDLERS="manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse",
            WORKER_STAGES=f"fetch:1x{JOBS_SLOTS} parse:1x20",
            FETCH_DELAY_S=str(JOBS_DELAY_S),
            FETCH_CONTACT=CONTACT,
            SINKS=f"jsonl:{tmp_path / host}",
        )
    await fleet.own_all()
    settings = {"CRAWL_STATE": crawling.place, "API_KEYS": "none"}
    with (
        ApiServer(fleet.servers.broker, settings=settings) as api,
        httpx.Client(base_url=api.url, trust_env=False) as client,
    ):

        def post(url: str) -> str:
            answer = client.post("/jobs/fetch", json={"url": url})
            assert answer.status_code == 202, answer.text
            return str(answer.json()["jid"])

        def state(jid: str) -> dict[str, Any]:
            found: dict[str, Any] = client.get(f"/jobs/{jid}").json()
            return found

        # The folder's last: by then the hosts are busy with the pages.
        jids = {url: post(url) for url in [*pages, *refused]}
        dead = BrokerState(fleet.servers.broker)
        await eventually(lambda: len(dead.dead) == REFUSED_JOBS, ENDED_WITHIN_S)
        await eventually(lambda: crawling.counters(NO_CRAWL)["done"] == len(pages), ENDED_WITHIN_S)
        for url in refused:
            told = state(jids[url])
            assert (told["state"], told["reason"]) == ("dead", NOT_ALLOWED)
    assert {job["failure"]["message"] for job in dead.dead} == {NOT_ALLOWED}
    assert {job["custom"]["mh"]["id"] for job in dead.dead} == {jids[url] for url in refused}
    asked = [one.url for one in web.ledger() if not one.is_robots]
    assert sorted(asked) == sorted(pages)
    verdict = crawling.verdict(JOBS_DELAY_S)
    assert verdict.is_polite, str(verdict)
    assert verdict.most_at_once_per_domain == 1
    record_property("jobs of one host", HOST_JOBS)
    record_property("least gap, s", verdict.least_gap_s)


async def test_orders_to_domains_hold_while_their_owners_are_killed_and_can_be_undone(
    start_fleet: Callable[..., Fleet], record_property: Record
) -> None:
    fleet = start_fleet(
        WebSpec(
            hosts=CRAWL_HOSTS, pages=CRAWL_PAGES, latency_ms=HOSTS_ANSWER_MS, is_on_network=True
        )
    )
    crawling, control = fleet.crawling, fleet.crawling.control
    hosts = WORKER_HOSTS[:2]
    for host in hosts:
        fleet.start(host)
    await fleet.own_all()
    domains = Counter(registrable_domain(parse_url(url).host) for url in fleet.web.perfect_crawl())
    held = [name for name, _ in domains.most_common(3)]
    paused, blocked, delayed = held
    crawl = crawling.start(delay_s=DELAY_S)
    await crawling.has_pages(crawl, CRAWL_PAGES // 20, ENDED_WITHIN_S)

    control.set_rule(DomainRule(crawl, paused, is_paused=True))
    control.set_rule(DomainRule(None, blocked, is_blocked=True))
    control.set_rule(DomainRule(None, delayed, delay_s=ENDED_WITHIN_S))
    ordered_ns = fleet.web.counts().now_ns
    await asyncio.sleep(OBEYED_WITHIN_S)
    for number in range(ORDERS_KILLS):
        await fleet.lose(hosts[number % 2], fleet.kill)
        fleet.start(hosts[number % 2])
        await fleet.own_all()
    assert crawling.crawl(crawl).state is CrawlState.RUNNING
    undone_ns = fleet.web.counts().now_ns
    for name in held:
        control.set_rule(DomainRule(crawl, name))
        control.set_rule(DomainRule(None, name))

    await assert_whole_and_polite(fleet, crawl)

    visits = [one for one in fleet.web.ledger() if registrable_domain(one.host) in held]
    obeyed_ns = ordered_ns + round(OBEYED_WITHIN_S * NS)
    late = [one.url for one in visits if obeyed_ns < one.arrived_ns < undone_ns]
    assert late == []
    after = Counter(registrable_domain(one.host) for one in visits if one.arrived_ns > undone_ns)
    assert set(after) == set(held), "an order came too late to hold anything"
    record_property("pages", crawling.coverage().wanted)
    record_property("kills", ORDERS_KILLS)
    record_property("held, s", round((undone_ns - obeyed_ns) / NS, 1))
    record_property("requests after", after.total())

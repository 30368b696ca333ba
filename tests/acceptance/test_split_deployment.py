"""What the compose files say, run on hosts of their own: Faktory and the API on one, a worker on
each of two others, 25 ms each way between. Commands, users, limits and environment are read from
the files, so that they cannot drift from what is tested. A ledger of every job decides."""

import asyncio
import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from devservers import PostgresServer
from devservers.build import build
from devservers.hosts import Network
from devservers.processes import Child
from loadtest.lab.measure import Sample, steady_rate
from manyhands.api.keys import new_key
from manyhands.shared.crawl.claim import is_mark_queue
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from tests.acceptance.scale import IS_PROOF, SPLIT_JOBS, SPLIT_ROUND_TRIPS_MS
from tests.support.compose import ALL_IN_ONE, SERVER, WORKER, Service, services
from tests.support.contained import Contained
from tests.support.hosts import need_hosts
from tests.support.ledger import LEDGER_VARIABLE, LedgerTail
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

SERVER_HOST = "server"
WORKER_HOSTS = ["worker1", "worker2"]
# Jobs of a request's chunk.
CHUNK = 1000
UP_WITHIN_S = 60.0
# Slow enough for a machine that does several other tests at the time.
SLOWEST_JOBS_PER_S = 150
DONE_WITHIN_S = 30 + SPLIT_JOBS / SLOWEST_JOBS_PER_S
SAMPLE_S = 0.05
# A real Faktory sleeps so long over the FETCH of a paused queue, and does not see a RESUME.
PAUSED_FETCH_S = 2.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120 + len(SPLIT_ROUND_TRIPS_MS) * (DONE_WITHIN_S + 2 * UP_WITHIN_S)),
]

Record = Callable[[str, object], None]


@pytest.fixture
def network() -> Iterator[Network]:
    need_hosts()
    with Network([SERVER_HOST, *WORKER_HOSTS]) as network:
        yield network


@pytest.fixture
def password() -> str:
    return token_hex(32)


@pytest.fixture
def contained(network: Network, tmp_path: Path, password: str) -> Iterator[Contained]:
    names = {
        "localhost": "127.0.0.1",
        "faktory": network.address(SERVER_HOST),
        # What `extra_hosts` of the worker's file says.
        "manyhands-server": network.address(Network.switch),
    }
    # The database of this test has its own, in its URL.
    secrets = {"faktory-password": password, "postgres-password": "unused"}
    contained = Contained(network, tmp_path, names, secrets)
    yield contained
    contained.stop_all()


@dataclass
class Deployment:
    """The server host, up; workers come and go."""

    network: Network
    contained: Contained
    api_url: str
    api_key: str
    faktory: RawClient
    ledger: Path
    tail: LedgerTail

    @property
    def done(self) -> int:
        return int(self.faktory.info()["faktory"]["total_processed"])

    def post(
        self, path: str, content: Iterator[bytes] | bytes, content_type: str
    ) -> httpx.Response:
        """From a host that is none of the three."""
        return self.network.on(
            Network.switch,
            lambda: httpx.post(
                self.api_url + path,
                content=content,
                headers={"Content-Type": content_type, "X-API-Key": self.api_key},
                timeout=DONE_WITHIN_S,
                trust_env=False,
            ),
        )


async def start_server(
    network: Network, contained: Contained, server: dict[str, Service], password: str, state: str
) -> RawClient:
    """Faktory and the API as a compose file has them; a connection to Faktory. Its `state` of
    crawls, where the file has a PostgreSQL for it."""
    url = f"tcp://:{password}@127.0.0.1:7419"
    faktory = contained.start(server["faktory"], SERVER_HOST)

    def greets() -> bool:
        assert faktory.running(), faktory.log_text()
        try:
            network.on(SERVER_HOST, lambda: RawClient(url).close())
        except OSError:
            return False
        return True

    await eventually(greets, UP_WITHIN_S, "Faktory does not greet")
    api = server["api-service"]
    changes = {"CRAWL_STATE": state} if state else {}
    child = contained.start(api, SERVER_HOST, **changes)
    await until_healthy(contained, [(api, SERVER_HOST, child)])
    return network.on(SERVER_HOST, lambda: RawClient(url))


def start_worker(contained: Contained, service: Service, host: str, ledger: Path) -> Child:
    """With the file's own settings, but for the handler: this one keeps the ledger."""
    handlers = {"WORKER_HANDLERS": "tests.support.deployed_handlers"}
    return contained.start(service, host, **handlers, **{LEDGER_VARIABLE: str(ledger)})


async def until_healthy(contained: Contained, started: list[tuple[Service, str, Child]]) -> None:
    for service, host, child in started:

        def is_healthy(service: Service = service, host: str = host, child: Child = child) -> bool:
            assert child.running(), child.log_text()
            return contained.is_healthy(service, host)

        await eventually(is_healthy, UP_WITHIN_S, f"{service.name} on {host} is not healthy")


@pytest.fixture
def state(network: Network) -> Iterator[str]:
    """A PostgreSQL on the server host."""
    with network.inside(SERVER_HOST), PostgresServer() as server:
        yield server.url


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A file that another user may write to."""
    ledger = tmp_path / "ledger"
    ledger.touch()
    ledger.chmod(0o666)
    return ledger


@contextmanager
def relay(network: Network, rtt_ms: int, log: Path) -> Iterator[None]:
    """The way from the workers to the server: they know only the switch's address."""
    address = network.address(Network.switch)
    child = Child(
        [
            *("ip", "netns", "exec", network.namespace(Network.switch)),
            *(build() / "relay", "-listen", f"{address}:7419", "-rtt", f"{rtt_ms}ms"),
            *("-to", f"{network.address(SERVER_HOST)}:7419"),
        ],
        log=log,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    try:
        child.wait_ready("relay", lambda: "\n" in child.log_text())
        yield
    finally:
        child.end()


def lines(numbers: range) -> Iterator[bytes]:
    for start in range(0, len(numbers), CHUNK):
        yield b"".join(
            b'{"jobtype":"add","args":{"a":%d,"b":2}}\n' % number
            for number in numbers[start : start + CHUNK]
        )


async def do_one(deployment: Deployment, number: int) -> None:
    """By a single POST; afterwards Faktory knows the queue."""
    before = deployment.done
    answer = deployment.post("/jobs/add", b'{"a": %d, "b": 2}' % number, "text/plain")
    assert answer.status_code == 202, answer.text
    await eventually(lambda: deployment.done > before, 20, "the first job was not done")


async def work_off(deployment: Deployment, numbers: range) -> list[Sample]:
    """Queue the jobs while their queue is paused, then let all of them loose. A few FETCHes that
    were waiting already get theirs at once."""
    faktory, before = deployment.faktory, deployment.done
    assert faktory.call("QUEUE PAUSE default") == "OK"
    answer = deployment.post("/jobs", lines(numbers), "application/x-ndjson")
    assert answer.status_code == 202, answer.text
    assert answer.json() == {"accepted": len(numbers), "refused": 0, "errors": []}
    assert faktory.call("QUEUE RESUME default") == "OK"
    samples: list[Sample] = []
    deadline = time.monotonic() + DONE_WITHIN_S
    while not samples or samples[-1].processed < len(numbers):
        assert time.monotonic() < deadline, f"{samples[-1]} of {len(numbers)} jobs"
        await asyncio.sleep(SAMPLE_S)
        state = faktory.info()["faktory"]
        done = state["total_processed"] - before
        samples.append(Sample(time.monotonic(), done, state["total_enqueued"], 0, 0))
    return samples


def assert_all_done_once(deployment: Deployment, numbers: range, workers: list[Child]) -> None:
    """By the ledger, whose notes are `service number`; and nothing is left at the server."""
    noted = [entry.note.split() for entry in deployment.tail.read()]
    runs = Counter(int(number) for _, number in noted if int(number) in numbers)
    assert set(runs) == set(numbers), f"{len(set(numbers) - set(runs))} jobs were lost"
    assert set(runs.values()) == {1}, "some ran twice, although nothing broke"
    here = {int(service) for service, number in noted if int(number) in numbers}
    assert here == {worker.pid for worker in workers}, "a worker had nothing to do"
    state = deployment.faktory.info()["faktory"]
    assert {
        name for name, size in state["queues"].items() if size and not is_mark_queue(name)
    } == set()
    assert {name: state["sets"][name] for name in ("working", "retries", "dead")} == {
        "working": 0,
        "retries": 0,
        "dead": 0,
    }


async def stop_workers(contained: Contained, service: Service, workers: list[Child]) -> None:
    """As `docker compose down` does: SIGTERM, and no longer than the grace."""
    for worker in workers:
        os.kill(worker.pid, signal.SIGTERM)
    for worker in workers:
        await eventually(
            lambda worker=worker: not worker.running(),  # type: ignore[misc]
            service.stop_grace_s,
            "a worker was not done with stopping",
        )
        assert worker.wait_ended() == 0, worker.log_text()
        assert "Traceback" not in worker.log_text()
        contained.stop(worker)


async def run_at(
    deployment: Deployment, worker: Service, rtt_ms: int, numbers: range, log: Path
) -> tuple[float, int]:
    """One run: two workers come, all jobs are done, the workers go. Jobs/s (in the long run only),
    and how many connections Faktory had."""
    with relay(deployment.network, rtt_ms, log):
        children = [
            start_worker(deployment.contained, worker, host, deployment.ledger)
            for host in WORKER_HOSTS
        ]
        started = [(worker, *pair) for pair in zip(WORKER_HOSTS, children, strict=True)]
        await until_healthy(deployment.contained, started)
        await do_one(deployment, numbers[0])
        samples = await work_off(deployment, numbers[1:])
        assert_all_done_once(deployment, numbers, children)
        connections = int(deployment.faktory.info()["server"]["connections"])
        await stop_workers(deployment.contained, worker, children)
    if not IS_PROOF:
        return 0.0, connections
    rate, _ = steady_rate(
        samples, len(numbers), not_before_s=samples[0].at_s + PAUSED_FETCH_S, ends_when_empty=False
    )
    return rate, connections


@pytest.mark.alone
async def test_two_worker_hosts_at_50_ms_do_every_job_that_the_api_took(
    network: Network,
    contained: Contained,
    ledger: Path,
    password: str,
    state: str,
    tmp_path: Path,
    record_property: Record,
) -> None:
    secret, entry = new_key("operator", "ingest+read")
    server = services(SERVER, API_KEYS=entry)
    worker = services(WORKER, FAKTORY_SERVER_IP=network.address(Network.switch))
    rates: dict[int, list[float]] = {}
    with await start_server(network, contained, server, password, state) as faktory:
        url = f"http://{network.address(SERVER_HOST)}:3000"
        deployment = Deployment(
            network, contained, url, secret, faktory, ledger, LedgerTail(ledger)
        )
        for number, rtt_ms in enumerate(SPLIT_ROUND_TRIPS_MS):
            numbers = range(number * SPLIT_JOBS, (number + 1) * SPLIT_JOBS)
            log = tmp_path / f"relay-{number}.log"
            rate, connections = await run_at(
                deployment, worker["worker-service"], rtt_ms, numbers, log
            )
            rates.setdefault(rtt_ms, []).append(rate)
            assert connections < FLEET_CONNECTIONS
        assert prometheus_reads(deployment)
    record_property("jobs", SPLIT_JOBS * len(SPLIT_ROUND_TRIPS_MS))
    record_property("lost", 0)
    record_rates(rates, record_property)


def record_rates(rates: dict[int, list[float]], record_property: Record) -> None:
    if not IS_PROOF:
        return
    medians = {rtt_ms: statistics.median(found) for rtt_ms, found in rates.items()}
    for rtt_ms, rate in medians.items():
        record_property(f"jobs/s at {rtt_ms} ms", round(rate))
    record_property("50 ms against 0 ms", round(medians[50] / medians[0], 2))


def prometheus_reads(deployment: Deployment) -> bool:
    """With its key as a bearer token, as deploy/monitoring/prometheus/server.yml has it."""
    figures = deployment.network.on(
        Network.switch,
        lambda: httpx.get(
            f"{deployment.api_url}/metrics",
            headers={"Authorization": f"Bearer {deployment.api_key}"},
            timeout=20,
            trust_env=False,
        ),
    )
    assert figures.status_code == 200, figures.text
    return "faktory_up 1.0" in figures.text


async def test_all_in_one_answers_the_curl_of_the_guide(
    network: Network, contained: Contained, ledger: Path
) -> None:
    """`curl -X POST http://localhost:3000/jobs/add -d …`: no key, and the type of a form."""
    every = services(ALL_IN_ONE)
    worker = every["worker-service"]
    with await start_server(network, contained, every, "", ""):
        tail = LedgerTail(ledger)
        child = start_worker(contained, worker, SERVER_HOST, ledger)
        await until_healthy(contained, [(worker, SERVER_HOST, child)])
        answer = network.on(
            SERVER_HOST,
            lambda: httpx.post(
                "http://localhost:3000/jobs/add",
                content=b'{"a": 1, "b": 2}',
                headers={"Content-Type": "application/x-www-form-urlencoded"},
                timeout=20,
                trust_env=False,
            ),
        )
        assert answer.status_code == 202, answer.text
        entries = await eventually(tail.read, 20, "the job was not done")
        assert [(entry.jid, entry.note) for entry in entries] == [
            (answer.json()["jid"], f"{child.pid} 1")
        ]
        await stop_workers(contained, worker, [child])

"""Our broker and its workers killed, cut and stopped, decided by a ledger of every job: what was
answered is never undone, nothing is lost, and what ran twice was in flight at a kill."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from devservers import BrokerServer, Toxiproxy
from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.service.stages import Stage
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.queue_order import QueueOrder
from tests.acceptance.scale import (
    BROKER_JOBS,
    BROKER_KILLS,
    IS_PROOF,
    LONG_JOBS,
    NETWORK_FAULTS,
    NETWORK_JOBS,
)
from tests.conftest import StartWorker
from tests.support.broker_state import BrokerState
from tests.support.ledger import ANSWERED, Entry, Ledger, LedgerTail
from tests.support.waiting import eventually

PRODUCERS = 4
BATCH = 50
# Producers stay so far ahead of the workers: pushes, FETCHes and ACKs go on side by side.
LEAD = 1500
JOB_S = 0.02
# A worker that died or a connection that broke gives its jobs to others within this.
ELSEWHERE_WITHIN_S = 30.0
IN_HAND = 500
# Longer than any test: such a job ends with its worker.
FOREVER_S = 600
LONG_JOB_S = 30.0
SILENT_S = 3.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400 if IS_PROOF else 150)]

Record = Callable[[str, object], None]


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    """One of its own: these tests kill it."""
    with BrokerServer() as server:
        yield server


@pytest.fixture
def state(broker: BrokerServer) -> BrokerState:
    return BrokerState(broker)


@pytest.fixture
async def client(broker: BrokerServer) -> AsyncIterator[Client]:
    async with Client(parse_url(broker.url)) as client:
        yield client


async def push_many(client: Client, jobs: list[Job]) -> None:
    for start in range(0, len(jobs), 1000):
        assert await client.push_bulk(jobs[start : start + 1000]) == {}


def sleepy(seconds: float, queue: str, count: int) -> list[Job]:
    return [Job(jobtype="sleepy", args=[seconds], queue=queue) for _ in range(count)]


def count_by_id(entries: list[Entry], note: str) -> Counter[str]:
    return Counter(entry.id for entry in entries if entry.note == note)


# The broker is killed


@dataclass
class Span:
    """Where in the ledger a fault fell, and where it was when all was well again."""

    at: int
    back_at: int


@dataclass
class Run:
    """Producers and workers at a broker, and faults. State: the pushes that were answered, those
    that had to be repeated, and the faults."""

    broker: BrokerServer
    queue: str
    tail: LedgerTail
    answered: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    faults: list[Span] = field(default_factory=list)

    @property
    def done(self) -> int:
        self.tail.read()
        return self.tail.notes[ANSWERED]

    async def has_done(self, count: int) -> None:
        await eventually(lambda: self.done >= count, 60, "the work stands still")

    def _may_go_on(self) -> bool:
        return len(self.answered) - self.done < LEAD

    async def produce(self, count: int) -> None:
        """Push until each job is answered for, never far ahead of those who do the work."""
        async with Client(parse_url(self.broker.url)) as client:
            for start in range(0, count, BATCH):
                await eventually(self._may_go_on, 60, "the work stands still")
                await self._push(client, sleepy(JOB_S, self.queue, min(BATCH, count - start)))

    async def _push(self, client: Client, jobs: list[Job]) -> None:
        jids = {job.jid for job in jobs}
        while True:
            try:
                assert await client.push_bulk(jobs) == {}
            except FaktoryError:
                self.repeated |= jids
                await asyncio.sleep(0.1)
            else:
                self.answered |= jids
                return

    async def suffer(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """One fault, for as long as `end` takes."""
        self.tail.read()
        await asyncio.to_thread(begin)
        at = len(self.tail.read())
        await asyncio.to_thread(end)
        self.faults.append(Span(at, len(self.tail.read())))

    def check(self, record: Record) -> None:
        entries = self.tail.read()
        ended = count_by_id(entries, "ended")
        record("jobs", len(self.answered))
        record("faults", len(self.faults))
        record("lost", len(self.answered - set(ended)))
        record("pushed again", len(self.repeated))
        twice = {id_ for id_, count in ended.items() if count > 1}
        record("of these ran twice", len(twice & self.repeated))
        record("of the others ran twice", len(twice - self.repeated))
        assert self.answered == set(ended), f"{len(self.answered - set(ended))} jobs were lost"
        undone = self._ran_after_an_answered_ack(entries) - self.repeated
        assert not undone, f"{len(undone)} jobs ran again after their ACK was answered"
        unexplained = self._ran_twice_for_no_reason(entries) - self.repeated
        assert not unexplained, f"{len(unexplained)} jobs ran twice that were not in flight"

    def _ran_after_an_answered_ack(self, entries: list[Entry]) -> set[str]:
        undone: set[str] = set()
        for fault in self.faults:
            before = {entry.id for entry in entries[: fault.at] if entry.note == ANSWERED}
            after = {entry.id for entry in entries[fault.at :] if entry.note == "started"}
            undone |= before & after
        return undone

    def _ran_twice_for_no_reason(self, entries: list[Entry]) -> set[str]:
        """In flight at a fault is what had been handed out before it, so what was begun before
        all was well again, and had no answer yet."""
        begun: dict[str, list[int]] = {}
        for position, entry in enumerate(entries):
            if entry.note == "started":
                begun.setdefault(entry.id, []).append(position)
        return {
            id_
            for id_, positions in begun.items()
            for first, second in pairwise(positions)
            if not any(first < fault.back_at and fault.at <= second for fault in self.faults)
        }


def worker_settings(queue: str) -> dict[str, str]:
    return {
        "WORKER_QUEUES": queue,
        "WORKER_CONCURRENCY": "100",
        "WORKER_HANDLERS": "tests.support.handlers,tests.support.answered",
    }


async def test_kill_minus_nine_of_the_broker_in_a_loop_loses_nothing_and_undoes_nothing(
    broker: BrokerServer,
    state: BrokerState,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    run = Run(broker, queue, LedgerTail(ledger.path))
    for _ in range(2):
        start_worker(broker.url, **worker_settings(queue))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(PRODUCERS):
            tasks.create_task(run.produce(BROKER_JOBS // PRODUCERS))
        for number in range(1, BROKER_KILLS + 1):
            wanted = BROKER_JOBS * number // (BROKER_KILLS + 1)
            await run.has_done(wanted)
            await run.suffer(broker.kill, broker.start)
    await eventually(lambda: state.is_empty, 60, "jobs are left")
    await run.has_done(BROKER_JOBS)
    run.check(record_property)


async def test_long_jobs_in_hand_outlive_a_kill_of_the_broker(
    broker: BrokerServer,
    state: BrokerState,
    client: Client,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    """Only what was handed out in the last second may run twice."""
    tail = LedgerTail(ledger.path)
    old, new = sleepy(LONG_JOB_S, queue, LONG_JOBS), sleepy(LONG_JOB_S, queue, 20)
    start_worker(broker.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY=str(LONG_JOBS + 20))
    await push_many(client, old)
    await eventually(lambda: len(tail.read()) == LONG_JOBS, 60, "not all were begun")
    # Whose a job is has been written down a second or two after it went out.
    await eventually(lambda: state.stored_reservations == LONG_JOBS)
    await push_many(client, new)
    await eventually(lambda: len(tail.read()) > LONG_JOBS)

    broker.kill()
    await asyncio.to_thread(broker.start)

    await eventually(lambda: state.is_empty, LONG_JOB_S + 60, "jobs are left")
    started, ended = count_by_id(tail.read(), "started"), count_by_id(tail.read(), "ended")
    assert ended.keys() == {job.jid for job in [*old, *new]}
    twice = {id_ for id_, count in started.items() if count > 1}
    record_property("jobs", len(ended))
    record_property("ran twice", len(twice))
    assert twice <= {job.jid for job in new}


# The network breaks


async def test_broken_connections_of_workers_lose_nothing_and_undo_nothing(
    broker: BrokerServer,
    state: BrokerState,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
    toxiproxy: Toxiproxy,
    record_property: Record,
) -> None:
    """Cut, and silent in both directions without being closed; in turn."""
    run = Run(broker, queue, LedgerTail(ledger.path))
    proxy = toxiproxy.proxy(broker.port)
    for _ in range(2):
        start_worker(proxy.url_for(broker), **worker_settings(queue))

    def fall_silent() -> None:
        for stream in ("upstream", "downstream"):
            proxy.add_toxic("timeout", stream=stream, timeout=0)

    def come_back_later() -> None:
        time.sleep(SILENT_S)
        proxy.remove_toxics()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(PRODUCERS):
            tasks.create_task(run.produce(NETWORK_JOBS // PRODUCERS))
        for number in range(1, NETWORK_FAULTS + 1):
            await run.has_done(NETWORK_JOBS * number // (NETWORK_FAULTS + 1))
            await run.suffer(proxy.disable, proxy.enable)
            await run.suffer(fall_silent, come_back_later)
    await eventually(lambda: state.is_empty, 60, "jobs are left")
    await run.has_done(NETWORK_JOBS)
    run.check(record_property)
    assert not run.repeated


# A worker is killed, cut or stopped


async def test_the_jobs_of_a_killed_worker_run_elsewhere_soon(
    broker: BrokerServer,
    state: BrokerState,
    client: Client,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
) -> None:
    settings = {"WORKER_QUEUES": queue, "WORKER_CONCURRENCY": str(IN_HAND)}
    first = start_worker(broker.url, **settings)
    jobs = sleepy(FOREVER_S, queue, IN_HAND)
    await push_many(client, jobs)
    await eventually(lambda: len(ledger.lines) == IN_HAND, 30, "not all were begun")
    second = start_worker(broker.url, **settings)
    await second.ready(state, 2 * state.fetch_lanes(96, IN_HAND))

    first.signal(signal.SIGKILL)
    await first.ended()

    await eventually(
        lambda: len(ledger.lines) == 2 * IN_HAND, ELSEWHERE_WITHIN_S, "they did not run elsewhere"
    )
    assert count_by_id(ledger.entries, "started") == {job.jid: 2 for job in jobs}
    assert state.in_hand == IN_HAND


@pytest.mark.parametrize("is_silent_first", [False, True], ids=["cut", "silent-then-cut"])
async def test_jobs_whose_delivery_was_cut_off_are_delivered_again_soon(
    broker: BrokerServer,
    state: BrokerState,
    client: Client,
    queue: str,
    toxiproxy: Toxiproxy,
    is_silent_first: bool,
) -> None:
    """The broker has handed them out, and the worker has never read them: its other connections
    are fine, so only it can tell which those are."""
    depth = 20
    arrived: list[Delivery] = []
    proxy = toxiproxy.proxy(broker.port)
    source = FaktorySource(
        Dialer(parse_url(broker.url)),
        {Stage("stage", queue): QueueOrder.parse(queue, shards=1)},
        slots=500,
        idle_fetches=depth,
        connections=3,
    )
    # Only the fetch lane goes through the proxy.
    source.lanes._dialer = Dialer(parse_url(proxy.url_for(broker)))
    running = asyncio.create_task(source.run(arrived.append))
    await eventually(lambda: source.stages[0].window.outstanding == depth)
    kept = sleepy(1, queue, 3)
    await push_many(client, kept)
    await eventually(lambda: len(arrived) == len(kept))
    await eventually(lambda: source.stages[0].window.outstanding >= depth)
    if is_silent_first:
        # Answers go out, and nobody gets them.
        await asyncio.to_thread(proxy.add_toxic, "timeout", timeout=0)
        lost = sleepy(1, queue, depth // 2)
        await push_many(client, lost)
        await eventually(lambda: state.in_hand == len(kept) + len(lost))
        assert len(arrived) == len(kept)
    else:
        # So slow that the answers are on their way when the connection is cut.
        await asyncio.to_thread(proxy.add_toxic, "latency", latency=60_000)
        lost = sleepy(1, queue, depth)
        await push_many(client, lost)
        await eventually(lambda: state.in_hand >= len(kept) + 1)

    await asyncio.to_thread(proxy.disable)
    await asyncio.to_thread(proxy.remove_toxics)
    await asyncio.to_thread(proxy.enable)

    await eventually(
        lambda: len(arrived) == len(kept) + len(lost), ELSEWHERE_WITHIN_S, "some went to nobody"
    )
    assert sorted(delivery.jid for delivery in arrived) == sorted(j.jid for j in [*kept, *lost])
    assert state.in_hand == len(arrived)
    source.close()
    await running


@pytest.mark.timeout(120)
async def test_a_job_that_kills_its_worker_each_time_counts_as_failed_in_the_end(
    broker: BrokerServer,
    state: BrokerState,
    client: Client,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
) -> None:
    """By its own `retry` it goes to the dead or waits for another try; it does not go round and
    round through all workers."""
    for retry in (-1, 3, 0):
        await client.push(Job(jobtype="kills", args=[], queue=queue, retry=retry))

    def is_over() -> bool:
        info = state.info()
        return not info["total_enqueued"] and not info["sets"]["working"]

    worker = start_worker(broker.url, WORKER_QUEUES=queue)
    await eventually(is_over, 90, "they are handed out for ever")

    def kills() -> int:
        return sum("worker-0 ended: SIGKILL" in event for event in worker.events())

    # All three kill the same child, or each its own.
    await eventually(lambda: kills() >= 3)
    # The sets are read from the file, where they come with the next commit.
    await eventually(lambda: state.dead and state.retries)
    (dead,), (retried,) = state.dead, state.retries
    for job in (dead, retried):
        assert job["failure"]["errtype"] == "WorkerLost"
        assert job["failure"]["message"] == "its worker went away 3 times with it"
    assert (dead["retry"], retried["retry"]) == (-1, 3)
    assert state.failures == 3


async def test_jobs_in_hand_of_a_worker_that_is_stopped_are_done_or_back_in_their_queue(
    broker: BrokerServer,
    state: BrokerState,
    client: Client,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
) -> None:
    """Some end while it stops, others would take for ever; more wait in the queue."""
    short, long = sleepy(2.0, queue, 100), sleepy(FOREVER_S, queue, 100)
    waiting = sleepy(FOREVER_S, queue, 300)
    settings = {
        "WORKER_QUEUES": queue,
        "WORKER_CONCURRENCY": "200",
        "WORKER_SHUTDOWN_TIMEOUT": "12",
    }
    worker = start_worker(broker.url, **settings)
    await push_many(client, [*short, *long, *waiting])
    await eventually(lambda: len(ledger.lines) >= 200, 40)

    worker.terminate()
    assert await worker.ended(30) == 0

    assert state.in_hand == 0
    ended = set(count_by_id(ledger.entries, "ended"))
    back = [job["custom"]["mh"]["id"] for job in state.queue(queue)]
    assert ended == {job.jid for job in short}
    assert sorted(back) == sorted(job.jid for job in [*long, *waiting])
    assert state.info()["sets"] == {"scheduled": 0, "retries": 0, "dead": 0, "working": 0}

"""SIGTERM strands nothing: every job is acknowledged or back in its queue, and no FETCH is left
at the server that could take one to nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from devservers import FaktoryServer, Relay
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.service.stages import Stage
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.queue_order import QueueOrder
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.ledger import Ledger
from tests.support.server_state import ServerState
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

LANES = 4
DEPTH = 20
# One heartbeat, four command and four fetch lanes; at our broker two of each.
CONNECTIONS = 2 * LANES + 1
# Enough to use up all outstanding FETCHes while the stop lingers, and too few for that: then only
# the quiet keeps the rest from taking jobs.
MANY_PER_S = 150
FEW_PER_S = 1
# After the end of the worker; each FETCH that was left would keep one for two seconds more.
CONNECTIONS_GONE_WITHIN_S = 5.0
# The server answers a quieted lane's FETCHes one every two seconds; it must take none meanwhile.
WATCHED_AFTERWARDS_S = 5.0


def ledger_job(number: int, queue: str) -> Job:
    return Job(jobtype="ledger", args=[number], queue=queue, reserve_for=60)


@asynccontextmanager
async def pushing(client: Client, queue: str, jobs_per_s: float) -> AsyncIterator[list[str]]:
    """So many a second for as long as the block takes, however slow the machine is: what is due
    goes together. The jids of those that the server has, which are all when it is over."""
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    pushed: list[str] = []
    is_over = asyncio.Event()

    async def push_what_is_due() -> None:
        while not is_over.is_set():
            due = 1 + int((loop.time() - started_at) * jobs_per_s)
            jobs = [ledger_job(number, queue) for number in range(len(pushed), due)]
            assert await client.push_bulk(jobs) == {}
            pushed.extend(job.jid for job in jobs)
            await asyncio.sleep(1 / jobs_per_s)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(push_what_is_due(), name="pushing")
        yield pushed
        is_over.set()


async def connections(client: Client) -> int:
    return int((await client.info())["server"]["connections"])


async def in_hand(client: Client) -> int:
    """As the server counts it. A FLUSH forgets jobs, but not that somebody has them."""
    return int((await client.info())["faktory"]["tasks"]["Busy"]["size"])


async def gone_connections(client: Client, before: int) -> None:
    deadline = asyncio.get_running_loop().time() + CONNECTIONS_GONE_WITHIN_S
    while (now := await connections(client)) > before:
        assert asyncio.get_running_loop().time() < deadline, f"{now} connections, {before} before"
        await asyncio.sleep(0.05)


@ON_BOTH_SERVERS
@pytest.mark.timeout(120)
@pytest.mark.parametrize("round_trip_ms", [0, 200])
@pytest.mark.parametrize("jobs_per_s", [MANY_PER_S, FEW_PER_S])
async def test_deep_lanes_strand_nothing_when_stopped_while_jobs_keep_arriving(
    server: AnyServer,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
    round_trip_ms: int,
    jobs_per_s: int,
) -> None:
    before, in_hand_before = await connections(client), await in_hand(client)
    with Relay(server.port, round_trip_ms) as relay:
        worker = start_worker(
            relay.url_for(server),
            WORKER_QUEUES=queue,
            WORKER_CONCURRENCY="200",
            WORKER_IDLE_FETCHES=str(LANES * DEPTH),
            FAKTORY_CONNECTIONS=str(CONNECTIONS),
        )
        await worker.ready(state)
        await asyncio.sleep(1.0)
        async with pushing(client, queue, jobs_per_s) as pushed:
            await asyncio.sleep(0.3)
            worker.terminate()
            assert await worker.ended() == 0
            if jobs_per_s == MANY_PER_S:
                await gone_connections(client, before)
            else:
                await asyncio.sleep(WATCHED_AFTERWARDS_S)
    done = {entry.id for entry in ledger.entries}
    waiting = {job["custom"]["mh"]["id"] for job in state.queue(queue)}
    assert state.working == []
    assert await in_hand(client) == in_hand_before
    assert done | waiting >= set(pushed)
    assert not done & waiting
    assert len(ledger.entries) == len(done)


@pytest.mark.timeout(120)
async def test_quiet_is_sure_even_when_beat_is_faster_than_the_lanes(
    faktory: FaktoryServer, client: Client, state: ServerState, queue: str
) -> None:
    """BEAT at 0 ms, lanes at 200 ms: the server has jobs on their way to us when it confirms."""
    arrived: list[Delivery] = []
    with Relay(faktory.port, 200) as relay:
        source = FaktorySource(
            Dialer(parse_url(faktory.url)),
            {Stage("stage", queue): QueueOrder.parse(queue, shards=1)},
            slots=500,
            idle_fetches=LANES * DEPTH,
            connections=CONNECTIONS,
        )
        source.lanes._dialer = Dialer(parse_url(relay.url_for(faktory)))
        running = asyncio.create_task(source.run(arrived.append))
        await eventually(lambda: source.stages[0].window.outstanding == LANES * DEPTH)
        await asyncio.sleep(0.5)
        async with pushing(client, queue, FEW_PER_S) as pushed:
            await asyncio.sleep(0.3)
            await source.quiet()
            source.close()
            await running
            await asyncio.sleep(WATCHED_AFTERWARDS_S)
    assert {job["jid"] for job in state.working} == {delivery.jid for delivery in arrived}
    assert len(state.queue(queue)) == len(pushed) - len(arrived)


@ON_BOTH_SERVERS
@pytest.mark.timeout(180)
async def test_a_stop_under_full_load_runs_nothing_twice_and_loses_nothing(
    server: AnyServer,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
    start_worker: StartWorker,
) -> None:
    count = 4000
    jobs = [Job(jobtype="sleepy", args=[0.4], queue=queue, reserve_for=60) for _ in range(count)]
    for start in range(0, count, 1000):
        assert await client.push_bulk(jobs[start : start + 1000]) == {}
    with Relay(server.port, 50) as relay:
        url = relay.url_for(server)
        first = start_worker(url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="500")
        await eventually(lambda: len(ledger.lines) > 800, 40)
        first.terminate()
        assert await first.ended(40) == 0
        assert state.working == []
        started = [entry.id for entry in ledger.entries if entry.note == "started"]
        ended = [entry.id for entry in ledger.entries if entry.note == "ended"]
        assert sorted(started) == sorted(ended)
        assert len(state.queue(queue)) == count - len(ended)
        assert len(ended) < count
        start_worker(url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="500")
        await eventually(lambda: state.processed >= count and not state.working, 60)
    ended = [entry.id for entry in ledger.entries if entry.note == "ended"]
    assert sorted(ended) == sorted(job.jid for job in jobs)

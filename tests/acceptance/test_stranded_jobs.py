"""FETCHes that outlive their connection: how many jobs they can take to nobody."""

import asyncio
import signal

import pytest

from devservers import FaktoryServer, Toxiproxy
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.service.stages import Stage
from manyhands.worker.source.faktory import FaktorySource
from manyhands.worker.source.queue_order import QueueOrder
from tests.conftest import StartWorker
from tests.support.server_state import ServerState
from tests.support.waiting import eventually

DEPTH = 20
JOBS = 60
# The server looks for a job for two seconds before it looks at the next line of a connection.
SERVER_WAITS_S = 3.0


async def push_some(client: Client, queue: str) -> None:
    jobs = [Job(jobtype="ledger", args=[n], queue=queue, reserve_for=60) for n in range(JOBS)]
    assert await client.push_bulk(jobs) == {}


@pytest.mark.timeout(90)
async def test_a_lane_cut_with_twenty_fetches_outstanding_strands_none_once_it_is_back(
    faktory: FaktoryServer,
    client: Client,
    state: ServerState,
    queue: str,
    toxiproxy: Toxiproxy,
) -> None:
    arrived: list[Delivery] = []
    proxy = toxiproxy.proxy(faktory.port)
    source = FaktorySource(
        Dialer(parse_url(faktory.url)),
        {Stage("stage", queue): QueueOrder.parse(queue, shards=1)},
        slots=500,
        idle_fetches=DEPTH,
        connections=3,
    )
    # Only the fetch lane goes through the proxy: the others must stay up to tell the server.
    source.lanes._dialer = Dialer(parse_url(proxy.url_for(faktory)))
    running = asyncio.create_task(source.run(arrived.append))
    await eventually(lambda: source.stages[0].window.outstanding == DEPTH)
    (lane,) = source.stages[0].lanes
    old_id = lane.wid
    await asyncio.sleep(0.2)
    proxy.cut()
    await eventually(lambda: lane.wid != old_id and lane.outstanding == DEPTH)
    await asyncio.sleep(SERVER_WAITS_S)
    await push_some(client, queue)
    await eventually(lambda: len(arrived) == JOBS, what="some jobs went to nobody")
    assert {job["jid"] for job in state.working} == {delivery.jid for delivery in arrived}
    source.close()
    await running


@pytest.mark.timeout(90)
async def test_five_hundred_idle_slots_killed_strand_at_most_four_jobs(
    faktory: FaktoryServer,
    client: Client,
    state: ServerState,
    queue: str,
    start_worker: StartWorker,
) -> None:
    worker = start_worker(faktory.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="500")
    await worker.ready(state)
    await asyncio.sleep(3.0)
    worker.signal(signal.SIGKILL)
    await worker.ended()
    await push_some(client, queue)
    await asyncio.sleep(SERVER_WAITS_S)
    assert len(state.working) <= 4
    assert len(state.queue(queue)) == JOBS - len(state.working)

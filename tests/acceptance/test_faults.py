"""Kills, restarts and broken networks, decided by a ledger of every job: none is lost, and what
ran twice was in flight at a fault."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from devservers import FaktoryServer, Toxiproxy
from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from tests.acceptance.scale import FAULT_JOBS, FAULT_ROUNDS, RECOVERY_S
from tests.conftest import StartWorker
from tests.support.ledger import Ledger
from tests.support.server_state import ServerState
from tests.support.waiting import eventually

SLOTS = 60
JOB_S = 0.1
# Jobs are done at SLOTS / JOB_S; so long is the work, and the faults fall into it.
WORK_S = FAULT_JOBS * JOB_S / SLOTS
BETWEEN_FAULTS_S = WORK_S / (FAULT_ROUNDS + 1)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(RECOVERY_S + WORK_S * 3 + 120)]


@dataclass
class Scene:
    """One fault run. State: the jobs pushed, and those in flight at any fault so far."""

    server: FaktoryServer
    state: ServerState
    ledger: Ledger
    queue: str
    record: Callable[[str, object], None]
    pushed: set[str] = field(default_factory=set)
    in_flight: set[str] = field(default_factory=set)

    async def push_all(self) -> None:
        async with Client(parse_url(self.server.url)) as client:
            for start in range(0, FAULT_JOBS, 1000):
                jobs = [
                    Job(jobtype="sleepy", args=[JOB_S], queue=self.queue, reserve_for=60)
                    for _ in range(start, min(start + 1000, FAULT_JOBS))
                ]
                assert await client.push_bulk(jobs) == {}
                self.pushed |= {job.jid for job in jobs}

    def note_in_flight(self) -> None:
        """What the server has reserved, and what was begun: these may run again."""
        self.in_flight |= {job["custom"]["mh"]["id"] for job in self.state.working}
        entries = self.ledger.entries
        begun = Counter(entry.id for entry in entries if entry.note == "started")
        begun.subtract(entry.id for entry in entries if entry.note == "ended")
        self.in_flight |= {job for job, open_runs in begun.items() if open_runs > 0}

    async def all_done(self) -> None:
        """Wait until the server has nothing left. Retries that wait are hurried: what is tested
        is that they are there."""
        async with asyncio.timeout(RECOVERY_S):
            while not self.state.is_empty:
                await asyncio.sleep(1.0)
                if self.state.retries:
                    await self._hurry_retries()

    async def _hurry_retries(self) -> None:
        try:
            async with Client(parse_url(self.server.url)) as client:
                await client.requeue(MutateTarget.RETRIES, JobFilter(jobtype="sleepy"))
        except FaktoryError:
            return  # the server may be restarting; the next look tries again

    def check(self) -> None:
        runs = Counter(entry.id for entry in self.ledger.entries if entry.note == "ended")
        self.record("jobs", len(self.pushed))
        self.record("faults", FAULT_ROUNDS)
        self.record("lost", len(self.pushed - set(runs)))
        self.record("in flight at a fault", len(self.in_flight))
        self.record("ran twice", sum(count > 1 for count in runs.values()))
        assert set(runs) == self.pushed, f"{len(self.pushed - set(runs))} jobs were lost"
        repeated = {job for job, count in runs.items() if count > 1}
        unexplained = repeated - self.in_flight
        assert not unexplained, f"{len(unexplained)} jobs ran twice without a fault"


Fault = Callable[[], Awaitable[None]]


@pytest.fixture
async def scene(
    ledger: Ledger, queue: str, record_property: Callable[[str, object], None]
) -> AsyncIterator[Scene]:
    """A server of its own: these tests kill and restart it."""
    with FaktoryServer() as server:
        state = ServerState(server)
        yield Scene(server, state, ledger, queue, record_property)
        state.close()


async def run_with_faults(scene: Scene, fault: Fault) -> None:
    await scene.push_all()
    await eventually(lambda: len(scene.ledger.lines) > SLOTS, 30, "no job was run")
    for _ in range(FAULT_ROUNDS):
        await asyncio.sleep(BETWEEN_FAULTS_S)
        await fault()
    await scene.all_done()
    scene.check()


def worker_settings(queue: str) -> dict[str, str]:
    return {
        "WORKER_QUEUES": queue,
        "WORKER_CONCURRENCY": str(SLOTS),
        "FAKTORY_CONNECTIONS": "17",
    }


async def test_kill_minus_nine_of_the_worker_in_a_loop_loses_nothing(
    scene: Scene, start_worker: StartWorker
) -> None:
    workers = [start_worker(scene.server.url, **worker_settings(scene.queue))]

    async def kill_and_replace() -> None:
        workers[-1].signal(signal.SIGKILL)
        await workers[-1].ended()
        scene.note_in_flight()
        workers.append(start_worker(scene.server.url, **worker_settings(scene.queue)))

    await run_with_faults(scene, kill_and_replace)


async def test_restarts_of_the_server_lose_nothing(scene: Scene, start_worker: StartWorker) -> None:
    start_worker(scene.server.url, **worker_settings(scene.queue))

    async def restart() -> None:
        scene.note_in_flight()
        await asyncio.to_thread(scene.server.restart)
        scene.note_in_flight()

    await run_with_faults(scene, restart)


@pytest.mark.proof
async def test_cut_connections_lose_nothing(
    scene: Scene, start_worker: StartWorker, toxiproxy: Toxiproxy
) -> None:
    proxy = toxiproxy.proxy(scene.server.port)
    start_worker(proxy.url_for(scene.server), **worker_settings(scene.queue))

    async def cut() -> None:
        scene.note_in_flight()
        await asyncio.to_thread(proxy.cut)
        scene.note_in_flight()

    await run_with_faults(scene, cut)


async def test_half_open_connections_lose_nothing(
    scene: Scene, start_worker: StartWorker, toxiproxy: Toxiproxy
) -> None:
    """Packets vanish in both directions, and nobody closes anything."""
    proxy = toxiproxy.proxy(scene.server.port)
    start_worker(proxy.url_for(scene.server), **worker_settings(scene.queue))

    async def black_hole() -> None:
        scene.note_in_flight()
        for stream in ("upstream", "downstream"):
            await asyncio.to_thread(proxy.add_toxic, "timeout", stream=stream, timeout=0)
        await asyncio.sleep(3.0)
        scene.note_in_flight()
        await asyncio.to_thread(proxy.remove_toxics)

    await run_with_faults(scene, black_hole)


async def test_slowly_dripping_connections_lose_nothing(
    scene: Scene, start_worker: StartWorker, toxiproxy: Toxiproxy
) -> None:
    """Answers come in pieces of a few bytes, with pauses between them."""
    proxy = toxiproxy.proxy(scene.server.port)
    start_worker(proxy.url_for(scene.server), **worker_settings(scene.queue))

    async def drip() -> None:
        scene.note_in_flight()
        await asyncio.to_thread(
            proxy.add_toxic,
            "slicer",
            stream="downstream",
            average_size=8,
            size_variation=4,
            delay=500,
        )
        await asyncio.sleep(3.0)
        scene.note_in_flight()
        await asyncio.to_thread(proxy.remove_toxics)

    await run_with_faults(scene, drip)

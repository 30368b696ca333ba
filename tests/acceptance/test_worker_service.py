"""The worker service rolled, its children killed, hung and grown too large, and all of it stopped;
decided by a ledger of every job."""

import asyncio
import os
import random
import signal
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import pytest

from devservers import BrokerServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from manyhands.worker.supervision.supervisor import STOP_GRACE_S
from tests.acceptance.scale import (
    IS_PROOF,
    SERVICE_HANGS,
    SERVICE_IN_HAND,
    SERVICE_KILLED_PROCESSES,
    SERVICE_KILLING_S,
    SERVICE_LEAD,
    SERVICE_LEAKS,
    SERVICE_PROCESSES,
    SERVICE_ROLLS,
    SERVICE_STEADY_S,
)
from tests.conftest import StartWorker, empty
from tests.support.broker_state import BrokerState
from tests.support.ledger import Ledger, LedgerTail
from tests.support.service_load import (
    ServiceLoad,
    begun_again_after_their_ack,
    begun_again_without_a_kill,
    ran_twice,
)
from tests.support.service_pages import children_of, read_status
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest
from tests.support.worker_service import HANDLERS, running_processes, start_service

SLOTS = 50 if IS_PROOF else 25
WINDOW_S = 5.0
SAMPLE_S = 1.0
# Of the rate before, that every window of a roll must keep.
KEPT_SHARE = 0.6
DONE_WITHIN_S = 90.0
FILLED_WITHIN_S = 45.0
HANG_TIMEOUT_S = 3
# Our broker gives a job up when its worker went away so often with it.
MOST_LOSSES = 3
MEMORY_LIMIT_MB = 200
LEAK_MIB = 25
LEAKS_PER_S = 5
# Longer than any test: such a job ends with its worker.
FOREVER_S = 600
SHUTDOWN_TIMEOUT_S = 12
# From the end of the last process to what the test sees of it.
SEEN_WITHIN_S = 8.0
BULK = 1000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400 if IS_PROOF else 150)]

Record = Callable[[str, object], None]


@pytest.fixture
def server(broker_process: BrokerServer) -> BrokerServer:
    empty(broker_process)
    return broker_process


@pytest.fixture
def state(server: BrokerServer) -> BrokerState:
    return BrokerState(server)


@pytest.fixture
async def client(server: BrokerServer) -> AsyncIterator[Client]:
    async with Client(parse_url(server.url)) as client:
        yield client


@pytest.fixture
def load(client: Client, state: BrokerState, queue: str, ledger: Ledger) -> ServiceLoad:
    return ServiceLoad(client, state, queue, LedgerTail(ledger.path), SERVICE_LEAD)


async def start(
    start_worker: StartWorker, server: BrokerServer, queue: str, processes: int, **env: str
) -> WorkerUnderTest:
    return await start_service(
        start_worker, server, queue, processes, **({"WORKER_CONCURRENCY": str(SLOTS)} | env)
    )


async def all_are_ready(worker: WorkerUnderTest, processes: int) -> None:
    def are_ready() -> bool:
        return [child["state"] for child in children_of(worker)] == ["ready"] * processes

    await eventually(are_ready, FILLED_WITHIN_S, "not all places are filled again")


def what_happened(status: dict[str, Any]) -> list[str]:
    return [event["what"] for event in status["events"]]


# Rolling


@dataclass
class Pace:
    """Once a second: when, how many jobs had ended, and how many waited."""

    load: ServiceLoad
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_S)

    def look(self) -> None:
        self.samples.append((time.monotonic(), self.load.ended, self.load.waiting))

    def rate(self, first: int, last: int) -> float:
        """In jobs a second, from one sample to another."""
        (begin, ended_before, _), (end, ended, _) = self.samples[first], self.samples[last]
        return (ended - ended_before) / (end - begin)

    def windows(self, first: int) -> list[float]:
        """The rate of every window that begins with one of the samples from `first` on."""
        times = [at for at, _, _ in self.samples]
        ends = [bisect_left(times, at + WINDOW_S) for at in times]
        return [
            self.rate(begin, end)
            for begin, end in enumerate(ends)
            if begin >= first and end < len(times)
        ]


@pytest.mark.alone
async def test_a_rolling_restart_under_full_load_loses_no_job_and_runs_none_twice(
    server: BrokerServer,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    worker = await start(start_worker, server, load.queue, SERVICE_PROCESSES)
    pace = Pace(load)

    def is_rolled(times: int) -> bool:
        status = read_status(worker)
        return (status["rolls"], status["roll"]["state"]) == (times, "done")

    async with load.going_on(), asyncio.TaskGroup() as tasks:
        await load.has_ended(20 * SLOTS)
        watching = tasks.create_task(pace.watch())
        await asyncio.sleep(SERVICE_STEADY_S)
        pace.look()
        steady = len(pace.samples) - 1
        for number in range(1, SERVICE_ROLLS + 1):
            worker.signal(signal.SIGHUP)
            await eventually(partial(is_rolled, number), 60, "not rolled")
        await asyncio.sleep(SERVICE_STEADY_S)
        pace.look()
        watching.cancel()
    await load.all_done(DONE_WITHIN_S)

    runs = load.runs()
    record_property("jobs", len(load.pushed))
    record_property("lost", len(load.lost(runs)))
    record_property("ran twice", len(ran_twice(runs)))
    record_property("children replaced", SERVICE_ROLLS * SERVICE_PROCESSES)
    assert {child["incarnation"] for child in children_of(worker)} == {SERVICE_ROLLS}
    assert runs.keys() == load.pushed
    assert all(len(job.started) == len(job.ended) == 1 for job in runs.values())
    if IS_PROOF:
        assert all(waiting for _, _, waiting in pace.samples), "it was not under full load"
        before = pace.rate(0, steady)
        shares = [rate / before for rate in pace.windows(steady)]
        record_property("jobs/s before", round(before))
        record_property("windows of 5 s", len(shares))
        record_property("share of that rate in the lowest", round(min(shares), 2))
        record_property("in the median", round(median(shares), 2))
        assert min(shares) >= KEPT_SHARE


# Children that are killed


@dataclass
class Killer:
    """Kills some child, once a second. State: whom it has killed."""

    worker: WorkerUnderTest
    killed: set[int] = field(default_factory=set)

    async def kill_for(self, seconds: int) -> None:
        for _ in range(seconds):
            await asyncio.sleep(1)
            living = [
                child["pid"] for child in children_of(self.worker) if child["state"] == "ready"
            ]
            if living := [pid for pid in living if pid not in self.killed]:
                pid = random.choice(living)
                os.kill(pid, signal.SIGKILL)
                self.killed.add(pid)


async def test_children_killed_every_second_are_replaced_and_no_job_is_lost(
    server: BrokerServer,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    worker = await start(
        start_worker,
        server,
        load.queue,
        SERVICE_KILLED_PROCESSES,
        WORKER_HANDLERS=f"{HANDLERS},tests.support.answered",
    )
    killer = Killer(worker)
    async with load.going_on():
        await load.has_ended(20 * SLOTS)
        await killer.kill_for(SERVICE_KILLING_S)
    await all_are_ready(worker, SERVICE_KILLED_PROCESSES)
    await load.all_done(DONE_WITHIN_S)

    runs, status = load.runs(), read_status(worker)
    children = status["children"]
    record_property("jobs", len(load.pushed))
    record_property("kills", len(killer.killed))
    record_property("lost", len(load.lost(runs)))
    record_property("begun again", sum(len(job.started) > 1 for job in runs.values()))
    record_property("ran twice", len(ran_twice(runs)))
    assert len(killer.killed) > SERVICE_KILLING_S // 4
    assert sum(child["restarts"] for child in children) == len(killer.killed)
    assert {child["last_exit"] for child in children if child["restarts"]} == {"SIGKILL"}
    assert any("ended: SIGKILL; starting it again in" in what for what in what_happened(status))
    assert not load.lost(runs)
    assert not begun_again_without_a_kill(runs, killer.killed)
    assert not begun_again_after_their_ack(runs)
    worker.terminate()
    assert await worker.ended() == 0


# Children that are not well


async def has_hung(load: ServiceLoad, times: int) -> None:
    await eventually(lambda: len(load.hung) >= times, 40, f"no child hung for the {times}. time")


async def test_a_job_that_hangs_its_child_is_given_up_in_the_end_and_the_others_go_on(
    server: BrokerServer,
    client: Client,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    worker = await start(
        start_worker,
        server,
        load.queue,
        SERVICE_PROCESSES,
        WORKER_HANG_TIMEOUT=str(HANG_TIMEOUT_S),
    )
    hanging = [
        Job(jobtype="hangs", args=[], queue=load.queue, retry=-1) for _ in range(SERVICE_HANGS)
    ]

    async with load.going_on():
        for number, job in enumerate(hanging):
            await client.push(job)
            for losses in range(1, MOST_LOSSES + 1):
                await has_hung(load, number * MOST_LOSSES + losses)
                await load.has_ended(load.ended + 2 * SLOTS)
        await eventually(lambda: len(load.state.dead) == SERVICE_HANGS, 30)
    await all_are_ready(worker, SERVICE_PROCESSES)
    await load.all_done(DONE_WITHIN_S)

    runs, status, killed = load.runs(), read_status(worker), load.hung
    children = status["children"]
    record_property("jobs", len(load.pushed))
    record_property("hangs", len(killed))
    record_property("lost", len(load.lost(runs)))
    record_property("ran twice", len(ran_twice(runs)))
    assert {job["jid"] for job in load.state.dead} == {job.jid for job in hanging}
    assert len(killed) == MOST_LOSSES * SERVICE_HANGS
    assert sum(child["hangs"] for child in children) == len(killed)
    assert sum(child["restarts"] for child in children) == len(killed)
    assert {child["last_exit"] for child in children if child["hangs"]} == {"SIGKILL"}
    assert what_happened(status).count("hangs: its event loop does not turn; killing it") == len(
        killed
    )
    assert not load.lost(runs)
    assert not begun_again_without_a_kill(runs, killed)


async def test_children_that_leak_are_replaced_and_every_job_runs_once(
    server: BrokerServer,
    client: Client,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
) -> None:
    worker = await start(
        start_worker,
        server,
        load.queue,
        SERVICE_PROCESSES,
        WORKER_MEMORY_LIMIT_MB=str(MEMORY_LIMIT_MB),
    )
    leaking = [
        Job(jobtype="leaks", args=[LEAK_MIB], queue=load.queue) for _ in range(SERVICE_LEAKS)
    ]
    async with load.going_on():
        for job in leaking:
            await client.push(job)
            await asyncio.sleep(1 / LEAKS_PER_S)
        await eventually(lambda: load.tail.notes["leaked"] == SERVICE_LEAKS, 30)
    await load.all_done(DONE_WITHIN_S)
    status = await eventually(lambda: lean_status(worker), FILLED_WITHIN_S, "some are too large")

    runs, children, told = load.runs(), status["children"], what_happened(status)
    leaked = Counter(entry.id for entry in load.tail.read() if entry.note == "leaked")
    replaced = sum(child["restarts"] for child in children)
    record_property("jobs", len(load.pushed) + len(leaking))
    record_property("leaked MiB", LEAK_MIB * len(leaking))
    record_property("children replaced", replaced)
    record_property("lost", len(load.lost(runs)))
    record_property("ran twice", len(ran_twice(runs)))
    assert replaced >= 1
    assert sum("draining and replacing it" in what for what in told) == replaced
    assert {child["last_exit"] for child in children if child["restarts"]} == {"exit code 0"}
    assert leaked == {job.jid: 1 for job in leaking}
    assert not load.lost(runs)
    assert all(len(runs[id_].started) == 1 for id_ in load.pushed)


def lean_status(worker: WorkerUnderTest) -> dict[str, Any]:
    """At a moment when all places are filled, by children that are within their limit: whoever had
    to be drained until then has been replaced, too."""
    status = read_status(worker)
    is_lean = all(
        child["state"] == "ready" and 0 < child["rss_bytes"] <= status["memory_limit_bytes"]
        for child in status["children"]
    )
    return status if is_lean else {}


# The service is stopped


def in_hand_jobs(queue: str, stubborn_every: int) -> list[Job]:
    """Of which every so manieth takes no notice of being cancelled."""
    return [
        Job(jobtype="stubborn", args=[], queue=queue)
        if stubborn_every and number % stubborn_every == 0
        else Job(jobtype="sleepy", args=[FOREVER_S], queue=queue)
        for number in range(SERVICE_IN_HAND)
    ]


async def take_in_hand(load: ServiceLoad, jobs: list[Job]) -> None:
    for start_at in range(0, len(jobs), BULK):
        assert await load.client.push_bulk(jobs[start_at : start_at + BULK]) == {}

    def are_begun() -> bool:
        load.tail.read()
        return load.tail.notes["started"] == len(jobs)

    await eventually(are_begun, 60, "not all were begun")
    assert load.state.in_hand == len(jobs)


async def start_large(
    start_worker: StartWorker, server: BrokerServer, queue: str
) -> WorkerUnderTest:
    return await start(
        start_worker,
        server,
        queue,
        2,
        WORKER_CONCURRENCY=str(SERVICE_IN_HAND // 2),
        WORKER_SHUTDOWN_TIMEOUT=str(SHUTDOWN_TIMEOUT_S),
    )


def assert_all_are_back(load: ServiceLoad, jobs: list[Job]) -> None:
    back = [job["custom"]["mh"]["id"] for job in load.state.queue(load.queue)]
    assert Counter(back) == Counter(job.jid for job in jobs)
    assert load.state.info()["sets"] == {"scheduled": 0, "retries": 0, "dead": 0, "working": 0}


STUBBORN_EVERY = pytest.mark.parametrize(
    "stubborn_every", [0, 10, 1], ids=["none-stubborn", "some-stubborn", "all-stubborn"]
)


@STUBBORN_EVERY
async def test_a_stop_puts_back_all_that_is_in_hand_and_leaves_no_process(
    server: BrokerServer,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
    stubborn_every: int,
) -> None:
    worker = await start_large(start_worker, server, load.queue)
    jobs = in_hand_jobs(load.queue, stubborn_every)
    await take_in_hand(load, jobs)

    stopped_at = time.monotonic()
    worker.terminate()
    exit_code = await worker.ended(SHUTDOWN_TIMEOUT_S + STOP_GRACE_S + SEEN_WITHIN_S)

    record_property("jobs in hand", len(jobs))
    record_property("took s", round(time.monotonic() - stopped_at, 1))
    assert exit_code == 0
    await eventually(lambda: not running_processes(worker), SEEN_WITHIN_S)
    assert_all_are_back(load, jobs)


@pytest.mark.parametrize("stubborn_every", [0, 10], ids=["none-stubborn", "some-stubborn"])
async def test_no_child_outlives_a_killed_supervisor_and_all_that_was_in_hand_is_back(
    server: BrokerServer,
    load: ServiceLoad,
    start_worker: StartWorker,
    record_property: Record,
    stubborn_every: int,
) -> None:
    worker = await start_large(start_worker, server, load.queue)
    jobs = in_hand_jobs(load.queue, stubborn_every)
    await take_in_hand(load, jobs)
    assert len(running_processes(worker)) >= 3

    killed_at = time.monotonic()
    os.kill(worker.supervisor_pid, signal.SIGKILL)
    within_s = SHUTDOWN_TIMEOUT_S + SEEN_WITHIN_S
    await eventually(lambda: not running_processes(worker), within_s, "some outlived it")

    record_property("jobs in hand", len(jobs))
    record_property("took s", round(time.monotonic() - killed_at, 1))
    assert_all_are_back(load, jobs)

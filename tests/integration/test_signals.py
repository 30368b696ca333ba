"""Stopping, pausing and surviving: Unix signals, the buttons of the server's web page, a blocked
loop and a worker that the server has forgotten."""

import asyncio
import signal

import pytest

from devservers import FaktoryServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.conftest import StartWorker
from tests.support.ledger import Ledger
from tests.support.server_state import ServerState
from tests.support.waiting import eventually, stays
from tests.support.worker_process import WorkerUnderTest

# A FETCH that the server has begun to serve can bring a job for this long after it was sent.
FETCHES_END_S = 3.0
# Heartbeats go out every 15 s, and bring what the web page asks for.
NEXT_BEAT_S = 30.0

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
async def worker(
    faktory: FaktoryServer, state: ServerState, start_worker: StartWorker, queue: str
) -> WorkerUnderTest:
    worker = start_worker(faktory.url, WORKER_QUEUES=queue)
    await worker.ready(state)
    return worker


def ledger_job(queue: str, n: int = 1) -> Job:
    return Job(jobtype="ledger", args=[n], queue=queue)


# SIGTERM


async def test_an_idle_worker_ends_with_success_on_sigterm(
    worker: WorkerUnderTest, state: ServerState
) -> None:
    pid = worker.pid
    worker.terminate()

    assert await worker.ended() == 0
    assert worker.said == []
    await eventually(lambda: state.workers(pid) == [])


async def test_sigint_ends_a_worker_like_sigterm(worker: WorkerUnderTest) -> None:
    worker.signal(signal.SIGINT)

    assert await worker.ended() == 0


async def test_an_idle_worker_that_stopped_takes_no_job_with_it(
    worker: WorkerUnderTest, client: Client, state: ServerState, queue: str
) -> None:
    worker.terminate()
    assert await worker.ended() == 0

    await client.push_bulk([ledger_job(queue, n) for n in range(20)])

    await stays(lambda: len(state.queue(queue)) == 20 and state.working == [], FETCHES_END_S)


async def test_sigterm_lets_a_running_job_finish(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="sleepy", args=[4], queue=queue))
    await eventually(lambda: ledger.notes == ["started"])

    worker.terminate()

    assert await worker.ended() == 0
    assert ledger.notes == ["started", "ended"]
    assert state.processed == 1
    assert state.is_empty


async def test_sigterm_under_load_loses_no_job_and_runs_none_twice(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    jobs = [Job(jobtype="sleepy", args=[0.1], queue=queue) for _ in range(200)]
    await client.push_bulk(jobs)
    await eventually(lambda: ledger.notes.count("ended") >= 20)

    worker.terminate()

    assert await worker.ended() == 0
    done = [entry.id for entry in ledger.entries if entry.note == "ended"]
    queued = [job["custom"]["mh"]["id"] for job in state.queue(queue)]
    assert sorted(done + queued) == sorted(job.jid for job in jobs)
    assert state.working == []
    assert state.processed - state.failures >= len(done)


@pytest.mark.parametrize("jobtype", ["sleepy", "sync_sleepy"])
@pytest.mark.parametrize("timeout_s", [5, 10])
async def test_a_job_that_does_not_finish_in_time_is_put_back(
    faktory: FaktoryServer,
    client: Client,
    state: ServerState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
    jobtype: str,
    timeout_s: int,
) -> None:
    """Also when the time is so short that handlers are cancelled while FETCHes are outstanding."""
    worker = start_worker(faktory.url, WORKER_QUEUES=queue, WORKER_SHUTDOWN_TIMEOUT=str(timeout_s))
    await worker.ready(state)
    pushed = Job(jobtype=jobtype, args=[60], queue=queue, retry=0, custom={"mine": 1})
    await client.push(pushed)
    await eventually(lambda: ledger.notes == ["started"])

    worker.terminate()

    assert await worker.ended() == 0
    await asyncio.sleep(FETCHES_END_S)
    assert (state.working, state.failures) == ([], 0)
    (job,) = state.queue(queue)
    assert job["jid"] != pushed.jid
    assert job["custom"]["mine"] == 1
    assert job["custom"]["mh"]["id"] == pushed.jid
    assert job["custom"]["mh"]["deliveries"] == 1
    assert "failure" not in job


@pytest.mark.parametrize("pause_s", [0, FETCHES_END_S])
async def test_a_second_sigterm_puts_the_running_job_back_at_once(
    faktory: FaktoryServer,
    client: Client,
    state: ServerState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
    pause_s: float,
) -> None:
    """Also when the first signal is so fresh that FETCHes are still outstanding."""
    worker = start_worker(faktory.url, WORKER_QUEUES=queue, WORKER_SHUTDOWN_TIMEOUT="120")
    await worker.ready(state)
    pushed = Job(jobtype="sleepy", args=[100], queue=queue)
    await client.push(pushed)
    await eventually(lambda: ledger.notes == ["started"])
    worker.terminate()
    # Of the supervisor and its child; two signals that nobody has looked at yet would be one.
    await eventually(lambda: worker.events().count("stopping") == 2)
    await asyncio.sleep(pause_s)
    assert worker.exit_code is None

    worker.terminate()

    assert await worker.ended() == 0
    # What an abandoned FETCH would take, it takes within its two seconds.
    await asyncio.sleep(FETCHES_END_S)
    assert state.working == []
    (job,) = state.queue(queue)
    assert job["custom"]["mh"]["id"] == pushed.jid
    assert "failure" not in job


# SIGTSTP


async def test_sigtstp_takes_no_more_jobs_finishes_those_in_hand_and_stays_registered(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    before = {registered.wid for registered in state.workers(worker.pid)}
    await client.push(Job(jobtype="sleepy", args=[4], queue=queue))
    await eventually(lambda: ledger.notes == ["started"])

    worker.signal(signal.SIGTSTP)
    await worker.logs("quiet: taking no more jobs")
    await asyncio.sleep(FETCHES_END_S)
    await client.push(ledger_job(queue))

    await eventually(lambda: ledger.notes == ["started", "ended"])
    await eventually(lambda: state.processed == 1)
    await stays(lambda: len(state.queue(queue)) == 1 and state.working == [], FETCHES_END_S)
    assert {registered.wid for registered in state.workers(worker.pid)} == before
    assert worker.exit_code is None

    worker.terminate()
    assert await worker.ended() == 0
    assert len(state.queue(queue)) == 1


# The buttons of the web page


@pytest.mark.slow
async def test_quiet_for_one_of_its_ids_quiets_the_whole_worker(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    ids = state.workers(worker.pid)
    assert len(ids) > 1

    state.press(ids[0].wid, "quiet")
    await worker.logs("quieted through the server", NEXT_BEAT_S)
    await asyncio.sleep(FETCHES_END_S)
    await client.push_bulk([ledger_job(queue, n) for n in range(10)])

    await stays(lambda: len(state.queue(queue)) == 10, FETCHES_END_S)
    assert worker.exit_code is None
    assert len(state.workers(worker.pid)) == len(ids)
    # Each id says so with its next beat.
    await eventually(
        lambda: all(registered.is_quiet for registered in state.workers(worker.pid)), NEXT_BEAT_S
    )


@pytest.mark.slow
async def test_stop_for_one_of_its_ids_stops_the_whole_worker(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    ids = state.workers(worker.pid)

    state.press(ids[-1].wid, "terminate")
    await worker.logs("stopped through the server", NEXT_BEAT_S)

    assert await worker.ended() == 0
    await eventually(lambda: state.workers(worker.pid) == [])


# A worker that does not come to its work


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_handler_that_blocks_the_loop_does_not_make_the_server_forget_the_worker(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    before = {registered.wid for registered in state.workers(worker.pid)}
    await client.push(Job(jobtype="blocks", args=[85], queue=queue))
    await eventually(lambda: ledger.notes == ["started"])
    await client.push_bulk([ledger_job(queue, n) for n in range(10)])

    # The server forgets after 60 s and looks every 15 s; what the test does between takes time too.
    for _ in range(7):
        await asyncio.sleep(11)
        assert ledger.notes == ["started"]
        assert {registered.wid for registered in state.workers(worker.pid)} == before

    await eventually(lambda: "ended" in ledger.notes, 20)
    await eventually(lambda: state.processed == 11 and state.is_empty)
    assert sorted(ledger.notes[2:]) == [str(n) for n in range(10)]


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_worker_that_the_server_forgot_comes_back_under_new_ids(
    worker: WorkerUnderTest, client: Client, state: ServerState, ledger: Ledger, queue: str
) -> None:
    before = {registered.wid for registered in state.workers(worker.pid)}
    worker.signal(signal.SIGSTOP)
    try:
        await eventually(lambda: state.workers(worker.pid) == [], 100)
        await client.push_bulk([ledger_job(queue, n) for n in range(10)])
    finally:
        worker.signal(signal.SIGCONT)

    await eventually(lambda: len(ledger.entries) == 10, 20)
    after = {registered.wid for registered in await worker.ready(state)}
    assert not before & after
    await eventually(lambda: state.processed == 10 and state.is_empty)

"""Our jobs are consumed by the clients of others, and theirs by our worker; on both servers."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import faktory as pypi_faktory
import pyfaktory
import pytest

from loadtest.lab.consumers import build_go_peer, build_rust_peer
from loadtest.lib.programs import CACHE
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job, new_jid
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.ledger import Ledger
from tests.support.waiting import eventually
from tests.support.worker_process import ROOT, AnyState

COUNT = 50
# The first build of a peer fetches and compiles what it is made from.
BUILD_TIMEOUT_S = 900

pytestmark = ON_BOTH_SERVERS


def built(build: Callable[[], Path]) -> Path:
    """Build once at a time: pytest-xdist has several processes that want it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build()


@pytest.fixture(scope="module")
def go_peer() -> Path:
    return built(build_go_peer)


@pytest.fixture(scope="module")
def rust_peer() -> Path:
    return built(partial(build_rust_peer, is_optimised=False))


def push_by_peer(program: Path, server: AnyServer, queue: str) -> None:
    subprocess.run(
        [program, "push", "--queue", queue, "--jobtype", "add", "--count", str(COUNT)],
        env=os.environ | {"FAKTORY_URL": server.url},
        check=True,
        timeout=50,
    )


@contextmanager
def running(command: list[str], server: AnyServer, log: Path) -> Iterator[None]:
    """Run a foreign consumer, and end it with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"FAKTORY_URL": server.url},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        # Some have processes of their own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def assert_ours_consumes(
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    """Our worker runs every job that somebody else has pushed, once, with its argument."""
    assert len(state.queue(queue)) == COUNT
    jids = {job["jid"] for job in state.queue(queue)}

    start_worker(server.url, WORKER_QUEUES=queue)

    await eventually(lambda: state.processed == COUNT and state.is_empty, 30)
    assert sorted(ledger.notes, key=int) == [str(n) for n in range(COUNT)]
    assert {entry.jid for entry in ledger.entries} == jids
    # Not ours, so known by their jid.
    assert {entry.id for entry in ledger.entries} == jids
    assert state.failures == 0


async def assert_theirs_consumes(
    command: list[str],
    server: AnyServer,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
) -> None:
    """Their worker runs and acknowledges every job that our client has pushed, once."""
    jobs = [Job(jobtype="add", args=[n], queue=queue, custom={"ä": n}) for n in range(COUNT)]
    await client.push_bulk(jobs)

    with running(command, server, ledger.path.with_suffix(".log")):
        await eventually(lambda: state.processed == COUNT and state.is_empty, 30)

    assert sorted(ledger.lines) == sorted(job.jid for job in jobs)
    assert state.failures == 0


def consume(program: Path, queue: str, ledger: Ledger) -> list[str]:
    options = ["--queue", queue, "--slots", "4", "--ledger", str(ledger.path)]
    return [str(program), "consume", *options]


# PyPI


async def test_jobs_of_the_pypi_client_are_consumed_by_our_worker(
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    with pypi_faktory.connection(server.url) as producer:
        for n in range(COUNT):
            assert producer.queue("add", args=[n], queue=queue)

    await assert_ours_consumes(server, state, start_worker, ledger, queue)


async def test_our_jobs_are_consumed_by_the_pypi_worker(
    server: AnyServer, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    command = [sys.executable, "-m", "tests.support.pypi_consumer", queue, str(ledger.path)]

    await assert_theirs_consumes(command, server, client, state, ledger, queue)


async def test_our_jobs_are_consumed_by_pyfaktory(
    server: AnyServer, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    command = [sys.executable, "-m", "tests.support.pyfaktory_consumer", queue, str(ledger.path)]

    await assert_theirs_consumes(command, server, client, state, ledger, queue)


async def test_jobs_of_pyfaktory_are_consumed_by_our_worker(
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    """Half of them one by one, the others as a batch."""
    jobs = [
        pyfaktory.Job(jid=new_jid(), jobtype="add", args=[n], queue=queue) for n in range(COUNT)
    ]
    with pyfaktory.Client(faktory_url=server.url, role="producer") as connection:
        producer = pyfaktory.Producer(client=connection)
        for job in jobs[: COUNT // 2]:
            assert producer.push(job)
        assert producer.push_bulk(jobs[COUNT // 2 :]) == {}

    await assert_ours_consumes(server, state, start_worker, ledger, queue)


# Go


@pytest.mark.timeout(BUILD_TIMEOUT_S)
async def test_jobs_of_the_go_client_are_consumed_by_our_worker(
    go_peer: Path,
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    push_by_peer(go_peer, server, queue)

    await assert_ours_consumes(server, state, start_worker, ledger, queue)


@pytest.mark.timeout(BUILD_TIMEOUT_S)
async def test_our_jobs_are_consumed_by_the_go_worker(
    go_peer: Path,
    server: AnyServer,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
) -> None:
    command = consume(go_peer, queue, ledger)

    await assert_theirs_consumes(command, server, client, state, ledger, queue)


# Rust


@pytest.mark.rust
@pytest.mark.timeout(BUILD_TIMEOUT_S)
async def test_jobs_of_the_rust_client_are_consumed_by_our_worker(
    rust_peer: Path,
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    push_by_peer(rust_peer, server, queue)

    await assert_ours_consumes(server, state, start_worker, ledger, queue)


@pytest.mark.rust
@pytest.mark.timeout(BUILD_TIMEOUT_S)
async def test_our_jobs_are_consumed_by_the_rust_worker(
    rust_peer: Path,
    server: AnyServer,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
) -> None:
    command = consume(rust_peer, queue, ledger)

    await assert_theirs_consumes(command, server, client, state, ledger, queue)


# Side by side


@pytest.mark.timeout(BUILD_TIMEOUT_S)
async def test_our_worker_and_a_go_worker_share_one_queue(
    go_peer: Path,
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
    tmp_path: Path,
) -> None:
    """Every job runs once, by one of the two."""
    theirs = Ledger(tmp_path / "theirs")
    worker = start_worker(server.url, WORKER_QUEUES=queue)
    await worker.ready(state)
    with running(consume(go_peer, queue, theirs), server, tmp_path / "go.log"):
        jobs = [Job(jobtype="add", args=[n], queue=queue) for n in range(500)]
        await client.push_bulk(jobs)
        await eventually(lambda: state.processed == 500 and state.is_empty, 60)

    ran = [entry.jid for entry in ledger.entries] + theirs.lines
    assert sorted(ran) == sorted(job.jid for job in jobs)

"""Real servers, clients and worker processes for all tests. A server that does not start is a
failure, never a skip."""

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devservers import BrokerServer, FaktoryServer, Toxiproxy
from shared.faktory.client import FaktoryClient
from shared.faktory.handshake import parse_url
from tests.support.ledger import Ledger
from tests.support.server_state import ServerState
from tests.support.worker_process import WorkerUnderTest

# Every kind of character that means something in a URL.
PASSWORD = "p@ss/w:rd%41?#&é ü"

StartWorker = Callable[..., WorkerUnderTest]

# Under xdist the workers collect, and tell the controller by this name.
LEFT_OUT = "rust_tests_left_out"
_left_out = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of the Rust client need cargo: in CI they run in any case, and fail without it."""
    if shutil.which("cargo") or os.environ.get("CI"):
        return
    rust = [item for item in items if item.get_closest_marker("rust")]
    if rust:
        items[:] = [item for item in items if item not in rust]
        config.hook.pytest_deselected(items=rust)
        config.stash[_left_out] = len(rust)
        if hasattr(config, "workeroutput"):
            config.workeroutput[LEFT_OUT] = len(rust)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    number = getattr(node, "workeroutput", {}).get(LEFT_OUT)
    if number:
        node.config.stash[_left_out] = number


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    number = config.stash.get(_left_out, 0)
    if number:
        terminalreporter.write_line(
            f"left out: {number} tests of the Rust client, because cargo is not on PATH"
        )


@pytest.fixture(scope="module")
def faktory_process() -> Iterator[FaktoryServer]:
    """One Faktory for all tests of a module; use `faktory`, which empties it first."""
    with FaktoryServer() as server:
        yield server


@pytest.fixture(scope="module")
def broker_process() -> Iterator[BrokerServer]:
    """One broker of ours for all tests of a module."""
    with BrokerServer() as server:
        yield server


@pytest.fixture
async def faktory(faktory_process: FaktoryServer) -> FaktoryServer:
    """A Faktory without any job of an earlier test."""
    async with FaktoryClient(parse_url(faktory_process.url)) as client:
        await client.flush()
    return faktory_process


@pytest.fixture(scope="module")
def faktory_with_password() -> Iterator[FaktoryServer]:
    with FaktoryServer(password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def faktory_with_tls() -> Iterator[FaktoryServer]:
    with FaktoryServer(tls=True) as server:
        yield server


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[Toxiproxy]:
    with Toxiproxy() as toxiproxy:
        yield toxiproxy


@pytest.fixture
async def client(faktory: FaktoryServer) -> AsyncIterator[FaktoryClient]:
    async with FaktoryClient(parse_url(faktory.url)) as client:
        yield client


@pytest.fixture
def state(faktory: FaktoryServer) -> Iterator[ServerState]:
    """What the server of this test holds."""
    state = ServerState(faktory)
    yield state
    state.close()


@pytest.fixture
def queue() -> str:
    """A queue of the test's own: a FETCH that an earlier test left behind cannot reach it."""
    return f"q-{secrets.token_hex(4)}"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def start_worker(tmp_path: Path, ledger: Ledger) -> Iterator[StartWorker]:
    """Start `python -m worker` with a URL and more settings; gone with the test."""
    started: list[WorkerUnderTest] = []

    def start(url: str, **env: str) -> WorkerUnderTest:
        worker = WorkerUnderTest(tmp_path, len(started), url, ledger, **env)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.clean_up()
    for worker in started:
        assert "Traceback" not in worker.stderr, worker.stderr

"""Real servers, clients and worker processes for all tests. A server that does not start is a
failure, never a skip."""

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from devservers import (
    BrokerServer,
    FaktoryServer,
    Toxiproxy,
    missing_for_debian,
    missing_for_faketime,
    missing_for_java,
    missing_for_pgbouncer,
    missing_for_prometheus,
)
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from tests.support.broker_state import BrokerState
from tests.support.ledger import Ledger
from tests.support.output_servers import (  # noqa: F401  (fixtures)
    elasticsearch_server,
    kafka_server,
    postgres,
    s3_server,
)
from tests.support.raw_client import RawClient
from tests.support.server_state import ServerState
from tests.support.state_places import new_place  # noqa: F401  (fixture)
from tests.support.worker_process import AnyState, WorkerUnderTest

# How long one example takes says more of the machine than of us.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

# Every kind of character that means something in a URL.
PASSWORD = "p@ss/w:rd%41?#&é ü"

StartWorker = Callable[..., WorkerUnderTest]
AnyServer = FaktoryServer | BrokerServer
# For a test, or with `pytestmark` for all of a module, that uses `server`, `client` or `state`.
ON_BOTH_SERVERS = pytest.mark.parametrize(
    "server", ["faktory_process", "broker_process"], indirect=True
)

# Under xdist the workers collect, and tell the controller by this name.
LEFT_OUT = "tests_left_out"
# How many tests there are of each marker that cannot run here.
_left_out = pytest.StashKey[dict[str, int]]()
# Seconds: the first of the tests with Kafka or Elasticsearch waits for the JVM to start.
JVM_TIMEOUT = 180


def left_out_because() -> dict[str, str]:
    """Markers of tests that cannot run on this machine. In CI all run, and fail if they cannot."""
    reasons: dict[str, str] = {}
    if os.environ.get("CI"):
        return reasons
    if not shutil.which("cargo"):
        reasons["rust"] = "of the Rust client; not on PATH: cargo"
    if not shutil.which("npm"):
        reasons["node"] = "of the Node client; not on PATH: npm"
    missing = missing_for_java()
    if missing:
        reasons["jvm"] = f"of Kafka and Elasticsearch; not on PATH: {', '.join(missing)}"
    if missing := missing_for_faketime():
        reasons["faketime"] = f"of a clock that is set; not on PATH: {', '.join(missing)}"
    if missing := missing_for_pgbouncer():
        reasons["pgbouncer"] = f"of a pooler of connections; not on PATH: {', '.join(missing)}"
    if missing := missing_for_prometheus():
        reasons["prometheus"] = f"of alerts and metrics; not on PATH: {', '.join(missing)}"
    missing = missing_for_debian()
    if missing:
        reasons["debian"] = f"of Debian's documentation; not on PATH: {', '.join(missing)}"
    return reasons


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out: dict[str, int] = {}
    for marker in left_out_because():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked:
            items[:] = [item for item in items if item not in marked]
            config.hook.pytest_deselected(items=marked)
            left_out[marker] = len(marked)
    config.stash[_left_out] = left_out
    if hasattr(config, "workeroutput"):
        config.workeroutput[LEFT_OUT] = left_out
    for item in items:
        if item.get_closest_marker("jvm") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(JVM_TIMEOUT))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get(LEFT_OUT)
    if left_out:
        node.config.stash[_left_out] = left_out


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reasons = left_out_because()
    for marker, number in config.stash.get(_left_out, {}).items():
        terminalreporter.write_line(f"left out: {number} tests {reasons[marker]}")


@pytest.fixture(scope="session")
def faktory_process() -> Iterator[FaktoryServer]:
    """One Faktory for all tests of a process; use `faktory`, which empties it first. A test that
    stops or restarts a server starts its own."""
    with FaktoryServer() as server:
        yield server


@pytest.fixture(scope="session")
def broker_process() -> Iterator[BrokerServer]:
    """One broker of ours for all tests of a process."""
    with BrokerServer() as server:
        yield server


@pytest.fixture
def faktory(faktory_process: FaktoryServer) -> FaktoryServer:
    """A Faktory without any job of an earlier test."""
    empty(faktory_process)
    return faktory_process


@pytest.fixture
def server(request: pytest.FixtureRequest) -> AnyServer:
    """The server of `client` and `state`, without any job of an earlier test: a Faktory, or for
    what is marked ON_BOTH_SERVERS each in turn."""
    process: AnyServer = request.getfixturevalue(getattr(request, "param", "faktory_process"))
    empty(process)
    return process


def empty(server: AnyServer) -> None:
    with RawClient(server.url) as raw:
        assert raw.call("FLUSH") == "OK"


@pytest.fixture(scope="module", params=[FaktoryServer, BrokerServer])
def server_with_password(request: pytest.FixtureRequest) -> Iterator[AnyServer]:
    """Each of the two in turn, as the next one."""
    with request.param(password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module", params=[FaktoryServer, BrokerServer])
def server_with_tls(request: pytest.FixtureRequest) -> Iterator[AnyServer]:
    with request.param(tls=True) as server:
        yield server


@pytest.fixture(scope="session")
def toxiproxy() -> Iterator[Toxiproxy]:
    with Toxiproxy() as toxiproxy:
        yield toxiproxy


@pytest.fixture
async def client(server: AnyServer) -> AsyncIterator[Client]:
    async with Client(parse_url(server.url)) as client:
        yield client


@pytest.fixture
def state(server: AnyServer) -> Iterator[AnyState]:
    """What the server of this test holds."""
    state = ServerState(server) if isinstance(server, FaktoryServer) else BrokerState(server)
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
    """Start `manyhands worker` with a URL and more settings; gone with the test."""
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

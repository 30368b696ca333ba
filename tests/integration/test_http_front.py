"""The HTTP front of all three services, as processes: what a stranger sends before any password or
key is looked at costs them neither memory nor time, and what could be read in two ways is refused.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from manyhands.api.keys import new_key
from manyhands.shared.http import limits
from tests.acceptance.scale import OTHERS_WAIT_S
from tests.conftest import PASSWORD
from tests.support.http_attack import (
    MEBIBYTE,
    Sent,
    get,
    round_trip,
    send_without_end,
    watched,
)
from tests.support.http_socket import HttpSocket
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient
from tests.support.service_pages import LISTENING
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

# On each of a few connections. What lies in the buffers of both sockets was sent, too.
SENT_AT_MOST = 48 * MEBIBYTE
TAKEN_AT_MOST = limits.LINGER_BYTES + 16 * MEBIBYTE
CONNECTIONS = 4
# For each process under any attack, and for what one attack adds.
MEMORY_BYTES = 512 * MEBIBYTE
GROWTH_BYTES = 100 * MEBIBYTE

pytestmark = [pytest.mark.timeout(120), pytest.mark.alone]


@dataclass(frozen=True)
class Front:
    """A running service; what is said to a stranger who POSTs to `path` is `refusal`."""

    port: int
    pid: int
    path: str
    refusal: int
    # What others do meanwhile.
    ask: Callable[[], None]


@pytest.fixture(scope="module")
def locked_broker() -> Iterator[BrokerServer]:
    with BrokerServer(password=PASSWORD) as broker:
        yield broker


@pytest.fixture(scope="module")
def broker_front(locked_broker: BrokerServer) -> Iterator[Front]:
    """Others push jobs, fetch and acknowledge them."""
    with RawClient(locked_broker.url, wid="front") as client:
        port, pid = web_port(locked_broker), locked_broker.pid
        yield Front(port, pid, "/stats", 401, lambda: round_trip(client))


@pytest.fixture(scope="module")
def api_front(locked_broker: BrokerServer) -> Iterator[Front]:
    _, entry = new_key("somebody", "ingest+read")
    with ApiServer(locked_broker, settings={"API_KEYS": entry}) as api:
        yield Front(api.port, api.pid, "/jobs", 401, lambda: get(api.port, "/healthz"))
        assert "Traceback" not in api.log_text, api.log_text


@pytest.fixture(scope="module")
def worker_front(
    locked_broker: BrokerServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Front]:
    directory = tmp_path_factory.mktemp("worker")
    worker = WorkerUnderTest(directory, 0, locked_broker.url, Ledger(directory / "ledger"))
    try:
        asyncio.run(worker.logs(LISTENING))
        port = worker.line(LISTENING)["port"]
        asyncio.run(eventually(lambda: status_of(port, "/readyz", "127.0.0.1") == 200, 20))
        yield Front(port, worker.supervisor_pid, "/status", 405, lambda: get(port, "/healthz"))
        assert "Traceback" not in worker.stderr, worker.stderr
    finally:
        worker.clean_up()


def web_port(broker: BrokerServer) -> int:
    return int(broker.web_url.rpartition(":")[2])


@pytest.fixture(params=["api", "broker", "worker"])
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    """As well after the test as before."""
    front: Front = request.getfixturevalue(f"{request.param}_front")
    yield front
    front.ask()


def head(front: Front, *lines: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {front.path} HTTP/1.1", "Host: 127.0.0.1", *lines, ""]).encode()


CHUNKED = "Transfer-Encoding: chunked"
ONE_CHUNK = b"\r\n1\r\nx\r\n"
# Headers, what stands behind them, and what then never ends.
ENDLESS: dict[str, tuple[tuple[str, ...], bytes, bytes]] = {
    "headers": ((), b"", b"X-Filling: xxxxxxxx\r\n" * 3000),
    "one header": ((), b"X-Filling: ", b"x" * 65536),
    "one name": ((), b"", b"x" * 65536),
    "trailers": ((CHUNKED,), ONE_CHUNK + b"0\r\n", b"X-Filling: xxxxxxxx\r\n" * 3000),
    "one trailer": ((CHUNKED,), ONE_CHUNK + b"0\r\nX-Filling: ", b"x" * 65536),
    "a chunk's extension": ((CHUNKED,), ONE_CHUNK + b"1;", b"x" * 65536),
    "chunks of a byte": ((CHUNKED,), b"\r\n", b"1\r\nx\r\n" * 10_000),
    "a body": ((f"Content-Length: {10**12}",), b"\r\n", b"x" * 65536),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_never_ends_is_soon_not_read_and_hurts_nobody(
    front: Front, what: str, record_property: Callable[[str, object], None]
) -> None:
    lines, start, filling = ENDLESS[what]
    before = psutil.Process(front.pid).memory_info().rss
    sent: list[Sent] = []

    def attack() -> None:
        sent.append(
            send_without_end(front.port, head(front, *lines) + start, filling, SENT_AT_MOST)
        )

    threads = [threading.Thread(target=attack) for _ in range(CONNECTIONS)]
    with watched(front.pid, front.ask) as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    record_property("p99_s", watch.p99_s)
    record_property("grown_bytes", watch.peak_bytes - before)
    assert len(sent) == CONNECTIONS
    for one in sent:
        assert one.was_stopped and one.size <= TAKEN_AT_MOST, one
    assert watch.peak_bytes < MEMORY_BYTES
    assert watch.peak_bytes - before < GROWTH_BYTES
    assert watch.p99_s < OTHERS_WAIT_S, f"{watch.p99_s:.3f} s"


@pytest.mark.parametrize("what", ["headers", "one header", "one name"])
def test_who_sends_more_headers_than_there_can_be_is_told_so(front: Front, what: str) -> None:
    lines, start, filling = ENDLESS[what]
    with HttpSocket(front.port) as http:
        http.send(head(front, *lines) + start)
        with contextlib.suppress(OSError):
            for _ in range(4):
                http.send(filling)
        answer = http.answer()
        assert answer.status == 431
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        assert http.is_closed_by_server()


@pytest.mark.parametrize(
    "lines", [(CHUNKED,), (f"Content-Length: {10**9}",)], ids=["chunked", "announced"]
)
def test_after_a_refusal_the_rest_is_not_waited_for(front: Front, lines: tuple[str, ...]) -> None:
    with HttpSocket(front.port) as http:
        http.send(head(front, *lines) + b"\r\n")
        answer = http.answer()
        assert answer.status == front.refusal
        assert answer.headers["connection"] == "close"
        http.set_timeout(limits.LINGER_S + 3)
        assert http.is_closed_by_server()


def test_after_a_refusal_a_short_body_is_read_and_the_connection_stays(front: Front) -> None:
    with HttpSocket(front.port) as http:
        for _ in range(3):
            http.send(head(front, "Content-Length: 10") + b"\r\n")
            answer = http.answer()
            assert answer.status == front.refusal
            assert "connection" not in answer.headers
            http.send(b"x" * 10)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: example.com\r\n\r\n",
        b"GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /stats HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /stats HTTP/0.9\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /stats HTTP/1.2\r\nHost: 127.0.0.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /stats HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /stats HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /stats HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /stats HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /stats HTTP/1.1\r\nHost: h\r\n" + b"X: y\r\n" * (limits.HEADERS + 1) + b"\r\n",
        b"NONSENSE\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read_at_all(
    front: Front, request_bytes: bytes
) -> None:
    with HttpSocket(front.port) as http:
        http.send(request_bytes + b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = http.answer()
        assert answer.status in (400, 431, 501)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
        assert http.is_closed_by_server()


@pytest.mark.parametrize("name", ["broker", "worker"])
def test_more_connections_than_pages_need_are_refused(
    name: str, request: pytest.FixtureRequest
) -> None:
    front: Front = request.getfixturevalue(f"{name}_front")
    with contextlib.ExitStack() as stack:
        for _ in range(limits.PAGE_CONNECTIONS):
            stack.enter_context(HttpSocket(front.port))
        with HttpSocket(front.port) as one_more:
            answer = one_more.answer()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert one_more.is_closed_by_server()
    with HttpSocket(front.port) as http:
        http.request("GET", "/metrics")
        assert http.answer().status != 503


# DNS rebinding


@pytest.fixture(scope="module")
def open_broker() -> Iterator[BrokerServer]:
    with BrokerServer() as broker:
        yield broker


@pytest.fixture(scope="module")
def open_api(open_broker: BrokerServer) -> Iterator[ApiServer]:
    with ApiServer(open_broker) as api:
        yield api


REBOUND = ["rebound.example", "rebound.example:7420", "127.0.0.1.rebound.example", "localhost.", ""]


@pytest.mark.parametrize("service", ["api", "broker", "worker"])
def test_pages_are_not_for_those_who_point_a_name_of_their_own_at_this_machine(
    service: str, request: pytest.FixtureRequest
) -> None:
    if service == "worker":
        port, page, open_pages = (
            request.getfixturevalue("worker_front").port,
            "/status",
            ["/healthz", "/readyz", "/metrics"],
        )
    elif service == "broker":
        port = web_port(request.getfixturevalue("open_broker"))
        page, open_pages = "/sets/scheduled", ["/health", "/metrics"]
    else:
        port = request.getfixturevalue("open_api").port
        page, open_pages = "/sets/scheduled", ["/healthz", "/readyz", "/metrics"]
    for host in REBOUND:
        assert status_of(port, page, host) == 403, host
        for open_page in open_pages:
            assert status_of(port, open_page, host) == 200, (host, open_page)
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}", "[::1]"):
        assert status_of(port, page, host) == 200, host


def status_of(port: int, path: str, host: str) -> int:
    with HttpSocket(port) as http:
        http.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return http.answer().status

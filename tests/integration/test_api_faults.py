"""Brokers that go away, clients that misbehave, and the end of the service: every answer is right,
and nothing is in doubt without being said."""

import asyncio
import contextlib
import gzip
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from devservers import BrokerServer, FaktoryServer
from devservers.api import ApiServer
from tests.conftest import ON_BOTH_SERVERS, AnyServer
from tests.support.broker_state import BrokerState
from tests.support.http_socket import HttpSocket
from tests.support.scripted_server import GREETING, Close, Expect, ScriptedServer
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

NDJSON = "Content-Type: application/x-ndjson"
CHUNKED = "Transfer-Encoding: chunked"
MEBIBYTE = 1024 * 1024
JOB = b'{"a": 1, "b": 2}'
# Of a job on its way to the broker; other commands are shorter.
SHORTEST_JOB_BYTES = 100
# In /proc/net/tcp.
ESTABLISHED = "01"


def line(queue: str = "default", **args: int) -> bytes:
    job = {"jobtype": "add", "args": {"a": 1, "b": 2} | args, "queue": queue}
    return json.dumps(job).encode() + b"\n"


@pytest.fixture(scope="module")
def broker_api(broker_process: BrokerServer) -> Iterator[ApiServer]:
    with ApiServer(broker_process) as api:
        yield api
        assert "Traceback" not in api.log_text, api.log_text


@pytest.fixture
def broker_state(broker_process: BrokerServer) -> BrokerState:
    return BrokerState(broker_process)


@pytest.fixture
def port(broker_api: ApiServer) -> Iterator[int]:
    """Of a service that is as well after the test as before."""
    yield broker_api.port
    with HttpSocket(broker_api.port) as http:
        http.request("POST", "/jobs/add", f"Content-Length: {len(JOB)}", body=JOB)
        assert http.answer().status == 202


# The broker


async def test_a_broker_that_comes_after_the_service_is_found(queue: str) -> None:
    with BrokerServer() as broker:
        broker.kill()
        with ApiServer(broker) as api:
            async with httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=20) as http:
                assert (await http.get("/healthz")).status_code == 200
                for response in (
                    await http.get("/readyz"),
                    await http.post("/jobs/add", content=JOB),
                    await http.post("/jobs", json=[]),
                    await http.get("/stats"),
                    await http.get("/queues"),
                    await http.get("/sets/dead"),
                    await http.post("/queues/default/pause"),
                    await http.post("/sets/dead/requeue", json={"all": True}),
                ):
                    assert response.status_code == 503
                    assert int(response.headers["retry-after"]) > 0
                    assert "outcome" not in response.json()
                assert "faktory_up 0.0" in (await http.get("/metrics")).text
                broker.start()
                await eventually(lambda: "ready" in text_at(f"{api.url}/readyz"))
                response = await http.post(f"/jobs/add?queue={queue}", content=JOB)
                assert response.status_code == 202
                assert len(BrokerState(broker).queue(queue)) == 1
                assert "faktory_up 1.0" in (await http.get("/metrics")).text


@pytest.mark.parametrize("kind", [BrokerServer, FaktoryServer])
async def test_a_broker_killed_between_a_request_and_its_answer_leaves_the_outcome_unknown(
    kind: type[AnyServer],
) -> None:
    with kind() as broker, ApiServer(broker) as api:
        broker.signal(signal.SIGSTOP)
        async with httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=20) as http:

            async def begin(**content: Any) -> asyncio.Task[httpx.Response]:
                """Post it, and see that the broker has been sent its jobs."""
                before = unread_bytes(broker.port)
                answering = asyncio.create_task(http.post(**content))
                await eventually(lambda: unread_bytes(broker.port) > before + SHORTEST_JOB_BYTES)
                return answering

            single = await begin(url="/jobs/add", content=JOB)
            many = await begin(url="/jobs", json=[json.loads(line())] * 3)
            jsonl = {"Content-Type": "application/jsonl"}
            stream = await begin(url="/jobs", content=line() * 3, headers=jsonl)
            assert "api_jobs_held 1.0" in text_at(api.url + "/metrics")
            broker.kill()
            for answering in (single, many, stream):
                response = await answering
                assert response.status_code == 503
                assert int(response.headers["retry-after"]) > 0
            assert (await single).json()["outcome"] == "unknown"
            assert len((await single).json()["jid"]) == 24
            assert (await many).json()["outcome"] == "unknown"
            assert [job["state"] for job in (await many).json()["jobs"]] == ["unknown"] * 3
            assert (await stream).json()["unknown_lines"] == [[1, 3]]
            assert (await stream).json()["next_line"] == 4
            broker.start()
            await eventually(lambda: "ready" in text_at(f"{api.url}/readyz"))
            assert (await http.post("/jobs/add", content=JOB)).status_code == 202


def text_at(url: str) -> str:
    return httpx.get(url, trust_env=False, timeout=20).text


def unread_bytes(port: int) -> int:
    """What a server on 127.0.0.1 has been sent and has not read, on all its connections."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(queues.partition(":")[2], 16)
        for _, local, _, state, queues, *_ in rows
        if local.endswith(f":{port:04X}") and state == ESTABLISHED
    )


async def test_a_connection_that_breaks_after_a_pushb_is_an_unknown_outcome() -> None:
    """The same without a race: the server hangs up instead of answering."""
    async with ScriptedServer((*GREETING, Expect(b"PUSHB ["), Close())) as broker:
        api = ApiServer(None, settings={"FAKTORY_URL": f"tcp://127.0.0.1:{broker.port}"})
        await asyncio.to_thread(api.start)
        try:
            async with httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=20) as http:
                response = await http.post("/jobs/add", content=JOB)
                assert (response.status_code, response.json()["outcome"]) == (503, "unknown")
        finally:
            await asyncio.to_thread(api.stop)


# The end of the service


@ON_BOTH_SERVERS
@pytest.mark.parametrize("processes", ["1", "2"])
async def test_sigterm_under_load_leaves_no_request_in_doubt(
    server: AnyServer, state: AnyState, queue: str, processes: str
) -> None:
    """What was answered with 202 is on the server, and what was not is not."""
    accepted: set[str] = set()
    refused = 0
    with ApiServer(server, settings={"API_PROCESSES": processes}) as api:
        stop = asyncio.Event()

        async def post_until_it_is_gone(http: httpx.AsyncClient) -> None:
            nonlocal refused
            while True:
                try:
                    response = await http.post(f"/jobs/add?queue={queue}", content=JOB)
                except httpx.TransportError:
                    # Closed before the request was read, or not listening any more.
                    return
                if response.status_code == 202:
                    accepted.add(response.json()["jid"])
                else:
                    assert response.status_code == 503
                    assert "outcome" not in response.json()
                    refused += 1
                if len(accepted) > 300:
                    stop.set()

        async def end() -> None:
            await stop.wait()
            api.signal(signal.SIGTERM)

        limits = httpx.Limits(max_connections=40)
        async with httpx.AsyncClient(
            base_url=api.url, trust_env=False, timeout=20, limits=limits
        ) as http:
            await asyncio.gather(end(), *(post_until_it_is_gone(http) for _ in range(40)))
        assert await asyncio.to_thread(api.wait_ended) == 0
        assert "Traceback" not in api.log_text
    assert {job["jid"] for job in state.queue(queue)} == accepted
    assert len(accepted) > 300


def stream_until_answered(http: HttpSocket, queue: str, started: threading.Event) -> None:
    """Send a line after the other, whatever happens."""
    with contextlib.suppress(OSError):
        while True:
            http.chunk(line(queue) * 100)
            started.set()


@ON_BOTH_SERVERS
async def test_sigterm_ends_an_endless_stream_and_says_where_to_go_on(
    server: AnyServer, state: AnyState, queue: str
) -> None:
    with ApiServer(server) as api, HttpSocket(api.port) as http:
        http.request("POST", "/jobs", NDJSON, CHUNKED)
        started = threading.Event()
        sender = threading.Thread(target=stream_until_answered, args=(http, queue, started))
        sender.start()
        await eventually(lambda: len(state.queue(queue)) > 2000)
        api.signal(signal.SIGTERM)
        answer = await asyncio.to_thread(http.answer)
        assert await asyncio.to_thread(api.wait_ended) == 0
        sender.join()
        report = answer.json()
        assert (answer.status, report["detail"]) == (503, "the service is shutting down")
        assert report["unknown_lines"] == report["unqueued_lines"] == []
        assert report["accepted"] == report["next_line"] - 1 == len(state.queue(queue))


@ON_BOTH_SERVERS
async def test_sigterm_ends_a_stream_that_says_nothing(
    server: AnyServer, state: AnyState, queue: str
) -> None:
    with ApiServer(server) as api, HttpSocket(api.port) as http:
        http.request("POST", "/jobs", NDJSON, CHUNKED)
        http.chunk(line(queue) * 3 + b'{"jobtype": "a')
        await eventually(lambda: len(state.queue(queue)) == 3)
        api.signal(signal.SIGTERM)
        answer = await asyncio.to_thread(http.answer)
        assert (answer.status, answer.json()["next_line"]) == (503, 4)
        assert answer.headers["connection"] == "close"
        assert await asyncio.to_thread(api.wait_ended) == 0


@ON_BOTH_SERVERS
async def test_a_service_that_ends_is_not_ready_and_takes_no_more(
    server: AnyServer, state: AnyState, queue: str
) -> None:
    """Two requests hold it open: one waits for the broker, one for the rest of its body."""
    with ApiServer(server) as api:
        server.signal(signal.SIGSTOP)
        try:
            with HttpSocket(api.port) as held, HttpSocket(api.port) as late:
                held.request("POST", f"/jobs/add?queue={queue}", f"Content-Length: {len(JOB)}")
                late.request("POST", "/jobs/add", f"Content-Length: {len(JOB)}")
                held.send(JOB)
                await eventually(lambda: "api_jobs_held 1.0" in text_at(api.url + "/metrics"))
                api.signal(signal.SIGTERM)
                await eventually(lambda: not is_listening(api.port))
                late.send(JOB)
                server.signal(signal.SIGCONT)
                assert held.answer().status == 202
                # It was let in before the end began.
                assert late.answer().status == 202
        finally:
            server.signal(signal.SIGCONT)
        assert await asyncio.to_thread(api.wait_ended) == 0
    assert len(state.queue(queue)) == 1


def is_listening(port: int) -> bool:
    try:
        HttpSocket(port).close()
    except OSError:
        return False
    return True


# Clients


@pytest.mark.parametrize(
    "path", ["/jobs/add", "/jobs", "/sets/dead/requeue"], ids=["single", "list", "set"]
)
def test_a_client_that_vanishes_in_the_middle_of_its_body_is_forgotten(
    port: int, broker_state: BrokerState, path: str
) -> None:
    before = broker_state.info()["total_enqueued"]
    for _ in range(20):
        with HttpSocket(port) as http:
            http.request("POST", path, "Content-Length: 100", body=b'{"a": 1,')
    with HttpSocket(port) as http:
        http.request("POST", path, CHUNKED)
        http.send(b"ffff\r\nabc")
    assert broker_state.info()["total_enqueued"] == before


async def test_of_a_stream_that_breaks_off_no_half_line_is_taken(
    port: int, broker_state: BrokerState, queue: str
) -> None:
    with HttpSocket(port) as http:
        http.request("POST", "/jobs", NDJSON, CHUNKED)
        http.chunk(line(queue) + line(queue)[:-1])
        await eventually(lambda: len(broker_state.queue(queue)) == 1)
    with HttpSocket(port) as http:
        http.request("GET", "/readyz")
        assert http.answer().status == 200
    assert len(broker_state.queue(queue)) == 1


async def test_a_client_that_does_not_wait_for_its_answer_does_not_hurt_others(
    port: int, broker_state: BrokerState, queue: str
) -> None:
    for _ in range(50):
        with HttpSocket(port) as http:
            path = f"/jobs/add?queue={queue}"
            http.request("POST", path, f"Content-Length: {len(JOB)}", body=JOB)
    await eventually(lambda: len(broker_state.queue(queue)) > 0)


def test_slow_clients_do_not_hold_up_others(port: int) -> None:
    slow = [HttpSocket(port) for _ in range(50)]
    for http in slow:
        http.request("POST", "/jobs/add", "Content-Length: 16", body=b'{"a"')
    with HttpSocket(port) as http:
        http.request("POST", "/jobs/add", f"Content-Length: {len(JOB)}", body=JOB)
        assert http.answer().status == 202
    for http in slow:
        http.send(b': 1, "b": 2}')
        assert http.answer().status == 202
        http.close()


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/jobs/add", [], b'{"a": 1, "b": "' + b"x" * MEBIBYTE + b'"}'),
        ("/jobs", [], b"[" + b" " * 16 * MEBIBYTE + b"]"),
        ("/jobs", ["Content-Encoding: gzip"], gzip.compress(bytes(200 * MEBIBYTE), mtime=0)),
        ("/sets/dead/kill", [], b" " * 2 * MEBIBYTE),
    ],
    ids=["single", "list", "bomb", "set"],
)
def test_a_body_that_is_too_large_is_refused(
    port: int, path: str, headers: list[str], body: bytes
) -> None:
    for announced in (True, False):
        with HttpSocket(port) as http:
            if announced:
                http.request("POST", path, f"Content-Length: {len(body)}", *headers, body=body)
            else:
                http.request("POST", path, CHUNKED, *headers)
                http.chunk(body)
                http.chunk(b"")
            answer = http.answer()
            assert (answer.status, answer.headers["content-type"]) == (
                413,
                "application/problem+json",
            )


def test_a_body_that_is_announced_as_too_large_is_not_asked_for(port: int) -> None:
    with HttpSocket(port) as http:
        http.request("POST", "/jobs/add", "Content-Length: 9999999999", "Expect: 100-continue")
        assert http.answer().status == 413


def test_a_line_that_is_too_large_is_named_and_those_before_it_are_queued(
    port: int, broker_state: BrokerState, queue: str
) -> None:
    body = line(queue) * 2 + b"x" * (MEBIBYTE + 1) + b"\n" + line(queue)
    with HttpSocket(port) as http:
        http.request("POST", "/jobs", NDJSON, f"Content-Length: {len(body)}", body=body)
        answer = http.answer()
    assert (answer.status, answer.json()["next_line"]) == (413, 3)
    assert (answer.json()["accepted"], len(broker_state.queue(queue))) == (2, 2)


def test_a_stream_of_any_length_takes_no_more_memory(
    port: int, broker_api: ApiServer, broker_state: BrokerState, queue: str
) -> None:
    """100,000 jobs and 500 MB of nothing between them."""
    body = gzip.compress((line(queue) * 1000 + (b" " * 10_000 + b"\n") * 500) * 100, 1)
    process = psutil.Process(broker_api.pid)
    before = process.memory_info().rss
    with HttpSocket(port) as http:
        length = f"Content-Length: {len(body)}"
        http.request("POST", "/jobs", NDJSON, "Content-Encoding: gzip", length)
        http.set_timeout(60)
        sender = threading.Thread(target=http.send, args=(body,))
        sender.start()
        answer = http.answer()
        sender.join()
    assert (answer.status, answer.json()["accepted"]) == (202, 100_000)
    assert process.memory_info().rss - before < 100 * MEBIBYTE
    assert broker_state.info()["queues"][queue] == 100_000


# What is no HTTP


@pytest.mark.parametrize(
    "head",
    [
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: abc\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: +16\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: 16, 16\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: 16\r\nContent-Length: 0\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nContent-Length: 16\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost : h\r\nContent-Length: 16\r\n\r\n",
        b"POST /jobs/add HTTP/1.1\r\nHost: h\r\nX: a\x00b\r\nContent-Length: 16\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b'+HI {"v":2}\r\n',
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read_at_all(
    port: int, broker_state: BrokerState, head: bytes
) -> None:
    before = broker_state.info()["total_enqueued"]
    smuggled = b"POST /jobs/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16\r\n\r\n" + JOB
    with HttpSocket(port) as http:
        http.send(head + JOB + smuggled)
        answer = http.answer()
        assert answer.status in (400, 501)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
        assert http.is_closed_by_server()
    assert broker_state.info()["total_enqueued"] == before


def test_a_head_without_end_is_refused(port: int) -> None:
    with HttpSocket(port) as http:
        http.send(b"GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with contextlib.suppress(OSError):
            for _ in range(100):
                http.send(b"X-Filling: " + b"x" * 10_000 + b"\r\n")
        assert http.answer().status == 431
        assert http.is_closed_by_server()


def test_one_header_without_end_is_refused(port: int) -> None:
    with HttpSocket(port) as http:
        http.send(b"GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Filling: ")
        with contextlib.suppress(OSError):
            for _ in range(1000):
                http.send(b"x" * 1000)
        assert http.answer().status == 431


@pytest.mark.slow
def test_a_head_that_does_not_come_is_not_waited_for(port: int) -> None:
    with HttpSocket(port) as silent, HttpSocket(port) as halting:
        halting.send(b"GET /stats HTTP/1.1\r\nHost: ")
        assert halting.answer().status == 408
        assert halting.is_closed_by_server()
        assert silent.is_closed_by_server()


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_an_offer_to_upgrade_is_left_alone_and_the_body_is_read(
    port: int, broker_state: BrokerState, queue: str, upgrade: str
) -> None:
    """Java's HTTP client makes this offer with every first request."""
    with HttpSocket(port) as http:
        for _ in range(2):
            http.request(
                *("POST", f"/jobs/add?queue={queue}", f"Content-Length: {len(JOB)}"),
                *("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}"),
                "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
                body=JOB,
            )
            assert http.answer().status == 202
    assert len(broker_state.queue(queue)) == 2


def test_requests_may_follow_each_other_without_waiting(port: int) -> None:
    one = b"POST /jobs/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16\r\n\r\n" + JOB
    with HttpSocket(port) as http:
        http.send(one * 10)
        assert [http.answer().status for _ in range(10)] == [202] * 10


def test_a_request_may_come_byte_by_byte(port: int) -> None:
    one = b"POST /jobs/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 16\r\n\r\n" + JOB
    with HttpSocket(port) as http:
        for byte in one:
            http.send(bytes([byte]))
        assert http.answer().status == 202

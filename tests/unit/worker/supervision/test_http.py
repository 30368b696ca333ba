"""The four pages of a worker service, seen by a client; the supervisor behind them is made up."""

import asyncio
import contextlib
import json
import socket
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from manyhands.shared.errors import ConfigError
from manyhands.worker.process.figures import IN_HAND
from manyhands.worker.service.families import single
from manyhands.worker.service.link import Figures
from manyhands.worker.supervision.http import open_listener, serve_http
from manyhands.worker.supervision.metrics import ServiceMetrics
from manyhands.worker.supervision.status import ChildState, Event, ServiceStatus
from tests.support.service_status import STARTED_AT, child, service, stage, turn

ANY_PORT = "127.0.0.1:0"


class FakeSupervisor:
    """State: what it says."""

    def __init__(self, status: ServiceStatus) -> None:
        self.status: ServiceStatus | None = status
        self.metrics = ServiceMetrics()

    def read(self) -> ServiceStatus:
        if self.status is None:
            raise RuntimeError("on purpose")
        return self.status


@contextlib.asynccontextmanager
async def shown(supervisor: FakeSupervisor) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        serve_http(ANY_PORT, supervisor.read, supervisor.metrics) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        yield client


async def answer(client: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    async with client.get(path) as response:
        assert response.content_type == "application/json"
        return response.status, json.loads(await response.text())


async def test_a_service_that_is_well():
    async with shown(FakeSupervisor(service(child()))) as client:
        for path in ("/healthz", "/readyz"):
            assert await answer(client, path) == (200, {"status": "ok", "reasons": []})


async def test_each_answer_is_of_its_own_moment_and_says_why():
    supervisor = FakeSupervisor(service(child(is_connected=False)))
    async with shown(supervisor) as client:
        assert (await answer(client, "/healthz"))[0] == 200
        assert await answer(client, "/readyz") == (
            503,
            {"status": "not ok", "reasons": ["worker: not connected to the server"]},
        )
        supervisor.status = service(child(state=ChildState.HUNG, silence_s=121))
        status, content = await answer(client, "/healthz")
        assert status == 503
        assert (
            content["reasons"][0] == "worker-0 (pid 4711) hangs: its loop has not turned for 121 s"
        )
        supervisor.status = service(child(), is_stopping=True)
        assert (await answer(client, "/readyz"))[0] == 503


async def test_metrics_are_prometheus_text():
    supervisor = FakeSupervisor(service(child()))
    supervisor.metrics.keep("worker", "worker-0", 1, Figures([single(IN_HAND, 12)]))
    async with shown(supervisor) as client, client.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = await response.text()
    sample = 'manyhands_worker_jobs_in_hand{process_id="worker-0",process_type="worker"} 12.0'
    assert sample in text.splitlines()
    assert "manyhands_worker_ready 1.0" in text.splitlines()


async def test_status_shows_everything():
    one = child("fetch-0", stages=[stage("fetch", "f.0")], turns=[turn("fetch", 4)], restarts=2)
    events = deque([Event(STARTED_AT, "fetch-0", "hung: killed")])
    supervisor = FakeSupervisor(service(one, queues={"f.0": 9}, events=events))
    async with shown(supervisor) as client:
        status, content = await answer(client, "/status")
    assert status == 200
    assert content["ready"] == {"status": "ok", "reasons": []}
    assert content["health"] == {"status": "ok", "reasons": []}
    (told,) = content["stages"]
    assert told == {
        "name": "fetch",
        "process_type": "fetch",
        "active": 4,
        "slots": 500,
        "pace": 1.0,
        "queue_depth": 9,
        "queue_lag_s": 0.0,
        "jobs_per_second": 0.0,
    }
    (process,) = content["service"]["children"]
    assert process["process_id"] == "fetch-0"
    assert process["state"] == "ready"
    assert process["restarts"] == 2
    assert process["stages"][0]["queues"] == ["f.0"]
    assert content["service"]["events"] == [
        {"at": STARTED_AT, "process_id": "fetch-0", "what": "hung: killed"}
    ]


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/status"])
async def test_only_get_and_head_are_answered_and_nobody_says_who_answers(path):
    async with shown(FakeSupervisor(service(child()))) as client:
        async with client.head(path) as response:
            assert response.status == 200
            assert await response.read() == b""
            assert "Server" not in response.headers
        async with client.post(path, data=b"x") as response:
            assert response.status == 405
            assert response.headers["Allow"] == "GET,HEAD"
            assert "Server" not in response.headers
            assert await response.json() == {"error": "Method Not Allowed"}


async def test_another_path_is_not_there():
    async with shown(FakeSupervisor(service(child()))) as client:
        assert await answer(client, "/") == (404, {"error": "Not Found"})


async def test_a_mistake_of_ours_is_an_answer_too(capsys):
    supervisor = FakeSupervisor(service(child()))
    async with shown(supervisor) as client:
        supervisor.status = None
        status, content = await answer(client, "/status")
        assert (status, content["error"]) == (
            500,
            "unhandled exception; the log has more",
        )
        supervisor.status = service(child())
        assert (await answer(client, "/readyz"))[0] == 200
    assert "on purpose" in capsys.readouterr().out


async def test_what_is_no_http_is_not_worth_a_line(caplog):
    async with serve_http(ANY_PORT, service, ServiceMetrics()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01 no HTTP at all\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_it_ends_although_a_client_stays_connected():
    async with serve_http(ANY_PORT, service, ServiceMetrics()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    await reader.read()
    writer.close()
    await writer.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_a_port_that_is_taken_is_said_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError) as caught:
            open_listener(bind)
    assert str(caught.value) == (
        f"WORKER_HTTP_BIND={bind}: something listens there already, maybe another worker; "
        "set another port, or 127.0.0.1:0 for any that is free"
    )


@pytest.mark.parametrize(
    ("bind", "said"),
    [
        ("7421", "WORKER_HTTP_BIND: '7421' is not host:port"),
        ("192.0.2.1:7421", "WORKER_HTTP_BIND=192.0.2.1:7421: cannot listen there: "),
        (
            "no.such.host.invalid:1",
            "WORKER_HTTP_BIND=no.such.host.invalid:1: cannot listen there: ",
        ),
    ],
)
def test_an_address_that_cannot_be_is_said_too(bind, said):
    with pytest.raises(ConfigError) as caught:
        open_listener(bind)
    assert str(caught.value).startswith(said)


def test_version_six_addresses_work():
    with open_listener("[::1]:0") as listener:
        assert listener.getsockname()[0] == "::1"

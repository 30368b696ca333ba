"""One connection over a transport that only remembers: what is said, and when it ends."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from manyhands.shared.http import limits
from manyhands.shared.http.protocol import HttpProtocol
from tests.support.virtual_time import run_in_virtual_time, turns

Message = MutableMapping[str, Any]
App = Callable[[Message, Any, Any], Awaitable[None]]
GET = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """State: what was written, and how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ends: list[str] = []
        self.is_stuck = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: Any) -> None:
        assert not self.ends, "a write after the end"
        self.written += bytes(data)

    def write_eof(self) -> None:
        self.ends.append("eof")

    def close(self) -> None:
        self.ends.append("close")

    def abort(self) -> None:
        self.ends.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.ends or "abort" in self.ends

    def get_write_buffer_size(self) -> int:
        return 1 if self.is_stuck else 0

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in self.written.split(b"HTTP/1.1 ")[1:]]


async def echo(scope: Message, receive: Any, send: Any) -> None:
    """Reads its body, unless it is asked not to; its answer is the path."""
    if scope["path"] != "/unread":
        while (await receive()).get("more_body"):
            pass
    body = scope["path"].encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def configured(app: App = echo, connections: int | None = None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        limit_concurrency=connections,
    )
    config.load()
    return config


def connect(app: App = echo) -> tuple[HttpProtocol, Wire]:
    protocol, wire = HttpProtocol(configured(app), ServerState(), {}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        await test()

    run_in_virtual_time(go())


async def test_many_small_requests_in_one_read_are_all_answered():
    protocol, wire = connect()
    protocol.data_received(b"".join(GET % number for number in range(50)))
    await turns(300)
    assert wire.statuses == [200] * 50
    assert wire.ends == []


async def test_a_read_of_small_requests_that_ends_in_half_of_one_counts_for_none():
    protocol, wire = connect()
    many = (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 1000 + b"\r\n\r\n") * 80
    assert len(many) > limits.HEAD_BYTES
    protocol.data_received(many + b"GET / HT")
    protocol.data_received(b"TP/1.1\r\nHost: h\r\n\r\n")
    await turns(500)
    assert wire.statuses == [200] * 81


async def test_requests_that_wait_for_their_answers_have_a_number():
    """Those before are answered first, and none behind is begun."""
    protocol, wire = connect()
    protocol.data_received(GET % 1 * (limits.PIPELINED + 50))
    await turns(1000)
    assert wire.statuses == [200] * (limits.PIPELINED + 1) + [429]
    assert wire.ends[0] == "eof"


async def test_nonsense_behind_a_request_does_not_pass_for_its_answer():
    protocol, wire = connect()
    protocol.data_received(GET % 1 + b"NONSENSE\r\n\r\n")
    await turns()
    assert wire.statuses == [200, 400]
    protocol, wire = connect()
    protocol.data_received(GET % 1 + CHUNKED + b"nonsense\r\n")
    await turns()
    assert wire.statuses == [200, 400]


async def test_trailers_are_no_headers():
    seen: list[Any] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        await echo(scope, receive, send)

    protocol, wire = connect(app)
    protocol.data_received(CHUNKED + b"1\r\nx\r\n0\r\nX-Api-Key: mine\r\n\r\n")
    await turns()
    assert wire.statuses == [200]
    assert [name for name, _ in seen] == [b"host", b"transfer-encoding"]


async def test_large_bodies_pay_for_nothing_that_comes_behind_them():
    protocol, wire = connect()
    protocol.data_received(CHUNKED)
    for _ in range(100):
        protocol.data_received(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        await turns()
    protocol.data_received(b"0\r\nX: ")
    for _ in range(limits.HEAD_BYTES // 1000 + 1):
        assert not wire.ends
        protocol.data_received(b"x" * 1000)
    await turns()
    assert wire.statuses == [431]
    assert wire.ends == ["eof"]


async def test_lines_that_come_as_chunks_may_go_on_for_ever():
    protocol, wire = connect()
    protocol.data_received(CHUNKED)
    for _ in range(20_000):
        protocol.data_received(b"6\r\nhttp:\n\r\n")
        await asyncio.sleep(0)
    protocol.data_received(b"0\r\n\r\n")
    await turns()
    assert wire.statuses == [200]
    assert wire.ends == []


async def test_a_head_that_came_at_once_has_a_limit_too():
    protocol, wire = connect()
    protocol.data_received(
        b"POST / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * limits.HEAD_BYTES + b"\r\n\r\n"
    )
    await turns()
    assert wire.statuses == [431]


async def test_a_large_body_in_the_read_of_its_head_is_no_head():
    protocol, wire = connect()
    size = 3 * limits.HEAD_BYTES
    protocol.data_received(
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    )
    await turns()
    assert wire.statuses == [200]
    assert wire.ends == []


def test_who_is_answered_before_he_has_sent_all_is_listened_to_for_a_moment():
    async def test() -> None:
        loop = asyncio.get_running_loop()
        protocol, wire = connect()
        protocol.data_received(CHUNKED.replace(b"/ ", b"/unread ", 1) + b"1\r\nx\r\n")
        await turns()
        assert wire.statuses == [200]
        assert b"connection: close" in wire.written
        assert wire.ends == ["eof"]
        began = loop.time()
        while "abort" not in wire.ends:
            protocol.data_received(b"1\r\nx\r\n")
            await asyncio.sleep(0.1)
        assert loop.time() - began == pytest.approx(limits.LINGER_S, abs=0.2)

    run(test)


async def test_who_goes_on_sending_much_is_cut_off():
    protocol, wire = connect()
    protocol.data_received(CHUNKED.replace(b"/ ", b"/unread ", 1))
    await turns()
    for _ in range(limits.LINGER_BYTES // 65536 + 1):
        protocol.data_received(b"x" * 65536)
    assert wire.ends == ["eof", "abort"]


def test_a_short_rest_that_does_not_come_is_not_waited_for():
    async def test() -> None:
        protocol, wire = connect()
        protocol.data_received(b"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        await turns()
        assert wire.statuses == [200]
        await asyncio.sleep(limits.HEAD_WITHIN_S + 1)
        assert wire.ends[0] == "eof"

    run(test)


def test_a_head_that_trickles_is_not_waited_for():
    async def test() -> None:
        protocol, wire = connect()
        protocol.data_received(b"GET / HTTP/1.1\r\n")
        while not wire.ends:
            protocol.data_received(b"X: y\r\n")
            await asyncio.sleep(1)
        assert wire.statuses == [408]
        assert asyncio.get_running_loop().time() == pytest.approx(limits.HEAD_WITHIN_S, abs=1.1)

    run(test)


def test_who_does_not_take_his_answer_is_cut_off():
    async def test() -> None:
        protocol, wire = connect()
        protocol.pause_writing()
        await asyncio.sleep(limits.TAKES_WITHIN_S - 1)
        protocol.resume_writing()
        protocol.pause_writing()
        await asyncio.sleep(limits.TAKES_WITHIN_S - 1)
        assert "abort" not in wire.ends
        await asyncio.sleep(2)
        assert "abort" in wire.ends

    run(test)


async def test_one_connection_too_many_is_told_so():
    config = configured(connections=1)
    state = ServerState()
    wires = [Wire(), Wire()]
    for wire in wires:
        HttpProtocol(config, state, {}).connection_made(wire)
    assert wires[0].ends == []
    assert wires[1].statuses == [503]
    assert wires[1].ends == ["close"]


async def test_offers_to_upgrade_that_come_one_behind_the_other_are_all_left_alone():
    protocol, wire = connect()
    offer = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    protocol.data_received(offer * 2000)
    await turns(1000)
    assert wire.statuses == [200] * (limits.PIPELINED + 1) + [429]

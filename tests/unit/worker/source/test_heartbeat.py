"""BEATs from a thread: whom they are for, what their answers mean, and that nothing ends them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from manyhands.shared.errors import ConnectFailed, ConnectionLost
from manyhands.shared.faktory import backoff
from manyhands.shared.faktory.codec import ErrorReply
from manyhands.shared.faktory.dialer import Dialer
from manyhands.worker.source import heartbeat as heartbeat_module
from manyhands.worker.source.heartbeat import (
    BlockingConnection,
    Heartbeat,
    HeartbeatEvents,
)
from tests.support.scripted_server import (
    GREETING,
    HI,
    OK,
    Close,
    Expect,
    Say,
    ScriptedServer,
    Step,
    bulk,
    eventually,
)


class Told:
    def __init__(self) -> None:
        self.states: list[str] = []
        self.unknown: list[str] = []
        self.took_s: list[float] = []

    def events(self) -> HeartbeatEvents:
        return HeartbeatEvents(self.states.append, self.unknown.append, self.took_s.append)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.001)
    monkeypatch.setattr(heartbeat_module, "INTERVAL_S", 0.001)


@asynccontextmanager
async def beating(
    wids: list[str], *scripts: tuple[Step, ...]
) -> AsyncIterator[tuple[ScriptedServer, Told, Heartbeat]]:
    told = Told()
    async with ScriptedServer(*scripts) as server:
        thread = Heartbeat(Dialer(server.address()), lambda: wids, told.events())
        thread.start()
        try:
            yield server, told, thread
        finally:
            thread.stop()
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()


async def test_every_id_is_beaten_for_and_the_answers_are_told():
    answers = (OK, Expect(b"BEAT"), Expect(b"BEAT"), bulk(b'{"state":"quiet"}'))
    script = (*GREETING, Expect(b"BEAT"), *answers, Say(b"-ERR unknown worker w3\r\n"))
    async with beating(["w1", "w2", "w3"], script) as (server, told, _):
        await eventually(lambda: told.unknown)
        for wid, line in zip((b'"w1"', b'"w2"', b'"w3"'), server.lines[0][1:4], strict=True):
            assert wid in line
        assert told.states == ["quiet"]
        assert told.unknown == ["w3"]
        assert told.took_s[0] >= 0


async def test_a_beat_says_the_state_of_the_worker():
    script = (*GREETING, *(Expect(b"BEAT"), OK) * 500)
    async with beating(["w1"], script) as (server, _, thread):
        thread.state = "quiet"
        await eventually(
            lambda: any(b'"current_state":"quiet"' in line for got in server.lines for line in got)
        )


async def test_a_lost_connection_is_made_again():
    async with beating(
        ["w1"], (*GREETING, Expect(b"BEAT"), Close()), (*GREETING, Expect(b"BEAT"), OK)
    ) as (server, _, _thread):
        await eventually(lambda: len(server.lines) > 1 and len(server.lines[1]) > 1)


async def test_an_answer_too_many_does_not_end_the_heartbeat():
    odd = (*GREETING, Expect(b"BEAT"), Say(b"+OK\r\n+OK\r\n"))
    async with beating(["w1"], odd, (*GREETING, Expect(b"BEAT"), OK)) as (server, told, thread):
        await eventually(lambda: told.took_s)
        await eventually(lambda: not thread.is_alive() or len(server.lines) > 1)
        assert thread.is_alive()


async def test_an_unreadable_answer_does_not_end_the_heartbeat():
    odd = (*GREETING, Expect(b"BEAT"), Say(b"+what?\r\n"))
    async with beating(["w1"], odd, (*GREETING, Expect(b"BEAT"), OK)) as (server, _, thread):
        await eventually(lambda: len(server.lines) > 1 and len(server.lines[1]) > 1)
        assert thread.is_alive()


async def test_a_blocking_connection_asks_and_reads_as_many_answers():
    script = (*GREETING, Expect(b"A"), Expect(b"B"), Say(b"+OK\r\n-ERR no\r\n"), Close())
    async with ScriptedServer(script) as server:
        connection = await asyncio.to_thread(BlockingConnection, Dialer(server.address()))
        answers = await asyncio.to_thread(connection.ask, [b"A\r\n", b"B\r\n"])
        assert answers == ["OK", ErrorReply("ERR", "no")]
        with pytest.raises(ConnectionLost):
            await asyncio.to_thread(connection.ask, [b"C\r\n"])
        connection.close()


async def test_a_failed_login_leaves_no_socket_open(monkeypatch):
    opened: list[socket.socket] = []
    connect = socket.create_connection

    def connect_and_remember(address: tuple[str, int], timeout: float) -> socket.socket:
        opened.append(connect(address, timeout))
        return opened[0]

    monkeypatch.setattr(socket, "create_connection", connect_and_remember)
    script = (HI, Expect(b"HELLO"), Say(b"-ERR Invalid password\r\n"))
    async with ScriptedServer(script) as server:
        with pytest.raises(ConnectFailed):
            await asyncio.to_thread(BlockingConnection, Dialer(server.address()))
    is_closed = opened[0].fileno() == -1
    opened[0].close()
    assert is_closed

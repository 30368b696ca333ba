"""A whole broker without sockets: what is written to a connection is kept, and time is a number."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from manyhands.broker import store as store_module
from manyhands.broker.clients import Clients
from manyhands.broker.handout import FETCH_BLOCKS_S
from manyhands.broker.manager import Manager
from manyhands.broker.memory import Memory
from manyhands.broker.server import Connection, Server
from manyhands.broker.store import Store
from manyhands.broker.verbs import Verbs
from tests.unit.broker.clocks import set_clocks

MAX_LINE = 65_536
MEMORY = 100_000_000
START = 1_700_000_000.0
ROUNDS = 1000
WAIT_S = 10.0


class FakeTransport(asyncio.Transport):
    """State: what was written, and whether it is closed; tells its connection as asyncio does."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._is_closing = False
        self.is_paused = False
        self.written = b""
        self.unread = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self._is_closing, "a write after the end"
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self.unread

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Client:
    """One end of a connection."""

    def __init__(self, server: Server) -> None:
        self.connection = Connection(server)
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.connection.data_received(data)

    def read(self) -> bytes:
        """What was written since the last look."""
        written, self.transport.written = self.transport.written, b""
        return written

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()


class Broker:
    """The layers put together as the process does; `errors` is what the loop had to catch."""

    def __init__(self, directory: Path, password: str = "") -> None:
        self.now = START
        self.errors: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self._patch = pytest.MonkeyPatch()
        set_clocks(self._patch, wall=lambda: self.now, monotonic=lambda: self.now)
        self._patch.setattr(store_module, "BALLAST_BYTES", 4096)
        self.store = Store(directory, is_full_sync=False, loop=loop, memory=Memory(MEMORY))
        self.clients = Clients()
        self.manager = Manager(self.store, self.store.load(), self.now)
        self.verbs = Verbs(self.manager, self.clients)
        self.server = Server(self.verbs, self.clients, password=password, max_line=MAX_LINE)

    def connect(self, hello: bytes = b'{"v":2}') -> Client:
        client = Client(self.server)
        client.send(b"HELLO " + hello + b"\r\n")
        assert client.read().endswith(b"+OK\r\n")
        return client

    async def committed(self) -> None:
        """All that was asked for so far is stored and answered."""
        stored = asyncio.Event()
        self.store.batch.when_stored.append(stored.set)
        async with asyncio.timeout(WAIT_S):
            await stored.wait()

    async def answered(self, client: Client) -> None:
        """Every command of a client has its answer, if only that there is no job."""
        for _ in range(ROUNDS):
            await self.committed()
            if client.is_closed or not client.connection.answers.waiting:
                return
            self.pass_time(FETCH_BLOCKS_S)
        raise AssertionError("a command has no answer")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.manager.handout.end_waits(self.now)

    async def close(self) -> None:
        await self.committed()
        self.server.close_all()
        await asyncio.sleep(0)
        self.store.close()
        self._patch.undo()
        assert self.errors == []

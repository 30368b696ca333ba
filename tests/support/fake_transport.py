"""A transport that only remembers, and connections over it that are logged in already."""

import asyncio
from typing import Any, cast

from manyhands.shared.faktory.connection import Connection
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import ServerAddress, ServerHello


class FakeSocket:
    """Takes the options that a real socket would."""

    def __init__(self) -> None:
        self.options: list[tuple[int, int, int]] = []

    def setsockopt(self, level: int, name: int, value: int) -> None:
        self.options.append((level, name, value))


class FakeTransport(asyncio.Transport):
    """State: each write, whether it was aborted, and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.socket = FakeSocket()
        self.writes: list[bytes] = []
        self.is_aborted = False
        self.is_paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.socket if name == "socket" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_aborted, "a write after the end"
        self.writes.append(bytes(data))

    def abort(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    @property
    def sent(self) -> bytes:
        return b"".join(self.writes)


def logged_in() -> tuple[Connection, FakeTransport]:
    """A connection whose handshake is over."""
    transport = FakeTransport()
    connection = Connection()
    connection.connection_made(transport)
    connection.data_received(b'+HI {"v":2}\r\n')
    return connection, transport


class FakeDialer(Dialer):
    """Gives connections over fake transports, as soon as the test lets it: call `let_in`."""

    def __init__(self) -> None:
        super().__init__(ServerAddress("server.example", 7419))
        self.wids: list[str | None] = []
        self.connections: list[Connection] = []
        self.extensions = 0
        self._allowed = asyncio.Semaphore(0)

    def let_in(self, count: int = 1) -> None:
        for _ in range(count):
            self._allowed.release()

    async def dial(self, wid: str | None = None) -> Connection:
        await self._allowed.acquire()
        self.wids.append(wid)
        connection, _ = logged_in()
        connection.server = ServerHello(extensions=self.extensions)
        self.connections.append(connection)
        return connection

    def transport(self, number: int) -> FakeTransport:
        return cast("FakeTransport", self.connections[number]._transport)

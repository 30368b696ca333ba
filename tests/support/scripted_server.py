"""A server on 127.0.0.1 that follows a script, one for each connection that it takes."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from manyhands.shared.faktory.handshake import ServerAddress
from tests.support.stream_server import StreamServer


@dataclass(frozen=True)
class Say:
    """Send these bytes at once."""

    data: bytes


@dataclass(frozen=True)
class Drip:
    """Send these bytes one by one."""

    data: bytes


@dataclass(frozen=True)
class Expect:
    """Read a line, which must start so."""

    prefix: bytes


@dataclass(frozen=True)
class Silence:
    """Say nothing until told; without an event, until the end."""

    until: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Close:
    """Hang up."""


LONGEST_LINE_BYTES = 2**24
Step = Say | Drip | Expect | Silence | Close
HI = Say(b'+HI {"v":2}\r\n')
OK = Say(b"+OK\r\n")
GREETING: tuple[Step, ...] = (HI, Expect(b"HELLO {"), OK)


def bulk(body: bytes) -> Say:
    return Say(b"$%d\r\n%s\r\n" % (len(body), body))


async def eventually(condition: Callable[[], object]) -> None:
    """Give the loop its turns until something holds; the test's own time-out is the limit."""
    while not condition():  # noqa: ASYNC110 - what is awaited is not ours to put an event into
        await asyncio.sleep(0.001)


class ScriptedServer(StreamServer):
    """Connection n follows script n; further ones repeat the last. State: what was received."""

    def __init__(self, *scripts: Sequence[Step], tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self.lines: list[list[bytes]] = []
        self.closed_by_client = 0
        self._scripts = scripts
        self._tls = tls
        self._surprises: list[str] = []

    def address(self, *, password: str = "", is_tls: bool = False) -> ServerAddress:
        return ServerAddress("127.0.0.1", self.port, is_tls=is_tls, password=password)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=self._tls, limit=LONGEST_LINE_BYTES
        )

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await super().__aexit__(kind, error, trace)
        if error is None:
            assert self._surprises == []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        number = len(self.lines)
        self.lines.append([])
        try:
            for step in self._scripts[min(number, len(self._scripts) - 1)]:
                await self._follow(step, reader, writer, self.lines[number])
            # The script is over: take whatever comes, say nothing, until the other side leaves.
            while line := await reader.readline():
                self.lines[number].append(line)
            self.closed_by_client += 1
        except (ConnectionError, _HangUp):
            pass
        except asyncio.CancelledError:
            # The test is over; asyncio's own callback would report the cancellation as an error.
            pass
        finally:
            writer.transport.abort()

    async def _follow(
        self,
        step: Step,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lines: list[bytes],
    ) -> None:
        match step:
            case Say(data):
                writer.write(data)
                await writer.drain()
            case Drip(data):
                for byte in data:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
            case Expect(prefix):
                line = await reader.readline()
                if not line:
                    raise _HangUp
                lines.append(line)
                if not line.startswith(prefix):
                    self._surprises.append(f"expected {prefix!r}, got {line!r}")
            case Silence(until):
                await until.wait()
            case Close():
                writer.close()
                await writer.wait_closed()
                raise _HangUp


class _HangUp(Exception):
    """One side closed the connection: its script ends."""

"""A server of streams in the test's event loop: it listens, and ends with all that it serves."""

import asyncio
from typing import Self


class StreamServer:
    """Subclasses listen, and put the tasks of their connections into `_tasks`. State: those, and
    the port, which is known when it listens."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def _listen(self) -> asyncio.Server:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._server = await self._listen()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

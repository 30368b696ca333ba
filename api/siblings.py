"""Figures of all processes of the service: the one that is asked asks the others.

Each process listens on its own socket in a shared directory. Figures are not kept in files: those
of dead processes would slow down every scrape for ever.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
from prometheus_client import CollectorRegistry

from manyhands.api.metrics import Snapshot, snapshot

ANSWER_WITHIN_S = 1.0


@contextlib.asynccontextmanager
async def answering(directory: Path, registry: CollectorRegistry) -> AsyncIterator[None]:
    """Send this process's figures to every process that connects."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(orjson.dumps(snapshot(registry)))
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    path = directory / f"{os.getpid()}.sock"
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def ask_all(directory: Path) -> list[Snapshot]:
    """What each process that is alive has counted."""
    answers = await asyncio.gather(*map(_ask, _sockets(directory)))
    return [answer for answer in answers if answer is not None]


def _sockets(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.sock"))


async def _ask(path: Path) -> Snapshot | None:
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                answer: Snapshot = orjson.loads(await reader.read())
            finally:
                writer.close()
            return answer
    except (OSError, TimeoutError, orjson.JSONDecodeError):
        return None

"""Starts the services as processes of their own, on free ports, and ends them."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import orjson

from shared.errors import ManyhandsError
from shared.settings.names import VARIABLE_PREFIXES

START_S = 15.0
LOOK_EVERY_S = 0.05
ROOT = Path(__file__).resolve().parent.parent


class ServiceFailed(ManyhandsError):
    """A service did not start, or ended by itself."""


@asynccontextmanager
async def service(
    name: str, directory: Path, **settings: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m name` with these settings and no others; ended with SIGTERM. Variables of the
    person who runs this, and the files of the current directory, are meant for services of theirs;
    so it runs in another directory."""
    others = {
        key: value for key, value in os.environ.items() if not key.startswith(VARIABLE_PREFIXES)
    }
    path = os.pathsep.join(filter(None, (str(ROOT), others.get("PYTHONPATH"))))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", name),
        cwd=directory,
        env=others | {"PYTHONPATH": path} | settings,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


@asynccontextmanager
async def broker(directory: Path) -> AsyncIterator[dict[str, str]]:
    """Gives its first log line, which tells its addresses."""
    settings = {"BROKER_BIND": "127.0.0.1:0", "BROKER_HTTP_BIND": "127.0.0.1:0"}
    async with service("broker", directory, **settings) as process:
        yield await _ready_line(process)


async def _ready_line(process: asyncio.subprocess.Process) -> dict[str, str]:
    assert process.stderr is not None
    said = b""
    try:
        async with asyncio.timeout(START_S):
            while line := await process.stderr.readline():
                said += line
                if b'"event": "ready"' in line:
                    ready: dict[str, str] = orjson.loads(line)
                    return ready
    except TimeoutError:
        pass
    raise ServiceFailed(f"the broker did not start: {said.decode(errors='replace').strip()}")


@asynccontextmanager
async def api(
    directory: Path, broker_url: str, broker_http: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Gives a client for it, when it is ready."""
    bind = f"127.0.0.1:{_free_port()}"
    settings = {"FAKTORY_URL": broker_url, "FAKTORY_WEB_URL": f"http://{broker_http}"}
    async with (
        service("api", directory, **settings, API_BIND=bind, API_LOG_LEVEL="error") as process,
        httpx.AsyncClient(base_url=f"http://{bind}") as client,
    ):
        await _until_ready(process, client)
        yield client


async def _until_ready(process: asyncio.subprocess.Process, client: httpx.AsyncClient) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.returncode is None:
        try:
            if (await client.get("/readyz")).is_success:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(LOOK_EVERY_S)
    assert process.stderr is not None
    if process.returncode is None:
        process.terminate()
    said = (await process.stderr.read()).decode(errors="replace").strip()
    raise ServiceFailed(f"the API did not start: {said}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port

"""Pages of a process that has other work and a loop of its own."""

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn

from manyhands.shared.http.limits import PAGE_CONNECTIONS, PAGES_DRAIN_S
from manyhands.shared.http.protocol import HttpProtocol

# Of every HTTP server of ours.
SERVER_OPTIONS: dict[str, Any] = {
    "http": HttpProtocol,
    "ws": "none",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    "proxy_headers": False,
}


class _Server(uvicorn.Server):
    """Signals are the process's own affair."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """Opened here: for a port that is taken, uvicorn would end the process in its own way. Raises
    OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


@contextlib.asynccontextmanager
async def serving(app: Any, listener: socket.socket) -> AsyncIterator[None]:
    """Serve an ASGI application while the context is open."""
    # It would tell of every start, and of every request that is no HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        **SERVER_OPTIONS,
        lifespan="off",
        date_header=False,
        limit_concurrency=PAGE_CONNECTIONS,
        timeout_graceful_shutdown=PAGES_DRAIN_S,
    )
    server = _Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield
    finally:
        await server.shutdown(sockets=[listener])

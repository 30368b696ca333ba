"""`python -m loadtest.bench.ingest.reference_apps NAME PORT`: what `bench-ingest` compares the API
with.

Both answer every POST at once and with the same words, and do nothing else: what they cost is what
the web server and the framework cost.
"""

import argparse
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from fastapi import FastAPI

# The same as in api/__main__.py; a unit test holds it.
UVICORN: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "ws": "none",
    "lifespan": "on",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    "proxy_headers": False,
}
ANSWER = {"jid": "7a1c0f6b2f6a4d0fb2f1c9d3", "queue": "default"}
ANSWER_BYTES = b'{"jid":"7a1c0f6b2f6a4d0fb2f1c9d3","queue":"default"}'
HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(ANSWER_BYTES)).encode()),
]

Message = MutableMapping[str, Any]

empty_fastapi = FastAPI()


@empty_fastapi.post("/jobs/add", status_code=202)
async def take() -> dict[str, str]:
    return ANSWER


async def raw_asgi(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    # A body as small as these comes in one piece.
    await receive()
    await send({"type": "http.response.start", "status": 202, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER_BYTES})


APPS: dict[str, Any] = {"fastapi": empty_fastapi, "asgi": raw_asgi}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtest.bench.ingest.reference_apps")
    parser.add_argument("name", choices=list(APPS))
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    uvicorn.run(APPS[options.name], host="127.0.0.1", port=options.port, **UVICORN)
    return 0


if __name__ == "__main__":
    sys.exit(main())

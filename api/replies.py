"""Raw answers, for the one route that is too busy for a framework; what all answers carry; and
answers that come while the client is still sending."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from api.bodies import Receive
from api.problems import Problem

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# How long a client that is told to stop may go on sending before it is cut off.
LINGER_S = 2.0

SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_JSON = (b"content-type", b"application/json")


async def send_json(
    send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    await _send_whole(send, status, (_JSON, *headers), body)


async def send_problem(send: Send, problem: Problem) -> None:
    headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    await _send_whole(send, problem.status, headers, problem.body())


async def _send_whole(
    send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, length, *SECURITY_HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": body})


def with_security_headers(send: Send) -> Send:
    async def send_secured(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
        await send(message)

    return send_secured


class BodyWatch:
    """State: whether the client may have more of its body to send."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._has_more = True

    async def receive(self) -> MutableMapping[str, Any]:
        message: MutableMapping[str, Any] = await self._receive()
        self._has_more = message.get("more_body", False)
        return message

    async def discard_rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while self._has_more:
                    await self.receive()


def linger_if(is_wanted: Callable[[], bool], watch: BodyWatch, send: Send) -> Send:
    """Read on after the answer, before the server closes the connection: closed with unread bytes
    in it, it is reset, and the client may never see the answer."""

    async def send_and_linger(message: MutableMapping[str, Any]) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_last and is_wanted():
            await send({**message, "more_body": True})
            await watch.discard_rest()
            message = {"type": "http.response.body", "body": b""}
        await send(message)

    return send_and_linger

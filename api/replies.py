"""Raw answers, for the one route that is too busy for a framework, and what all answers carry."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from manyhands.api.problems import Problem

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

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

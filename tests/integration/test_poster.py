"""The load generator of bench-ingest: it counts what it is told, however it comes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loadtest.bench.ingest.poster import JSON, Post, build_poster, post
from loadtest.lib.errors import RunError

BODY = b'{"a": 1}'
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-type: text/plain\r\nContent-Length: 5\r\n\r\ntaken"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def poster() -> Path:
    return build_poster()


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that answers the requests in turn, whatever they are; its port and what it read."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                seen.append(head + await reader.readexactly(length))
                await answers[(len(seen) - 1) % len(answers)](writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


def whole(answer: bytes) -> Answer:
    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return send


async def in_pieces(writer: asyncio.StreamWriter) -> None:
    for start in range(0, len(ACCEPTED), 20):
        writer.write(ACCEPTED[start : start + 20])
        await writer.drain()
        await asyncio.sleep(0.001)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.write(ACCEPTED[:30])
    writer.close()


async def test_as_many_requests_as_asked_for_are_sent_and_their_answers_counted(poster):
    async with serving(whole(ACCEPTED), in_pieces, whole(REFUSED)) as (port, seen):
        order = Post("/jobs/add?x=1", BODY, JSON, connections=3, count=30)
        posted = await asyncio.to_thread(post, poster, port, order)
    assert posted.statuses == {"202": 20, "503": 10}
    assert posted.requests == len(seen) == 30
    assert seen[0].startswith(b"POST /jobs/add?x=1 HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in seen[0]
    assert all(request.endswith(b"\r\n\r\n" + BODY) for request in seen)
    assert 0 < posted.p50_ms <= posted.p95_ms <= posted.p99_ms <= posted.most_ms


async def test_a_run_by_time_ends_with_every_request_answered(poster):
    async with serving(whole(ACCEPTED)) as (port, seen):
        order = Post("/", BODY, JSON, connections=4, seconds=1)
        posted = await asyncio.to_thread(post, poster, port, order)
    assert posted.statuses == {"202": len(seen)}
    assert len(seen) >= 4


async def test_a_body_that_is_larger_than_a_socket_takes_is_sent_whole(poster):
    body = b"x" * 20_000_000
    async with serving(whole(ACCEPTED)) as (port, seen):
        order = Post("/", body, JSON, connections=1, count=2)
        posted = await asyncio.to_thread(post, poster, port, order)
    assert posted.statuses == {"202": 2}
    assert [request.partition(b"\r\n\r\n")[2] == body for request in seen] == [True, True]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hang_up, "closed a connection"),
        (whole(b"HTTP/1.1 202 Accepted\r\n\r\n"), "no known length"),
        (whole(b"SSH-2.0 hello you\r\n\r\n"), "not an answer"),
        (whole(ACCEPTED + ACCEPTED), "more than an answer"),
    ],
)
async def test_what_is_no_answer_ends_the_run_with_a_reason(poster, answer, reason):
    async with serving(answer) as (port, _):
        with pytest.raises(RunError, match=reason):
            await asyncio.to_thread(post, poster, port, Post("/", BODY, JSON, 1, count=1))


async def test_nobody_there_is_a_reason_too(poster):
    with pytest.raises(RunError, match="connect to"):
        await asyncio.to_thread(post, poster, 1, Post("/", BODY, JSON, 1, count=1))

"""The lines of a request that has any number of them, with what every such request is held to: its
share of memory, the pace of its key, and the end of the service."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from manyhands.api.bodies import (
    ZSTD_WINDOW_BYTES,
    Chunks,
    Lines,
    Receive,
    Unpacker,
    unpacker,
)
from manyhands.api.guard import RequestHeaders
from manyhands.api.keys import Key
from manyhands.api.parts import Parts, pay
from manyhands.api.problems import Problem
from manyhands.api.stream import Pay

NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
# What a stream counts for among others; it rarely holds more, but for what unpacks it.
STREAM_BYTES = 1024 * 1024


@dataclass(slots=True, frozen=True)
class BodyLines:
    """What a LineStream needs of its request."""

    chunks: Chunks
    unpacker: Unpacker
    lines: Lines
    pay: Pay
    stop: asyncio.Future[Problem]


@contextlib.contextmanager
def body_lines(
    parts: Parts, key: Key, visit: RequestHeaders, receive: Receive
) -> Iterator[BodyLines]:
    """The body counts among the streams while the context is open. Raises Problem."""
    unpack = unpacker(visit.content_encoding)
    with parts.streams.hold(key, _held_bytes(visit)), parts.stoppable() as stop:
        yield BodyLines(
            Chunks(receive, stop),
            unpack,
            Lines(parts.settings.max_line_bytes),
            lambda count: pay(key, count, stop),
            stop,
        )


def _held_bytes(visit: RequestHeaders) -> int:
    return STREAM_BYTES + (ZSTD_WINDOW_BYTES if visit.content_encoding == "zstd" else 0)

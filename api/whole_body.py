"""A request's body that is read and unpacked as a whole, before anything is done with it."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import Request

from manyhands.api.bodies import read_body, unpack_whole
from manyhands.api.guard import RequestHeaders
from manyhands.api.parts import Parts
from manyhands.api.problems import too_large


@contextlib.asynccontextmanager
async def whole_body(request: Request, parts: Parts, limit: int) -> AsyncIterator[bytes]:
    """At most `limit` bytes, also after unpacking. The body counts against its key's share of
    memory while the context is open. Raises Problem or ClientGone."""
    headers: RequestHeaders = request.scope["visit"]
    announced = headers.content_length
    if announced is not None and announced > limit:
        raise too_large("the body", limit)
    size = limit if announced is None or headers.content_encoding else announced
    with parts.bulk.hold(request.scope["key"], size):
        packed = await read_body(request.receive, limit)
        yield unpack_whole(packed, headers.content_encoding, limit)

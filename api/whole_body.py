"""A request's body that is read and unpacked as a whole, before anything is done with it."""

import contextlib
from collections.abc import AsyncIterator

from manyhands.api.bodies import Receive, read_body, unpack_whole
from manyhands.api.guard import RequestHeaders
from manyhands.api.keys import Key
from manyhands.api.parts import Parts
from manyhands.api.problems import too_large


@contextlib.asynccontextmanager
async def whole_body(
    parts: Parts, key: Key, visit: RequestHeaders, receive: Receive, limit: int
) -> AsyncIterator[bytes]:
    """At most `limit` bytes, also after unpacking. The body counts against its key's share of
    memory while the context is open. Raises Problem or ClientGone."""
    announced = visit.content_length
    if announced is not None and announced > limit:
        raise too_large("the body", limit)
    size = limit if announced is None or visit.content_encoding else announced
    with parts.bulk.hold(key, size):
        packed = await read_body(receive, limit)
        yield unpack_whole(packed, visit.content_encoding, limit)

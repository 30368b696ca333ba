"""An archived HTTP answer: its head and body → the page. Pure.

An archive has what was sent: maybe in chunks, maybe compressed. Some tools removed the chunks or
the compression and left the headers, so a body that does not match them is taken as it is.
"""

import re
from collections.abc import Sequence

from manyhands.worker.net.encodings import BoundedBody
from manyhands.worker.net.fetcher import PermanentFetchError

_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_STATUS = re.compile(rb"HTTP/\S+[ \t]+(\d{3})(?!\d)")


def parsed_head(lines: Sequence[bytes]) -> tuple[dict[bytes, bytes], int]:
    """Headers by lower-case name, and the status; 0 when it cannot be read. Of several with one
    name the first counts, except that directives for robots are joined."""
    headers: dict[bytes, bytes] = {}
    name = b""
    for line in lines[1:]:
        if line[:1] in (b" ", b"\t"):
            # Continues the line before.
            if name in headers:
                headers[name] += b" " + line.strip()
            continue
        name, colon, value = line.partition(b":")
        name = name.strip().lower()
        if not colon:
            continue
        if name not in headers:
            headers[name] = value.strip()
        elif name == b"x-robots-tag":
            headers[name] += b", " + value.strip()
    status = _STATUS.match(lines[0]) if lines else None
    return headers, int(status[1]) if status is not None else 0


def unchunked(body: bytes) -> bytes:
    """Without the chunks of HTTP, as far as they go; a body without any is returned as it is."""
    pieces = []
    at = 0
    while found := _CHUNK_SIZE.match(body, at):
        size = int(found[1], 16)
        if not size:
            break
        end = found.end() + size
        pieces.append(body[found.end() : end])
        # Each ends with a line end of its own; a body that was cut off may end anywhere.
        if end + 2 <= len(body) and body[end : end + 2] != b"\r\n":
            return body
        at = end + 2
    return b"".join(pieces) if pieces else body


def page_of(
    body: bytes, transfer_encoding: str, content_encoding: str, max_bytes: int
) -> tuple[bytes, bool]:
    """The page, and whether there was more of it than `max_bytes`."""
    if "chunked" in transfer_encoding.lower():
        body = unchunked(body)
    if content_encoding:
        try:
            bounded = BoundedBody(content_encoding, max_bytes)
            bounded.feed(body)
        except PermanentFetchError:
            pass
        else:
            return bounded.data, bounded.is_truncated
    return body[:max_bytes], len(body) > max_bytes

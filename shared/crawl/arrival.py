"""How a page came, for its record: what the parse stage cannot find in the page itself. Pure."""

from typing import NamedTuple


class Arrival(NamedTuple):
    """Headers as they were sent, empty where there was none. Times are in milliseconds, `size` is
    that of the body, decompressed and before it was cut for the parse stage. `redirects` are the
    URLs that led to the page, in order. `headers` are all of the answer, if they were chosen."""

    size: int
    content_language: str = ""
    last_modified: str = ""
    etag: str = ""
    dns_ms: int = 0
    connect_ms: int = 0
    first_byte_ms: int = 0
    body_ms: int = 0
    redirects: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

"""An answer → what the record of its page says of how it came. Pure."""

from collections.abc import Sequence

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.spec import MAX_COUNT
from manyhands.worker.net.fetcher import Answer

# Of a size that anybody could mean.
MAX_DIGITS = 16
# Of a header among all of them.
MAX_VALUE_LENGTH = 2000


def arrival_of(
    answer: Answer, *, redirects: Sequence[str] = (), has_all_headers: bool = False
) -> Arrival:
    phases = answer.phases
    return Arrival(
        size=len(answer.body),
        content_language=answer.content_language,
        last_modified=answer.last_modified,
        etag=answer.etag,
        dns_ms=round(phases.dns_s * 1000),
        connect_ms=round(phases.connect_s * 1000),
        first_byte_ms=round(phases.first_byte_s * 1000),
        body_ms=round(phases.body_s * 1000),
        redirects=tuple(redirects),
        headers=headers_of(answer.head) if has_all_headers else (),
    )


def announced_size(answer: Answer) -> int:
    """Of a body that nobody wanted: as the server said, or as much as came."""
    for name, value in headers_of(answer.head):
        if name.lower() == "content-length" and value.isascii() and value.isdecimal():
            return min(int(value[:MAX_DIGITS]), MAX_COUNT)
    return answer.wire_bytes


def headers_of(head: bytes) -> tuple[tuple[str, str], ...]:
    """In the order in which they came."""
    lines = head.decode("latin-1").split("\r\n")[1:]
    parted = (line.partition(":") for line in lines if line)
    return tuple((name.strip(), value.strip()[:MAX_VALUE_LENGTH]) for name, _, value in parted)

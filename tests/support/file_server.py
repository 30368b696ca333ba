"""A web server with one file, that behaves well or badly on demand: for whoever reads files by
HTTP."""

import asyncio
import re
from dataclasses import dataclass, field

from tests.support.local_site import LocalSite

_RANGE = re.compile(r"^Range: bytes=(\d+)-\r?$", re.M | re.I)


@dataclass(slots=True)
class ServedFile:
    """A `tests.support.local_site.Handler`. State: how it answers, and the offsets that were asked
    for. `cut_after` bytes of an answer the connection is lost, as often as `cuts` says."""

    site: LocalSite
    data: bytes
    knows_ranges: bool = True
    has_length: bool = True
    tag: str = '"one"'
    cut_after: int = 0
    cuts: int = 0
    # Between the parts of an answer.
    pause_s: float = 0.0
    part_bytes: int = 64 * 1024
    asked_for: list[int] = field(default_factory=list)
    sent: int = 0

    async def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The request that is being answered.
        found = _RANGE.search(self.site.requests[-1])
        offset = int(found[1]) if found and self.knows_ranges else 0
        self.asked_for.append(int(found[1]) if found else 0)
        if found and self.knows_ranges and offset >= len(self.data):
            writer.write(b"HTTP/1.1 416 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        lines = ["HTTP/1.1 206 Part" if offset else "HTTP/1.1 200 OK"]
        if self.tag:
            lines.append(f"ETag: {self.tag}")
        if offset:
            lines.append(f"Content-Range: bytes {offset}-{len(self.data) - 1}/{len(self.data)}")
        if self.has_length:
            lines.append(f"Content-Length: {len(self.data) - offset}")
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        end = len(self.data)
        if self.cuts:
            self.cuts -= 1
            end = min(end, offset + self.cut_after)
        for at in range(offset, end, self.part_bytes):
            writer.write(self.data[at : min(at + self.part_bytes, end)])
            await writer.drain()
            self.sent += min(self.part_bytes, end - at)
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
        if end < len(self.data):
            writer.transport.abort()

"""What a client sends: pieces of bytes in, whole lines out, and when its socket is read."""

import asyncio
from collections import deque

# What a line in waiting takes beside its bytes.
LINE_BYTES = 50


class Lines:
    """State: the line that has not ended yet, and those that wait for their turn, with their
    bytes."""

    def __init__(self) -> None:
        self.waiting: deque[bytes] = deque()
        self.rest = bytearray()
        self._waiting_bytes = 0

    def add(self, data: bytes) -> bytes:
        """Take the lines that end in this piece. Returns what is behind them: `keep` it when they
        were run."""
        lines = data.split(b"\n")
        last = lines.pop()
        if not lines:
            return last
        if self.rest:
            self.rest += lines[0]
            lines[0] = bytes(self.rest)
            self.rest = bytearray()
        if not self.waiting:
            self._waiting_bytes = 0
        self.waiting.extend(lines)
        self._waiting_bytes += len(data) + len(lines[0]) + LINE_BYTES * len(lines)
        return last

    def keep(self, data: bytes) -> int:
        """The beginning of a line, or more of it. Returns how long it is by now."""
        self.rest += data
        return len(self.rest)

    def held_bytes(self) -> int:
        return len(self.rest) + (self._waiting_bytes if self.waiting else 0)

    def clear(self) -> None:
        self.waiting.clear()
        self.rest = bytearray()


class Reading:
    """State: whether the socket of a connection is read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.is_on = True
        self._transport = transport

    def switch(self, is_on: bool) -> None:
        if is_on != self.is_on and not self._transport.is_closing():
            self.is_on = is_on
            if is_on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def let_others_be_read(self) -> None:
        """The event loop would read on as long as there is something: 8 MiB in one turn."""
        if self.is_on and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self.is_on and not self._transport.is_closing():
            self._transport.resume_reading()

"""What a connection writes to: few system calls, and an end that the protocol decides on."""

import asyncio
from collections.abc import Callable
from typing import Any

from manyhands.shared.http.limits import PIECE_BYTES


class OneWrite:
    """A transport that writes once in a turn of the loop: an answer's head and its body, or the
    answers to requests that came together, in one system call. Much is written at once, so that
    whoever writes it hears that he has to wait.

    State: what is to be written, and whether the end was asked for.
    """

    def __init__(self, raw: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.raw = raw
        self.on_close: Callable[[], None] = raw.close
        self._loop = loop
        self._parts: list[bytes] = []
        self._is_ending = False

    def write(self, data: bytes) -> None:
        if self._is_ending:
            return
        if len(data) >= PIECE_BYTES:
            self._parts.append(data)
            self._flush()
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Once; how it ends is up to `on_close`."""
        if self._is_ending:
            return
        self._is_ending = True
        self._flush()
        self.on_close()

    def is_closing(self) -> bool:
        return self._is_ending or self.raw.is_closing()

    def _flush(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self.raw.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

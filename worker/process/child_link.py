"""The child's end of the pipe to its supervisor.

Two threads, because a pipe that nobody empties blocks its writer, and because the end of the parent
must be noticed by a process whose event loop hangs.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

from manyhands.worker.service.link import Backlog, FromChild, decode_from_parent, encode

# A parent that has left this many messages unread is stuck; more of them would be stale.
MOST_UNSENT = 64
EXIT_ABANDONED = 1


class ChildLink:
    """State: what waits to be sent. Callbacks come in the loop's thread."""

    def __init__(
        self,
        connection: Connection,
        on_backlog: Callable[[Backlog], None],
        on_parent_gone: Callable[[], None],
        *,
        exit_within_s: float,
    ) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._on_backlog = on_backlog
        self._on_parent_gone = on_parent_gone
        self._exit_within_s = exit_within_s
        self._unsent: queue.Queue[bytes | None] = queue.Queue(MOST_UNSENT)
        self._has_ended = threading.Event()
        self._writer = threading.Thread(target=self._write, name="link-out", daemon=True)
        self._reader = threading.Thread(target=self._read, name="link-in", daemon=True)

    def start(self) -> None:
        self._writer.start()
        self._reader.start()

    def tell(self, message: FromChild) -> None:
        """Never waits: what the parent does not take is dropped."""
        if not self._unsent.full():
            self._unsent.put_nowait(encode(message))

    def close(self, timeout_s: float = 1.0) -> None:
        """Send what is queued, then nothing more."""
        self._has_ended.set()
        if not self._unsent.full():
            self._unsent.put_nowait(None)
            self._writer.join(timeout_s)

    def _write(self) -> None:
        while (data := self._unsent.get()) is not None:
            try:
                self._connection.send_bytes(data)
            except OSError:
                return  # the reader sees it too, and says so

    def _read(self) -> None:
        while True:
            try:
                backlog = decode_from_parent(self._connection.recv_bytes())
            except (EOFError, OSError):
                break
            self._in_loop(self._on_backlog, backlog)
        if self._has_ended.is_set():
            return
        self._in_loop(self._on_parent_gone)
        if not self._has_ended.wait(self._exit_within_s):
            # The loop hangs, and nobody is left who could replace this process.
            os._exit(EXIT_ABANDONED)

    def _in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

"""The supervisor's handle on one child process: starts it, reads its messages, signals it, and
notices its end. Decides nothing."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import struct
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess

import msgspec

from manyhands.shared.crawl.claim import are_fetch_queues
from manyhands.shared.logs import get_logger
from manyhands.worker.process.child import ChildSpec, run_child
from manyhands.worker.process.fork_safety import AT_ONCE, signals_held_back
from manyhands.worker.service import exits
from manyhands.worker.service.held_jobs import HeldJob
from manyhands.worker.service.link import (
    Backlog,
    Figures,
    Pulse,
    Ready,
    StageReport,
    decode_from_child,
    encode,
)
from manyhands.worker.supervision.liveness import Watch

# How multiprocessing frames what `send_bytes` sends; a message of 2 GiB would be framed otherwise.
HEADER = struct.Struct("!i")
# From the end of a process to its last message: one turn of our loop, unless a process that it
# started holds the link open.
LAST_WORDS_S = 0.2
REAPED_LOOK_S = 0.01
CONTEXTS: dict[str, ForkContext | ForkServerContext | SpawnContext] = {
    "fork": multiprocessing.get_context("fork"),
    "forkserver": multiprocessing.get_context("forkserver"),
    "spawn": multiprocessing.get_context("spawn"),
}


class ChildHandle:
    """State: the process and the link to it; its last messages; whether it was asked to end."""

    def __init__(
        self, spec: ChildSpec, keep_figures: Callable[[Figures], None], now: float
    ) -> None:
        self.spec = spec
        self.pid = 0
        self.exit_code: int | None = None
        self.started_at = now
        self.ready_at: float | None = None
        self.stages: list[StageReport] = []
        self.store = ""
        self.left_out: list[str] = []
        self.turn: Pulse | None = None
        self.told_paces: dict[str, float] = {}
        self.rss_bytes = 0
        # Jobs without retries that it had in hand when it died.
        self.left_behind: list[HeldJob] = []
        self.watch = Watch(spec.settings.worker.hang_timeout, now)
        # Each is set by the end of the process as well.
        self.has_spoken = asyncio.Event()
        self.has_come_up = asyncio.Event()
        self.has_ended = asyncio.Event()
        self.is_asked_to_end = False
        self.is_quieted = False
        self.is_killed = False
        self._keep_figures = keep_figures
        self._loop = asyncio.get_running_loop()
        self._process: BaseProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._is_understood = True
        self._log = get_logger("supervisor")

    def start(self) -> None:
        """Raises OSError when the system does not give us another process."""
        ours, theirs = socket.socketpair()
        try:
            process = self._start_process(Connection(theirs.detach()))
        except OSError:
            ours.close()
            self.spec.held.close()
            raise
        assert process.pid is not None
        self.pid = process.pid
        self._process = process
        self._loop.add_reader(process.sentinel, self._has_gone)
        self._reading = asyncio.create_task(self._read(ours), name=f"{process.name}-link")

    def _start_process(self, theirs: Connection) -> BaseProcess:
        method = self.spec.settings.worker.start_method
        process = CONTEXTS[method].Process(
            target=run_child, args=(self.spec, theirs), name=self.spec.process_id
        )
        try:
            if method != "fork":
                # Its own first start would let the signals through that are held back here.
                resource_tracker.ensure_running()
            with signals_held_back():
                process.start()
        finally:
            theirs.close()
        return process

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None

    @property
    def wids(self) -> list[str]:
        return self.turn.wids if self.turn is not None else []

    @property
    def end_is_clean(self) -> bool:
        """It left nothing behind: it says so, or it ended before it handled SIGTERM, and so before
        it had any job."""
        return self.exit_code in (exits.CLEAN, exits.STOPPED_BY_SERVER, -signal.SIGTERM)

    @property
    def exit_text(self) -> str:
        return "" if self.exit_code is None else exits.describe_exit(self.exit_code)

    def take_left_behind(self) -> list[HeldJob]:
        """Call once: the caller puts them back."""
        taken, self.left_behind = self.left_behind, []
        return taken

    def drain(self) -> None:
        """Ask it to end: finish or put back what it has."""
        self.is_asked_to_end = True
        self.signal(signal.SIGTERM)

    def hurry(self) -> None:
        """Ask it to put back at once what it still runs."""
        self.drain()
        self.signal(AT_ONCE)

    def quiet(self) -> None:
        self.is_quieted = True
        self.signal(signal.SIGTSTP)

    def kill(self) -> None:
        self.is_killed = True
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Only to a process not yet reaped: its pid may belong to another afterwards."""
        if self._process is None or self.exit_code is not None:
            return
        if self._process.exitcode is None:
            # Of a fork server it is not our own child, and may be reaped this moment.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def tell(self, backlog: Backlog) -> None:
        """Never waits. Not sent while an earlier message is unread: a newer one will follow."""
        writer = self._writer
        if writer is None or writer.is_closing() or writer.transport.get_write_buffer_size():
            return
        data = encode(backlog)
        writer.write(HEADER.pack(len(data)) + data)
        self.told_paces = backlog.paces

    def look_for_end(self) -> None:
        """The sentinel does not fire while a process that the child forked lives on."""
        if self._ending is None and self._process and self._process.exitcode is not None:
            self._has_gone()

    async def _read(self, link: socket.socket) -> None:
        reader, self._writer = await asyncio.open_unix_connection(sock=link)
        try:
            while True:
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                self._heard(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return  # its end of the link is closed; the sentinel reports the rest
        finally:
            self._writer.close()

    def _heard(self, data: bytes) -> None:
        self.watch.heard()
        self.has_spoken.set()
        try:
            message = decode_from_child(data)
        except msgspec.DecodeError as error:
            self._not_understood(error)
            return
        if isinstance(message, Pulse):
            self.turn = message
        elif isinstance(message, Ready):
            self.ready_at = self._loop.time()
            self.stages = message.stages
            self.store = message.store
            self.left_out = message.left_out
            # As it starts: worker/process/process.py.
            self.told_paces = {
                stage.name: 0.0 for stage in message.stages if are_fetch_queues(stage.queues)
            }
            self.has_come_up.set()
        else:
            self._keep_figures(message)

    def _not_understood(self, error: msgspec.DecodeError) -> None:
        """After a roll, a child may run newer code than this supervisor."""
        if self._is_understood:
            self._is_understood = False
            self._log.warning(
                "a child sent a message that this supervisor cannot read",
                process_id=self.spec.process_id,
                reason=str(error),
            )

    def _has_gone(self) -> None:
        if self._ending is None and self._process is not None:
            self._loop.remove_reader(self._process.sentinel)
            ending = self._end(self._process)
            self._ending = asyncio.create_task(ending, name=f"{self._process.name}-end")

    async def _end(self, process: BaseProcess) -> None:
        assert self._reading is not None
        await asyncio.wait([self._reading], timeout=LAST_WORDS_S)
        self._reading.cancel()
        # The sentinel fires a moment before the system has the exit code.
        while (code := process.exitcode) is None:  # noqa: ASYNC110
            await asyncio.sleep(REAPED_LOOK_S)
        self.exit_code = code
        if not self.end_is_clean:
            self.left_behind = self.spec.held.read()
        self.spec.held.close()
        process.close()
        for event in (self.has_spoken, self.has_come_up, self.has_ended):
            event.set()

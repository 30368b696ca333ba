"""One slot of the service, such as fetch-0: keeps a child in it, replaces one that ended, hung or
grew too large, and rolls it. The only module that decides what becomes of a child."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from manyhands.shared.logs import get_logger
from manyhands.shared.memory import resident_bytes
from manyhands.shared.settings import Settings
from manyhands.worker.process.child import ChildSpec
from manyhands.worker.service import exits
from manyhands.worker.service.link import Figures
from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.supervision.child_handle import ChildHandle
from manyhands.worker.supervision.liveness import START_TIMEOUT_S, Liveness
from manyhands.worker.supervision.proc import cpu_seconds
from manyhands.worker.supervision.restarts import (
    LONGEST_DELAY_S,
    LOOP_ENDS,
    LOOP_WITHIN_S,
    Restarts,
)
from manyhands.worker.supervision.server_view import ServerView
from manyhands.worker.supervision.status import ChildState, ChildStatus, EventLog, FiguresKeeper

# The next child starts when the one before is ready or has ended, or this long after its first
# message: wrong settings are then reported once, not by all of them.
READY_S = 2.0
FIRST_WORD_S = 10.0
# Of the shutdown time-out, for a child that is replaced while the service goes on.
PATIENCE_TIMEOUTS = 2
MIB = 1024 * 1024


@dataclass(slots=True)
class Service:
    """What all slots share. `start` runs something in the background."""

    settings: Settings
    # Of one child.
    connections: int
    memory_limit_bytes: int | None
    server: ServerView
    figures: FiguresKeeper
    start: Callable[[Coroutine[None, None, None], str], None]
    on_ready: Callable[[], None]
    on_given_up: Callable[["ChildSlot"], None]
    events: EventLog = field(default_factory=EventLog)
    start_gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_quiet: bool = False
    is_stopping: bool = False

    @property
    def takes_no_more(self) -> bool:
        """From now on, children that end are not replaced."""
        return self.is_quiet or self.is_stopping


class ChildSlot:
    """State: its `child`, the `successor` during a roll, children that are leaving; and, while it
    is empty, when the next one starts."""

    def __init__(self, group: ProcessGroup, number: int, service: Service) -> None:
        self.group = group
        self.process_id = f"{group.name}-{number}"
        self.child: ChildHandle | None = None
        self.successor: ChildHandle | None = None
        self.leaving: list[ChildHandle] = []
        self.restarts = Restarts()
        # Set by an exit code after which it is not filled again.
        self.given_up: int | None = None
        self._number = number
        self._service = service
        self._incarnation = 0
        self._hangs = 0
        self._last_exit = ""
        self._is_busy = False
        self._is_out_of_files = False
        self._restart_at = 0.0
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._is_due = asyncio.Event()
        self._is_due.set()
        self._loop = asyncio.get_running_loop()
        self._log = get_logger("supervisor")

    @property
    def children(self) -> list[ChildHandle]:
        """Every process of this slot that has not ended."""
        inside = [child for child in (self.child, self.successor) if child is not None]
        return inside + self.leaving

    async def keep_filled(self) -> None:
        while True:
            await self._is_empty.wait()
            await self._until_due()
            self._is_empty.clear()
            async with self._service.start_gate:
                child = self._make_child()
                if self._launch(child):
                    self.child = child
                    await _settle_in(child)
                else:
                    self._refill()

    async def roll(self) -> bool:
        """Replace its child, starting the new one first; False when the new one does not come up:
        then nothing has changed."""
        if self.child is None:
            self._fill_now()
            return True
        try:
            return await self._replace()
        finally:
            if self.successor is not None:
                self._send_away_successor(self.successor)

    def look(self, now: float) -> None:
        """Check its children, once a second."""
        for child in self.children:
            child.look_for_end()
            child.rss_bytes = resident_bytes(child.pid) or 0
            if self._service.is_quiet and child.is_ready and not child.is_quieted:
                child.quiet()
        if self.child is not None and not self.child.is_asked_to_end and not self.child.is_killed:
            self._look_at_loop(self.child, now)
            self._look_at_memory(self.child)
            self._look_at_files(self.child)
            self._look_at_crashes(self.child, now)

    def status(self, now: float) -> list[ChildStatus]:
        if not self.children:
            return [self._empty_status(now)]
        return [self._status_of(child, now) for child in self.children]

    # Coming

    def _make_child(self) -> ChildHandle:
        spec = ChildSpec(
            group=self.group,
            number=self._number,
            incarnation=self._incarnation,
            connections=self._service.connections,
            settings=self._service.settings,
        )
        self._incarnation += 1

        def keep(figures: Figures) -> None:
            self._service.figures.keep(
                spec.process_type, spec.process_id, spec.incarnation, figures
            )

        return ChildHandle(spec, keep, self._loop.time())

    def _launch(self, child: ChildHandle) -> bool:
        try:
            child.start()
        except OSError as error:
            self._last_exit = f"could not be started: {error}"
            self._tell(self._last_exit, "error")
            return False
        self.restarts.started(self._loop.time())
        self._is_busy = False
        self._tell("started", child_pid=child.pid, incarnation=child.spec.incarnation)
        self._service.start(self._watch(child), f"{self.process_id}-watch")
        return True

    async def _watch(self, child: ChildHandle) -> None:
        await child.has_come_up.wait()
        if child.is_ready:
            self._tell("is ready", took_s=round(self._loop.time() - child.started_at, 1))
            self._service.on_ready()
        await child.has_ended.wait()
        self._ended(child)

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout_at(self._restart_at):
                await self._is_due.wait()
        except TimeoutError:
            self._is_due.set()

    def _fill_now(self) -> None:
        """The next child is new code; what was wrong with the last may be fixed."""
        self.restarts.forgive()
        self._is_due.set()
        if self.given_up is not None:
            self.given_up = None
            self._is_empty.set()

    async def _replace(self) -> bool:
        async with self._service.start_gate:
            successor = self._make_child()
            if not self._launch(successor):
                return False
            self.successor = successor
            await _settle_in(successor)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await successor.has_come_up.wait()
        except TimeoutError:
            return False
        if not successor.is_ready or successor.has_ended.is_set():
            return False
        old, self.child, self.successor = self.child, successor, None
        if old is not None:
            self.leaving.append(old)
            await self._see_off(old)
        return True

    def _send_away_successor(self, successor: ChildHandle) -> None:
        self.successor = None
        if not successor.has_ended.is_set():
            self.leaving.append(successor)
            self._service.start(self._see_off(successor), f"{self.process_id}-see-off")
        if self.child is None and not self._service.takes_no_more:
            self._refill()

    # Going

    def _ended(self, child: ChildHandle) -> None:
        spec = child.spec
        self._last_exit = child.exit_text
        if not child.end_is_clean:
            # Its FETCHes first: jobs that they take reach nobody.
            quieting = self._service.server.quiet(child.wids)
            self._service.start(quieting, f"{self.process_id}-quiet")
            self._service.server.put_back_soon(child.take_left_behind())
        self._service.figures.ended(spec.process_type, spec.process_id, spec.incarnation)
        if child is self.child:
            self.child = None
            self._left_empty(child)
            return
        if child in self.leaving:
            self.leaving.remove(child)
        self._tell(f"ended: {child.exit_text}", incarnation=spec.incarnation)

    def _left_empty(self, child: ChildHandle) -> None:
        is_final = child.exit_code in (exits.POINTLESS, exits.STOPPED_BY_SERVER)
        if self._service.takes_no_more or self.successor is not None:
            self._tell(f"ended: {child.exit_text}", incarnation=child.spec.incarnation)
        elif is_final and not child.is_asked_to_end:
            self._tell(f"ended: {child.exit_text}; it is not started again", "warning")
            self.given_up = child.exit_code
            self._service.on_given_up(self)
        else:
            self._refill(child)

    def _refill(self, child: ChildHandle | None = None) -> None:
        """Schedule the next start."""
        was_looping = self.restarts.is_looping
        now = self._loop.time()
        delay_s = self.restarts.ended(now)
        self._restart_at = now + delay_s
        self._is_due.clear()
        self._is_empty.set()
        why = f"ended: {child.exit_text}; " if child is not None else ""
        level = "info" if child is not None and child.is_asked_to_end else "warning"
        self._tell(f"{why}starting it again in {delay_s:g} s", level)
        if self.restarts.is_looping and not was_looping:
            self._tell(
                f"ended {LOOP_ENDS} times within {LOOP_WITHIN_S:g} s: it is tried again every "
                f"{LONGEST_DELAY_S:g} s, and the other processes go on",
                "error",
            )

    async def _see_off(self, child: ChildHandle) -> None:
        """Let it end by itself, up to a limit."""
        child.drain()
        try:
            async with asyncio.timeout(
                PATIENCE_TIMEOUTS * self._service.settings.worker.shutdown_timeout
            ):
                await child.has_ended.wait()
        except TimeoutError:
            self._tell("did not end in time: killing it", "error", child_pid=child.pid)
            child.kill()

    # Is it well?

    def _look_at_loop(self, child: ChildHandle, now: float) -> None:
        liveness = child.watch.look(now, cpu_seconds(child.pid))
        silence_s = round(child.watch.silence_s, 1)
        if liveness is Liveness.HUNG:
            self._hangs += 1
            self._tell(
                "hangs: its event loop does not turn; killing it",
                "error",
                silence_s=silence_s,
                cpu_s=round(child.watch.used_s, 1),
            )
            self._service.start(self._kill_hung(child), f"{self.process_id}-kill")
            child.is_killed = True
        elif liveness is Liveness.BUSY and child.has_spoken.is_set() and not self._is_busy:
            self._tell("does not turn its event loop: a handler blocks it", "warning")
        self._is_busy = liveness is Liveness.BUSY

    async def _kill_hung(self, child: ChildHandle) -> None:
        """Its FETCHes first, while the server still knows its ids."""
        await self._service.server.quiet(child.wids)
        child.kill()

    def _look_at_memory(self, child: ChildHandle) -> None:
        limit = self._service.memory_limit_bytes
        if limit is not None and child.rss_bytes > limit and child.is_ready:
            self._tell(
                f"uses {child.rss_bytes // MIB} MiB of memory, more than {limit // MIB}: "
                "draining and replacing it",
                "warning",
            )
            child.drain()
            self._service.start(self._see_off(child), f"{self.process_id}-see-off")

    def _look_at_files(self, child: ChildHandle) -> None:
        is_out = child.turn is not None and child.turn.is_out_of_files
        if is_out != self._is_out_of_files:
            self._is_out_of_files = is_out
            if is_out:
                self._tell(
                    "can open no more files or connections: the limit is reached. A "
                    "handler leaves some open, or `ulimit -n` is too low for its slots",
                    "error",
                )
            else:
                self._tell("can open files and connections again")

    def _look_at_crashes(self, child: ChildHandle, now: float) -> None:
        if self.restarts.is_looping and child.is_ready and self.restarts.is_well(now):
            self.restarts.forgive()
            self._tell("is well again")

    # Reports and logs

    def _status_of(self, child: ChildHandle, now: float) -> ChildStatus:
        turn = child.turn
        return ChildStatus(
            process_type=self.group.name,
            process_id=self.process_id,
            incarnation=child.spec.incarnation,
            state=self._state_of(child),
            slots=self.group.slots,
            pid=child.pid or None,
            uptime_s=now - child.started_at,
            is_connected=turn is not None and turn.is_connected,
            is_out_of_files=turn is not None and turn.is_out_of_files,
            waits_for=turn.waits_for if turn is not None else "",
            in_hand=turn.in_hand if turn is not None else 0,
            unanswered=turn.unanswered if turn is not None else 0,
            rss_bytes=child.rss_bytes,
            silence_s=child.watch.silence_s,
            fetch_silence_s=turn.fetch_silence_s if turn is not None else 0.0,
            loop_lag_s=turn.loop_lag_s if turn is not None else 0.0,
            restarts=self.restarts.count,
            hangs=self._hangs,
            is_crash_looping=self.restarts.is_looping,
            last_exit=self._last_exit,
            stages=child.stages,
            turns=turn.stages if turn is not None else (),
        )

    def _state_of(self, child: ChildHandle) -> ChildState:
        if child.is_killed:
            return ChildState.HUNG
        if child.is_asked_to_end or (child.turn is not None and child.turn.is_draining):
            return ChildState.DRAINING
        if child is self.child and self._is_busy and child.has_spoken.is_set():
            return ChildState.BUSY
        return ChildState.READY if child.is_ready else ChildState.STARTING

    def _empty_status(self, now: float) -> ChildStatus:
        is_final = self.given_up is not None or self._service.takes_no_more
        state = ChildState.STOPPED if is_final else ChildState.WAITING
        return ChildStatus(
            process_type=self.group.name,
            process_id=self.process_id,
            incarnation=self._incarnation,
            state=state if self._last_exit or is_final else ChildState.STARTING,
            slots=self.group.slots,
            restarts=self.restarts.count,
            hangs=self._hangs,
            is_crash_looping=self.restarts.is_looping,
            restart_in_s=max(0.0, self._restart_at - now),
            last_exit=self._last_exit,
        )

    def _tell(self, what: str, level: str = "info", **fields: object) -> None:
        """One line in the log, and one in the status."""
        told = getattr(self._log, level)
        told(f"{self.process_id} {what}", child=self.process_id, **fields)
        self._service.events.add(time.time(), self.process_id, what)


async def _settle_in(child: ChildHandle) -> None:
    for event, within_s in ((child.has_spoken, FIRST_WORD_S), (child.has_come_up, READY_S)):
        try:
            async with asyncio.timeout(within_s):
                await event.wait()
        except TimeoutError:
            return

"""Sockets that are kept up, by what they carry.

A FETCH on an empty queue blocks everything behind it for two seconds, so FETCHes and commands
travel on different lanes. A fetch lane takes a new worker id with each connection: the server
keeps serving FETCHes of a connection that is gone, and only an id that nobody else uses can be
silenced (see docs/PROTOCOL.md). Commands whose loss would repeat work, ACK and FAIL, are kept
until answered and sent again over whichever lane is up; a FETCH is never sent twice.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from manyhands.shared.errors import ConnectFailed, ConnectionLost, FaktoryError
from manyhands.shared.faktory.backoff import LONGEST_DELAY_TO_BROKER_S, Backoff
from manyhands.shared.faktory.codec import Reply
from manyhands.shared.faktory.connection import Connection
from manyhands.shared.faktory.dialer import Dialer

# A connection that lived this long was good: the next failure starts the back-off anew.
STABLE_AFTER_S = 5.0
# A healthy server answers a command in milliseconds, and each FETCH of a lane within 2 s (5 s
# at its own worst), so silence for this long while an answer is due means a dead path.
PATIENCE_S = 12.0
# The better of a few is nearly as good as the best of all, and found at once.
LANES_COMPARED = 4


class Lane:
    """Keeps one connection up until cancelled. Subclasses say what the answers mean."""

    def __init__(self, dialer: Dialer) -> None:
        self.connection: Connection | None = None
        self._dialer = dialer
        self._backoff = Backoff()
        self._lost: asyncio.Event = asyncio.Event()
        self._is_closing = False

    async def run(self) -> None:
        """Connect, serve, reconnect. Raises ConnectFailed where trying again cannot help."""
        loop = asyncio.get_running_loop()
        while not self._is_closing:
            try:
                connection = await self._dialer.dial(self._next_wid())
            except ConnectFailed as error:
                if not error.is_retryable:
                    raise
            else:
                if connection.server.is_our_broker:
                    self._backoff.longest_s = LONGEST_DELAY_TO_BROKER_S
                await self._serve(connection)
                if self._is_closing:
                    return
                if loop.time() - connection.opened_at > STABLE_AFTER_S:
                    self._backoff.reset()
            await asyncio.sleep(self._backoff.next_delay_s())

    async def _serve(self, connection: Connection) -> None:
        self._lost = asyncio.Event()
        self.connection = connection
        try:
            connection.attach(self._on_reply, self._connection_lost, self._on_writable)
            self._on_up()
            await self._lost.wait()
        finally:
            connection.close()

    def close(self) -> None:
        """Close for good: the lane does not come back."""
        self._is_closing = True
        if self.connection is not None:
            self.connection.close()

    def look(self, now: float) -> None:
        """Call regularly: reads answers that were left in the socket, and leaves a dead path."""
        if self.connection is not None:
            self.connection.hurry()
            if self.connection.is_overdue(now, PATIENCE_S):
                self.connection.close(f"no answer for {PATIENCE_S:.0f} s")

    def _connection_lost(self, reason: FaktoryError) -> None:
        connection, self.connection = self.connection, None
        if connection is None:
            return
        if not self._is_closing:
            self._dialer.tell_lost(reason)
        self._on_down(connection, reason)
        self._lost.set()

    def _next_wid(self) -> str | None:
        return None

    def _on_up(self) -> None:
        raise NotImplementedError

    def _on_down(self, connection: Connection, reason: FaktoryError) -> None:
        raise NotImplementedError

    def _on_reply(self, token: object, reply: Reply) -> None:
        raise NotImplementedError

    def _on_writable(self) -> None:
        raise NotImplementedError


class FetchEvents:
    """What the owner of fetch lanes hears (a base to override, all in the loop's thread)."""

    def lane_up(self, lane: "FetchLane") -> None: ...

    def lane_down(self, lane: "FetchLane", wid: str, unanswered: int) -> None: ...

    def fetch_answered(self, lane: "FetchLane", reply: Reply, reserved_after: float) -> None: ...


class FetchLane(Lane):
    """One socket that carries nothing but FETCHes, under a worker id of its own."""

    def __init__(self, dialer: Dialer, events: FetchEvents) -> None:
        super().__init__(dialer)
        self.wid = ""
        self._events = events
        self._answered_at = 0.0

    @property
    def outstanding(self) -> int:
        return len(self.connection.awaiting) if self.connection else 0

    @property
    def round_trip_s(self) -> float:
        return self.connection.round_trip_s if self.connection else 0.0

    def fetch(self, line: bytes, now: float) -> None:
        """Send one FETCH. The lane must be up: the window gives no credit to one that is not."""
        assert self.connection is not None
        self.connection.send(line, now)

    def _next_wid(self) -> str:
        self.wid = secrets.token_hex(8)
        return self.wid

    def _on_up(self) -> None:
        self._answered_at = 0.0
        self._events.lane_up(self)

    def _on_down(self, connection: Connection, reason: FaktoryError) -> None:
        del reason
        self._events.lane_down(self, self.wid, len(connection.awaiting))

    def _on_reply(self, token: object, reply: Reply) -> None:
        assert isinstance(token, float) and self.connection is not None
        # The server serves a lane's FETCHes one after the other, so it cannot have reserved
        # this job before it gave the previous answer.
        reserved_after = max(token, self._answered_at)
        self._answered_at = self.connection.progress_at
        self._events.fetch_answered(self, reply, reserved_after)

    def _on_writable(self) -> None:
        """FETCHes are a few bytes and bounded by the window: nothing waits for the socket."""


@dataclass(slots=True, eq=False)
class Command:
    """One command in flight. `on_reply` gets the answer, or the error that ended the wait."""

    line: bytes
    on_reply: Callable[["Command", Reply | FaktoryError], None]
    is_kept: bool = False
    expires_at: float = inf
    jid: str = ""
    attempts: int = 0


class CommandLane(Lane):
    """One socket of a `CommandLanes` group."""

    def __init__(self, dialer: Dialer, group: "CommandLanes") -> None:
        super().__init__(dialer)
        self._group = group

    def _on_up(self) -> None:
        self._group.lane_up()

    def _on_down(self, connection: Connection, reason: FaktoryError) -> None:
        self._group.lane_down(list(connection.awaiting), reason)

    def _on_reply(self, token: object, reply: Reply) -> None:
        assert isinstance(token, Command)
        token.on_reply(token, reply)

    def _on_writable(self) -> None:
        self._group.send_waiting()


class CommandLanes:
    """Commands over a few sockets, in turn, past the busier ones. State: the lanes and what waits
    for one of them."""

    def __init__(self, dialer: Dialer, count: int) -> None:
        self._waiting: deque[Command] = deque()
        self._turn = 0
        self._is_up = asyncio.Event()
        self.dialer = dialer
        self.lanes = [CommandLane(dialer, self) for _ in range(count)]

    def grow(self, count: int) -> list[CommandLane]:
        """Add lanes; the caller runs them."""
        added = [CommandLane(self.dialer, self) for _ in range(count)]
        self.lanes.extend(added)
        return added

    async def wait_up_within(self, timeout_s: float) -> None:
        """Wait until a lane is up. Raises ConnectionLost when that takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._is_up.wait()
        except TimeoutError:
            raise ConnectionLost(f"no connection to {self.dialer.address} so far") from None

    @property
    def is_up(self) -> bool:
        return self._is_up.is_set()

    @property
    def unsent(self) -> int:
        return len(self._waiting)

    @property
    def is_our_broker(self) -> bool:
        """What is connected says so; False while nothing is."""
        connections = [lane.connection for lane in self.lanes if lane.connection]
        return bool(connections) and all(c.server.is_our_broker for c in connections)

    def unanswered(self) -> list[Command]:
        """Sent or not: everything whose answer has not come."""
        sent = [lane.connection.awaiting for lane in self.lanes if lane.connection]
        return [*self._waiting, *(command for commands in sent for command in commands)]

    def submit(self, command: Command) -> None:
        """Send now over a lane that takes it, or as soon as there is one."""
        self.submit_together((command,))

    def submit_together(self, commands: Sequence[Command]) -> None:
        """As `submit`, all over the same lane: one write instead of many."""
        connection = None if self._waiting else self._pick()
        if connection is None:
            self._waiting.extend(commands)
        else:
            for command in commands:
                if not _expire(command):
                    _send(connection, command)

    def withdraw(self, command: Command) -> bool:
        """Take back a command that was not sent yet; False when it was."""
        if command in self._waiting:
            self._waiting.remove(command)
            return True
        return False

    def give_up_on(self, command: Command) -> bool:
        """Its answer is overdue, so the connection that owes it cannot be trusted any more. True
        when it was never sent."""
        if self.withdraw(command):
            return True
        for lane in self.lanes:
            if lane.connection is not None and command in lane.connection.awaiting:
                lane.connection.close("an answer is overdue")
        return False

    def send_waiting(self) -> None:
        while self._waiting:
            if _expire(self._waiting[0]):
                self._waiting.popleft()
                continue
            connection = self._pick()
            if connection is None:
                return
            _send(connection, self._waiting.popleft())

    def lane_up(self) -> None:
        self._is_up.set()
        self.send_waiting()

    def lane_down(self, unanswered: list[Command], reason: FaktoryError) -> None:
        if not any(lane.connection for lane in self.lanes):
            self._is_up.clear()
        kept = [command for command in unanswered if command.is_kept]
        self._waiting.extendleft(reversed(kept))
        for command in unanswered:
            if not command.is_kept:
                command.on_reply(command, reason)
        self.send_waiting()

    def look(self, now: float) -> None:
        for lane in self.lanes:
            lane.look(now)

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()

    def _pick(self) -> Connection | None:
        """Of the next few in turn the one that owes the fewest answers."""
        best: Connection | None = None
        seen, fewest = 0, inf
        for _ in self.lanes:
            self._turn = (self._turn + 1) % len(self.lanes)
            connection = self.lanes[self._turn].connection
            if connection is None or not connection.can_send:
                continue
            owed = len(connection.awaiting)
            if owed < fewest:
                best, fewest = connection, owed
            seen += 1
            if seen == LANES_COMPARED or not owed:
                break
        return best


def _send(connection: Connection, command: Command) -> None:
    """What is kept is a result, whose answer nobody waits for."""
    connection.send(command.line, command, is_urgent=not command.is_kept)


def _expire(command: Command) -> bool:
    """True when it is too late to send it; its `on_reply` has been called with the error."""
    if command.expires_at == inf or command.expires_at > time.monotonic():
        return False
    command.on_reply(command, ConnectionLost("its reservation ended before it was sent"))
    return True

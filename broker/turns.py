"""When the lines of a connection are run: in their order, as long as its client reads its answers
and its turn lasts."""

import asyncio
import re
import time
from collections.abc import Callable

from manyhands.broker.answers import Answers
from manyhands.broker.holders import COUNTED_BYTES
from manyhands.broker.lines import Lines, Reading
from manyhands.broker.store import Store
from manyhands.broker.verbs import Caller, Verbs

# So many commands of one connection may wait for their answers; then nothing more is read of it.
MAX_UNANSWERED = 16_384
# Seconds: so long the lines of one client are run before it is the turn of the others.
TURN_S = 0.02
# So many FETCHes in a row are run as one command, which takes less than a millisecond.
FETCHES_AT_ONCE = 64

# An ACK as most clients write it, which needs no JSON parser.
_plain_ack = re.compile(rb'ACK \{"jid":"([ !#-\[\]-~]+)"\}\r').fullmatch


class Turns:
    """State: whether lines are run right now, whether it is the turn of others, whether this
    connection waits for the store; and whether its client is let in."""

    def __init__(
        self,
        caller: Caller,
        lines: Lines,
        reading: Reading,
        answers: Answers,
        verbs: Verbs,
        store: Store,
        run_line: Callable[[bytes], None],
    ) -> None:
        self.is_welcome = False
        self._caller = caller
        self._lines = lines
        self._reading = reading
        self._answers = answers
        self._verbs = verbs
        self._store = store
        self._run_line = run_line
        self._is_working = False
        self._is_resting = False
        self._is_waiting_for_store = False

    def run(self) -> None:
        """Run the lines that are there. ACKs that follow each other are settled together, and
        FETCHes of the same queues are one command."""
        if self._is_working:
            return
        self._is_working = True
        turn_ends_at = time.monotonic() + TURN_S
        lines = self._lines.waiting
        acks: list[str] = []
        is_held_up = self._is_held_up()
        while lines and not is_held_up:
            line = lines.popleft()
            if (ack := _plain_ack(line)) is not None and self.is_welcome:
                acks.append(ack[1].decode())
                continue
            if acks:
                self._verbs.acknowledge(self._caller, acks)
                acks = []
            if lines and line == lines[0] and line.startswith(b"FETCH ") and self.is_welcome:
                self._run_fetches(line)
            else:
                self._run_line(line[:-1] if line.endswith(b"\r") else line)
            if lines and time.monotonic() >= turn_ends_at:
                self._is_resting = True
                asyncio.get_running_loop().call_soon(self._take_turn)
            is_held_up = self._is_held_up()
        if acks:
            self._verbs.acknowledge(self._caller, acks)
            is_held_up = self._is_held_up()
        self._is_working = False
        # Nothing more can be run for now.
        if is_held_up is self._reading.is_on:
            self._reading.switch(not is_held_up)
        self._answers.flush()
        if lines and not self._answers.waiting and self._store.is_backed_up:
            self._wait_for_store()

    def _run_fetches(self, line: bytes) -> None:
        lines = self._lines.waiting
        count = 1
        while lines and lines[0] == line and count < FETCHES_AT_ONCE:
            lines.popleft()
            count += 1
        command = line.removesuffix(b"\r")
        done = self._verbs.run_fetches(self._caller, command, count)
        if not done:
            self._run_line(command)
            done = 1
        if not self._answers.is_closing():
            lines.extendleft([line] * (count - done))

    def go_on(self) -> None:
        """An answer was sent: if that was what the lines waited for, run them."""
        if not self._is_working and not self._is_held_up():
            self.run()

    def _take_turn(self) -> None:
        """Others had their turn."""
        self._is_resting = False
        self.run()

    def _is_held_up(self) -> bool:
        """It is the turn of others, or the client does not read or sends faster than is stored.
        What concerns the whole store is a transaction of its own: thousands of them on their way
        would keep all others waiting that have something to store."""
        answers = self._answers
        if answers.is_full or self._is_resting or len(answers.waiting) > MAX_UNANSWERED:
            return True
        if answers.awaited is not None and not answers.awaited.is_ready:
            return True
        if not self._store.is_backed_up:
            return False
        # Whoever has nothing on its way to the disk may add a small command.
        lines = self._lines.waiting
        return bool(answers.waiting) or (bool(lines) and len(lines[0]) > COUNTED_BYTES)

    def _wait_for_store(self) -> None:
        """No answer will say when it can go on."""
        if not self._is_waiting_for_store and not self._answers.is_closing():
            self._is_waiting_for_store = True
            self._store.batch.when_stored.append(self._store_has_room)

    def _store_has_room(self) -> None:
        self._is_waiting_for_store = False
        self.run()

"""ACKs and FAILs that the server has not answered yet: kept, counted, repeated.

The count bounds how many jobs are taken (window.py): results sent without a bound pile up
at the server and make it slower.
"""

import asyncio
from collections.abc import Callable
from math import inf

from manyhands.shared.errors import FaktoryError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.codec import OK, ErrorReply, Reply
from manyhands.shared.faktory.lanes import Command, CommandLanes
from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.outcomes import Failed

MAX_ATTEMPTS = 4
REPEAT_AFTER_S = 1.0
# A lane answers one command after the other, so a batch is also what one lane is kept busy with.
BATCH = 16


class Results:
    """State: results collected in this turn, how many await their answer, how many were given
    up. `on_change` asks the owner to call `send_collected` soon."""

    def __init__(self, lanes: CommandLanes, on_change: Callable[[], None]) -> None:
        self.unanswered = 0
        self.given_up = 0
        self._lanes = lanes
        self._on_change = on_change
        self._collected: list[Command] = []
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._log = get_logger("results")

    def ack(self, jid: str) -> None:
        """Sent again until answered: the server says OK to an ACK that it has seen before."""
        self._send(Command(codec.ack(jid), self._answered, is_kept=True, jid=jid))

    def fail(self, jid: str, failed: Failed, reserved_until: float = inf) -> None:
        """Not sent after the reservation has ended: the server has failed the job itself then,
        and somebody else may have it."""
        line = codec.fail(jid, failed.error_type, failed.message, failed.backtrace)
        command = Command(line, self._answered, is_kept=True, expires_at=reserved_until, jid=jid)
        self._send(command)

    def unanswered_jids(self) -> list[str]:
        unsent = [command.jid for command in self._collected]
        return unsent + [command.jid for command in self._lanes.unanswered() if command.jid]

    async def flushed(self) -> None:
        await self._none_left.wait()

    def send_collected(self) -> None:
        """Hand over what has come together: few writes of many lines each."""
        if self._collected:
            collected, self._collected = self._collected, []
            for start in range(0, len(collected), BATCH):
                self._lanes.submit_together(collected[start : start + BATCH])

    def _send(self, command: Command) -> None:
        self.unanswered += 1
        self._none_left.clear()
        self._collected.append(command)
        self._on_change()

    def _answered(self, command: Command, reply: Reply | FaktoryError) -> None:
        if reply != OK and self._is_repeated(command, reply):
            return
        self.unanswered -= 1
        if self.unanswered == 0:
            self._none_left.set()
        self._on_change()

    def _is_repeated(self, command: Command, reply: Reply | FaktoryError) -> bool:
        """What was refused is sent again, and given up in the end."""
        if not isinstance(reply, ErrorReply | FaktoryError) or _is_known_already(reply):
            return False
        command.attempts += 1
        if isinstance(reply, ErrorReply) and command.attempts < MAX_ATTEMPTS:
            loop = asyncio.get_running_loop()
            loop.call_later(REPEAT_AFTER_S, self._lanes.submit, command)
            return True
        self.given_up += 1
        self._log.error(
            "a result could not be reported; the job comes back when its reservation ends",
            jid=command.jid,
            reason=str(reply),
        )
        return False


def _is_known_already(reply: ErrorReply | FaktoryError) -> bool:
    """A FAIL whose job is gone was either repeated, or came after the reservation's end."""
    return isinstance(reply, ErrorReply) and reply.text.lower().startswith("job not found")

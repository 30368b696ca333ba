"""What a client is answered: in the order of its commands, whenever each answer is ready."""

import asyncio
from collections import deque
from typing import Protocol

from manyhands.broker.holders import COUNTED_BYTES
from manyhands.broker.memory import ANSWER_BYTES

# Above this, a client that does not read is not served until it has read.
WRITE_BUFFER_BYTES = 1024 * 1024
# Small answers are written together, as many as this at most.
WRITTEN_TOGETHER = 64


class Teller(Protocol):
    """A connection, as far as its answers care."""

    def flush(self) -> None:
        """An answer is ready: send what can be sent, and go on with what waited for it."""

    def count(self) -> None:
        """So much was sent that its budget must be looked at."""


class Answer:
    """An answer that is not there yet. Those of later commands wait behind it."""

    __slots__ = ("_answers", "data", "is_ready")

    def __init__(self, data: bytes, answers: "Answers") -> None:
        self.data = data
        self.is_ready = False
        self._answers = answers
        answers.unsent_bytes += len(data)

    def fill(self, data: bytes) -> None:
        """This is what it will be, once it is ready."""
        self._answers.unsent_bytes += len(data) - len(self.data)
        self.data = data

    def ready(self) -> None:
        self.is_ready = True
        self._answers.flush()

    def give(self, data: bytes) -> None:
        self.fill(data)
        self.ready()


class Answers:
    """State: answers that wait for their turn, with their bytes; answers to be written; what was
    written since that was last counted; the answer that later commands wait for; and whether the
    client does not read (`is_choked`)."""

    def __init__(self, transport: asyncio.Transport, teller: Teller) -> None:
        self.waiting: deque[Answer] = deque()
        self.unsent_bytes = 0
        self.is_choked = False
        # No later command of the connection is run before this one is ready.
        self.awaited: Answer | None = None
        self.flush = teller.flush
        self.is_closing = transport.is_closing
        self._count = teller.count
        self._transport = transport
        self._ready: list[bytes] = []
        self._written_bytes = 0

    def reply(self, data: bytes) -> None:
        if self.waiting:
            self.reply_later(data).is_ready = True
            return
        self._ready.append(data)
        if len(data) > COUNTED_BYTES or len(self._ready) > WRITTEN_TOGETHER:
            self.flush()

    def reply_later(self, data: bytes = b"") -> Answer:
        answer = Answer(data, self)
        self.waiting.append(answer)
        return answer

    @property
    def is_full(self) -> bool:
        """There are enough answers that it has not read, or that are not ready to be read."""
        return self.is_choked or self.unsent_bytes > WRITE_BUFFER_BYTES

    def held_bytes(self) -> int:
        self._written_bytes = 0
        return self.unsent_bytes + ANSWER_BYTES * len(self.waiting) + self.unread_bytes()

    def unread_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def send(self) -> None:
        """Write the answers that are ready, up to the first that is not."""
        waiting, ready = self.waiting, self._ready
        while waiting and waiting[0].is_ready:
            data = waiting.popleft().data
            self.unsent_bytes -= len(data)
            ready.append(data)
        if not ready:
            return
        if not self.is_closing():
            data = b"".join(ready)
            self._transport.write(data)
            self._written_bytes += len(data)
        ready.clear()
        if self._written_bytes > COUNTED_BYTES:
            self._count()

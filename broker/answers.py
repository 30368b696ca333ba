"""What a command sees of the connection that it came on."""

from collections.abc import Sequence
from typing import Protocol

from manyhands.broker.queues import Queue


class Teller(Protocol):
    """Who sends the answers, in their order."""

    # Of all answers that are not sent yet.
    answer_bytes: int

    def flush(self) -> None: ...


class Answer:
    """An answer that is not there yet. Those of later commands wait behind it."""

    __slots__ = ("_teller", "data", "is_ready")

    def __init__(self, data: bytes, teller: Teller) -> None:
        self.data = data
        self.is_ready = False
        self._teller = teller
        teller.answer_bytes += len(data)

    def fill(self, data: bytes) -> None:
        """This is what it will be, once it is ready."""
        self._teller.answer_bytes += len(data) - len(self.data)
        self.data = data

    def ready(self) -> None:
        self.is_ready = True
        self._teller.flush()

    def give(self, data: bytes) -> None:
        self.fill(data)
        self.ready()


class Caller(Protocol):
    """Answers go out in the order in which they were asked for here."""

    @property
    def owner(self) -> str | None: ...

    def reply(self, data: bytes) -> None: ...

    def reply_later(self, data: bytes = b"") -> Answer: ...

    def wait_for(self, answer: Answer) -> None:
        """Run no later command of this connection before that answer is ready."""

    def fetch(self, queues: Sequence[Queue]) -> None: ...

    def close(self) -> None: ...

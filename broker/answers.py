"""What a command sees of the connection that it came on."""

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.queues import Queue


class Answer:
    """An answer that is not there yet. Those of later commands wait behind it."""

    __slots__ = ("_flush", "data", "is_ready")

    def __init__(self, data: bytes, flush: Callable[[], None]) -> None:
        self.data = data
        self.is_ready = False
        self._flush = flush

    def ready(self) -> None:
        self.is_ready = True
        self._flush()

    def give(self, data: bytes) -> None:
        self.data = data
        self.ready()


class Caller(Protocol):
    """Answers go out in the order in which they were asked for here."""

    @property
    def owner(self) -> str | None: ...

    def reply(self, data: bytes) -> None: ...

    def reply_later(self, data: bytes = b"") -> Answer: ...

    def fetch(self, queues: Sequence[Queue]) -> None: ...

    def close(self) -> None: ...

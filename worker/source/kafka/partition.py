"""One partition while it is ours, and the records of it that are here."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from manyhands.worker.jobs.message import Message
from manyhands.worker.source.kafka.failures import History, history_of
from manyhands.worker.source.kafka.partition_queue import PartitionQueue
from manyhands.worker.source.kafka.progress import Commit, Progress, Received
from manyhands.worker.source.kafka.topics import Topic

# What is kept of a record beside its value, about.
OVERHEAD_BYTES = 500


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Held:
    """A record that was received and is not done: its message and value, and its place among those
    of its partition. State: when it may run, if that was read from its headers."""

    __slots__ = ("history", "key", "message", "offset", "place", "value", "written_ms")

    def __init__(
        self, message: Message, value: bytes | None, place: Received, written_ms: int
    ) -> None:
        self.message = message
        self.key = message.key
        self.offset = message.offset
        self.value = value
        self.place = place
        # When the broker or the producer says that it was written.
        self.written_ms = written_ms
        self.history: History | None = None

    @property
    def size(self) -> int:
        return OVERHEAD_BYTES + len(self.value or b"")

    @property
    def told(self) -> History:
        """Read once, and only where it is asked for."""
        if self.history is None:
            self.history = history_of(self.message)
        return self.history


@dataclass(slots=True, frozen=True)
class PartitionView:
    """A partition, now; None is not known."""

    topic: str
    partition: int
    lag: int | None
    incomplete: int
    oldest_s: float
    running: int
    waiting: int
    is_paused: bool
    metadata_bytes: int


class Partition:
    """One assignment of a partition: another one, later, is another object, so what ends late of
    this one changes nothing there. State: see the attributes."""

    __slots__ = (
        "asked",
        "committed",
        "in_flight",
        "is_full",
        "is_ours",
        "is_paused",
        "is_turn",
        "place",
        "progress",
        "queue",
        "sent",
        "waiting_bytes",
        "written_ms",
    )

    def __init__(self, place: Place, topic: Topic, commit: Commit | None) -> None:
        self.place = place
        self.queue: PartitionQueue[Held] = PartitionQueue(topic.order)
        # None until the first record, where the group has no commit yet.
        self.progress: Progress | None = None
        if commit is not None:
            self.progress = Progress.resumed(commit.offset, commit.metadata)
        self.committed = commit.offset if commit is not None else None
        # The commit that is on its way, or was answered.
        self.sent = commit
        # When each was written that is not done, by its offset.
        self.written_ms: dict[int, int] = {}
        self.in_flight = 0
        self.waiting_bytes = 0
        self.is_ours = True
        self.is_paused = False
        # Among those that have something to run.
        self.is_turn = False
        # Something waits for the base to move: it was said.
        self.is_full = False
        # Told to the revoking reader when nothing is in flight any more.
        self.asked: asyncio.Event | None = None

    @property
    def is_commit_pending(self) -> bool:
        return self.sent is not None and self.sent.offset != self.committed

    def view(self, end: int | None, now_s: float) -> PartitionView:
        progress = self.progress
        oldest_ms = None if progress is None else self.written_ms.get(progress.base)
        return PartitionView(
            topic=self.place.topic,
            partition=self.place.partition,
            lag=None if end is None or self.committed is None else max(0, end - self.committed),
            incomplete=0 if progress is None else progress.incomplete,
            oldest_s=max(0.0, now_s - oldest_ms / 1000) if oldest_ms else 0.0,
            running=self.in_flight,
            waiting=self.queue.waiting,
            is_paused=self.is_paused,
            metadata_bytes=len(self.sent.metadata) if self.sent is not None else 0,
        )

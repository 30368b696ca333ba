"""The consumer of a group, in a thread of its own: nobody else touches it.

librdkafka calls back about partitions from within `poll`. The callbacks only hand over to whoever
decides (`GroupEvents`) and wait for a word where Kafka wants one: where to begin, and, when
partitions are taken away, what to commit. So poll and commit can never wait for each other.

Commands of others (pause, resume, commit) are queued and carried out between two polls.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage

from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.message import Message
from manyhands.worker.source.kafka.partition import Held, Place
from manyhands.worker.source.kafka.progress import Commit, Received

# While nothing comes. Commands wait for as long, so it is short while somebody waits for one.
POLL_S = 0.05
HASTY_POLL_S = 0.002
LOOK_S = 1.0
# Taken at a time. More would hold the interpreter's lock for longer than a turn of the event loop.
MOST_AT_ONCE = 500
COMMITTED_S = 10.0
# Kafka's answer to a commit, after what the handlers of a revoked partition were given.
REVOKE_MARGIN_S = 10.0


@dataclass(slots=True, frozen=True)
class Assigned:
    """A partition that is ours from now on, and where its group stands; None before its first
    commit."""

    place: Place
    commit: Commit | None


class GroupEvents(Protocol):
    """All are called in the reader's thread."""

    def assigned(self, partitions: Sequence[Assigned]) -> None:
        """Their records follow."""

    def revoking(self, places: Sequence[Place]) -> "Future[dict[Place, Commit]]":
        """They are about to go to others. The future brings what to commit of them, in a bounded
        time; they are not ours any more then."""

    def lost(self, places: Sequence[Place]) -> None:
        """They went to others already: nothing may be committed."""

    def received(self, messages: list[KafkaMessage]) -> None: ...

    def committed(self, offsets: Mapping[Place, int], error: KafkaError | None) -> None:
        """Of one commit, which may be of several partitions."""

    def troubled(self, error: KafkaError) -> None:
        """Something that librdkafka goes on trying, or cannot: `error.fatal()`."""


class GroupReader:
    """State: the thread, its commands, and whether it is to end."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        events: GroupEvents,
        *,
        grace_s: float,
    ) -> None:
        self._settings = {**settings, "error_cb": events.troubled, "on_commit": self._on_commit}
        self._topics = list(topics)
        self._events = events
        self._grace_s = grace_s
        self._commands: deque[Callable[[Consumer], None]] = deque()
        # Commits of what runs are waited for while nothing new may come.
        self._paused: frozenset[Place] = frozenset()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka group", daemon=True)
        self.ended: Future[None] = Future()
        # Where each partition ended when it was read last: librdkafka's own figures, nobody asks.
        self.ends: dict[Place, int] = {}
        self._looked_at = 0.0
        self._log = get_logger("kafka")

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Leave the group: its partitions are revoked first. `ended` says when that is over."""
        self._is_ending.set()

    def pause(self, places: Sequence[Place]) -> None:
        self._paused |= set(places)
        self._commands.append(lambda consumer: consumer.pause(_partitions(places)))

    def resume(self, places: Sequence[Place]) -> None:
        self._paused -= set(places)
        self._commands.append(lambda consumer: consumer.resume(_partitions(places)))

    def commit(self, commits: Mapping[Place, Commit]) -> None:
        offsets = _with_commits(commits)
        self._commands.append(lambda consumer: consumer.commit(offsets=offsets, asynchronous=True))

    # All below runs in the thread.

    def _run(self) -> None:
        try:
            consumer = Consumer(self._settings)
            try:
                consumer.subscribe(
                    self._topics,
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
                while not self._is_ending.is_set():
                    self._turn(consumer)
            finally:
                # Revokes what we have.
                consumer.close()
        except BaseException as error:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def _turn(self, consumer: Consumer) -> None:
        while self._commands:
            try:
                self._commands.popleft()(consumer)
            except KafkaException as error:
                # Of a partition that is not ours any more.
                self._log.debug("a command came too late", reason=str(error))
        if (now := time.monotonic()) - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._look_at_ends(consumer)
        # `consume` alone would wait for as many as it may bring.
        first = consumer.poll(HASTY_POLL_S if self._paused else POLL_S)
        if first is None:
            return
        messages = [first, *consumer.consume(MOST_AT_ONCE, 0)]
        for message in messages:
            if (trouble := message.error()) is not None:
                self._events.troubled(trouble)
        self._events.received([message for message in messages if message.error() is None])

    def _look_at_ends(self, consumer: Consumer) -> None:
        ends = {}
        for one in consumer.assignment():
            _, end = consumer.get_watermark_offsets(one, cached=True)
            if end >= 0:
                ends[Place(one.topic, one.partition)] = end
        self.ends = ends

    def _on_commit(self, failed: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = [failed, *(partition.error for partition in partitions)]
        self._events.committed(
            {Place(one.topic, one.partition): one.offset for one in partitions},
            next((error for error in errors if error is not None), None),
        )

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        known = consumer.committed(partitions, timeout=COMMITTED_S) if partitions else []
        for partition in known:
            if partition.error is not None:
                raise KafkaException(partition.error)
        self._events.assigned([_assigned(partition) for partition in known])
        # Without a commit: where `auto.offset.reset` says.
        consumer.incremental_assign(
            [TopicPartition(one.topic, one.partition, one.offset) for one in known]
        )

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = _places(partitions)
        commits = self._events.revoking(places).result(self._grace_s + REVOKE_MARGIN_S)
        if commits:
            offsets = {place: commit.offset for place, commit in commits.items()}
            try:
                consumer.commit(offsets=_with_commits(commits), asynchronous=False)
            except KafkaException as refused:
                self._events.committed(offsets, refused.args[0])
            else:
                self._events.committed(offsets, None)
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._events.lost(_places(partitions))
        consumer.incremental_unassign(partitions)


def held_of(message: KafkaMessage, place: Place, received: Received) -> Held:
    key, headers = message.key(), message.headers() or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Held(
        Message(
            place.topic,
            place.partition,
            received.offset,
            _bytes(key),
            tuple((name, _bytes(value)) for name, value in pairs),
        ),
        message.value(),
        received,
        message.timestamp()[1],
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    """Records that are read have bytes; the types allow for what is written, too."""
    return value.encode() if isinstance(value, str) else value


def _assigned(partition: TopicPartition) -> Assigned:
    place = Place(partition.topic, partition.partition)
    if partition.offset == OFFSET_INVALID or partition.offset < 0:
        return Assigned(place, None)
    return Assigned(place, Commit(partition.offset, partition.metadata or ""))


def _places(partitions: Sequence[TopicPartition]) -> list[Place]:
    return [Place(one.topic, one.partition) for one in partitions]


def _partitions(places: Sequence[Place]) -> list[TopicPartition]:
    return [TopicPartition(*place) for place in places]


def _with_commits(commits: Mapping[Place, Commit]) -> list[TopicPartition]:
    return [
        TopicPartition(place.topic, place.partition, commit.offset, commit.metadata)
        for place, commit in commits.items()
    ]

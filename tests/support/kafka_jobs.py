"""Records for a worker that takes its jobs from Kafka, and what its group has said of them."""

import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

QUIET = {"log_level": 0}
WAIT_S = 30.0
NO_LEADER_YET = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)


@dataclass(frozen=True, slots=True)
class Taken:
    """A record that was read back."""

    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]


class KafkaJobs:
    """A topic and a group of the test's own at a server that others may use, too."""

    def __init__(self, address: str, partitions: int = 4) -> None:
        self.address = address
        self.topic = f"jobs-{secrets.token_hex(4)}"
        self.group = f"group-{secrets.token_hex(4)}"
        self._settings: dict[str, Any] = {"bootstrap.servers": address, **QUIET}
        self._admin = AdminClient(self._settings)
        self.make_topic(self.topic, partitions)

    @property
    def url(self) -> str:
        return f"kafka://{self.address}?group={self.group}"

    def retry_topic(self, delay_s: int) -> str:
        return f"{self.group}-retry-{delay_s}s"

    @property
    def dead_topic(self) -> str:
        return f"{self.group}-dead"

    def make_topic(self, name: str, partitions: int) -> None:
        made = self._admin.create_topics([NewTopic(name, num_partitions=partitions)])
        made[name].result(WAIT_S)

    def write(
        self,
        jobs: Iterable[tuple[bytes | None, bytes | None]],
        *,
        topic: str = "",
        headers: dict[str, bytes] | None = None,
    ) -> None:
        """Key and value of each; returns when all are stored."""
        producer = Producer(self._settings)
        failed: list[object] = []
        for key, value in jobs:
            producer.produce(
                topic or self.topic,
                value=value,
                key=key,
                headers=dict(headers or {}),
                on_delivery=lambda error, _message: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
        assert not failed, failed[0]

    def push(self, jobtype: str, *argses: list[Any], key: bytes | None = None) -> None:
        self.write((key, job(jobtype, args)) for args in argses)

    def committed(self, topic: str = "") -> dict[int, tuple[int, str]]:
        """Offset and metadata by partition, where the group has committed."""
        consumer = Consumer({**self._settings, "group.id": self.group})
        try:
            places = self._places(consumer, topic or self.topic)
            found = consumer.committed(places, timeout=WAIT_S)
            return {
                one.partition: (one.offset, one.metadata or "") for one in found if one.offset >= 0
            }
        finally:
            consumer.close()

    def lag(self, topic: str = "") -> int:
        """Records that are not committed."""
        consumer = Consumer({**self._settings, "group.id": self.group})
        try:
            places = self._places(consumer, topic or self.topic)
            ends = [end_of(consumer, place) for place in places]
            found = consumer.committed(places, timeout=WAIT_S)
            return sum(ends) - sum(max(0, one.offset) for one in found)
        finally:
            consumer.close()

    def read(self, topic: str) -> list[Taken]:
        """All records of a topic, as they are now."""
        consumer = Consumer({**self._settings, "group.id": f"{self.group}-reader"})
        found = []
        try:
            for place in self._places(consumer, topic):
                end = end_of(consumer, place)
                consumer.assign([TopicPartition(place.topic, place.partition, 0)])
                for _ in range(end):
                    message = consumer.poll(WAIT_S)
                    assert message is not None and message.error() is None
                    pairs = message.headers() or []
                    headers = dict(pairs) if isinstance(pairs, list) else pairs
                    found.append(Taken(message.key(), message.value(), headers))  # type: ignore[arg-type]
        finally:
            consumer.close()
        return found

    def dead_records(self) -> int:
        return self._ends(self.dead_topic)

    def _ends(self, topic: str) -> int:
        consumer = Consumer({**self._settings, "group.id": f"{self.group}-reader"})
        try:
            if topic not in consumer.list_topics(timeout=WAIT_S).topics:
                return 0
            places = self._places(consumer, topic)
            return sum(end_of(consumer, place) for place in places)
        finally:
            consumer.close()

    @staticmethod
    def _places(consumer: Consumer, topic: str) -> list[TopicPartition]:
        partitions = consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
        return [TopicPartition(topic, number) for number in sorted(partitions)]


def end_of(consumer: Consumer, place: TopicPartition) -> int:
    """A topic that was made just now has no leader for a moment."""
    give_up_at = time.monotonic() + WAIT_S
    while True:
        try:
            offsets: tuple[int, int] = consumer.get_watermark_offsets(place, timeout=WAIT_S)
        except KafkaException as error:
            if error.args[0].code() not in NO_LEADER_YET or time.monotonic() > give_up_at:
                raise
            time.sleep(0.1)
        else:
            return offsets[1]


def job(jobtype: str, args: list[Any], **more: Any) -> bytes:
    return json.dumps({"jobtype": jobtype, "args": args, **more}).encode()

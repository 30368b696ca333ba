"""Jobs from the topics of a Kafka: the group's source, and what is told of it."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from manyhands.shared.errors import ConfigError
from manyhands.shared.kafka import client_settings, kafka_place
from manyhands.shared.settings import Settings
from manyhands.shared.settings.passwords import with_password
from manyhands.worker.jobs.registry import REGISTRY
from manyhands.worker.process.intake import IntakePulse
from manyhands.worker.service.link import Backlog, Family, Ready, StagePulse, StageReport
from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.sinks.kinds import CAPTURED, EMITTED
from manyhands.worker.sinks.sinks import Sinks
from manyhands.worker.source.kafka.figures import kafka_families
from manyhands.worker.source.kafka.source import KafkaSource
from manyhands.worker.source.kafka.topics import Topic, all_topics, parse_topics, side_topics

# The only stage of such a process.
STAGE = "kafka"
READY_LOOK_S = 0.05
# Handlers of partitions that go to others, until they are waited for no longer.
GRACE_S = 10.0


class KafkaIntake:
    """An `Intake`. State: the source."""

    kinds = EMITTED | CAPTURED

    def __init__(self, settings: Settings, group: ProcessGroup, process_id: str) -> None:
        if group.stage_names or settings.worker.queues:
            raise ConfigError(
                "WORKER_SOURCE is a Kafka, which has topics: name them in WORKER_TOPICS, and use "
                "neither WORKER_STAGES nor WORKER_QUEUES"
            )
        kafka = settings.kafka
        url = with_password(settings.worker.source, kafka.password.get_secret_value())
        place = kafka_place(url, "WORKER_SOURCE")
        if not place.group:
            raise ConfigError("WORKER_SOURCE names no group: add ?group=NAME to the URL")
        raw_types = REGISTRY.types_by_topic()
        topics = parse_topics(settings.worker.topics) or tuple(map(Topic, sorted(raw_types)))
        if not topics:
            raise ConfigError("WORKER_TOPICS names no topic, and no handler declares one")
        side = side_topics(place.group, kafka.retry_delays_s)
        self._topics = all_topics(topics, side)
        self.source = KafkaSource(
            client_settings(place, kafka.sasl_mechanism, kafka.ca_file),
            _group_settings(settings, place.group, process_id),
            self._topics,
            side,
            raw_types,
            slots=group.slots,
            grace_s=GRACE_S,
        )
        self._slots = group.slots
        self.is_draining = False

    def make_services(self, sinks: Sinks) -> None:
        """A process that takes its jobs from Kafka owns no shards."""

    def start(self) -> None:
        """The source's threads start with its `run`."""

    def stop(self) -> None:
        """They ended with it."""

    def drain(self) -> None:
        self.is_draining = True

    def services(self) -> Iterable[tuple[str, Coroutine[Any, Any, None]]]:
        return ()

    async def stop_feeding(self) -> None:
        """There is nothing that feeds."""

    async def close(self) -> None:
        """There is nothing to store."""

    def told(self, backlog: Backlog) -> None:
        """The supervisor knows no queues of Kafka."""

    async def ready(self) -> Ready:
        while not self.source.is_connected:  # noqa: ASYNC110 - the reader's thread says so
            await asyncio.sleep(READY_LOOK_S)
        return Ready(
            stages=[StageReport(STAGE, sorted(self._topics), weight=1, cap=self._slots, feeds="")]
        )

    def pulse(self) -> IntakePulse:
        running = self.source.running
        return IntakePulse(
            wids=[],
            is_connected=self.source.is_connected,
            unanswered=self.source.uncommitted,
            fetch_silence_s=0.0,
            stages=[StagePulse(STAGE, running, outstanding=0, window=self._slots)],
            waits_for=self.source.waits_for,
        )

    def families(self) -> Iterable[Family]:
        return kafka_families(self.source)

    def announced(self) -> Mapping[str, object]:
        return {"topics": {name: topic.order.value for name, topic in self._topics.items()}}


def _group_settings(settings: Settings, group: str, process_id: str) -> Mapping[str, Any]:
    """Of librdkafka's consumer."""
    kafka = settings.kafka
    found: dict[str, Any] = {
        "group.id": group,
        "group.protocol": kafka.group_protocol,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        # What librdkafka fetches ahead of us, of all partitions: less than its 64 MiB each.
        "queued.max.messages.kbytes": 16 * 1024,
    }
    if kafka.group_protocol == "classic":
        found["partition.assignment.strategy"] = "cooperative-sticky"
    if kafka.instance:
        found["group.instance.id"] = f"{kafka.instance}-{process_id}"
    return found

"""Records as messages of Kafka: `<topic>-pages`, `<topic>-edges` and `<topic>-records`.

A message's key is the id of its record. Kafka does not know what it already has: if a worker dies
between a message and the end of its job, the same message is sent again. Consumers recognize it by
its key, or read a compacted topic. A living process never repeats an acknowledged message.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.server_url import ServerUrl, server_url
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.rows import rows_of
from manyhands.worker.sinks.servers.kafka_messages import messages_of, topics_of

EXAMPLE = "kafka://host:9092,host:9092/topic"
DEFAULT_PORT = 9092
CONNECT_S = 10.0
# From handing a message over to the acknowledgement; librdkafka tries again meanwhile.
DELIVERY_S = 30.0
# By then every message has been reported.
FLUSH_S = DELIVERY_S + 10.0
FULL_QUEUE_S = 0.1
LONGEST_RECONNECT_MS = 2000
QUEUE_KILOBYTES = 64 * 1024
QUEUE_MESSAGES = 100_000
# Before it is compressed. What the broker takes counts afterwards, and links compress well.
MOST_MESSAGE_BYTES = 16_000_000
SECURITY = {
    ("kafka", False): "PLAINTEXT",
    ("kafka", True): "SASL_PLAINTEXT",
    ("kafka+ssl", False): "SSL",
    ("kafka+ssl", True): "SASL_SSL",
}
# Errors of creating a topic that trying again cannot help.
NO_TOPIC = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
    }
)

# Topic and key: no two messages of a batch have the same.
Name = tuple[str, bytes]
Result = TypeVar("Result")


class KafkaSink:
    """A `Sink`. State: the producer and the thread that waits for it, its last report on the
    brokers, and which messages of a failed batch are already stored."""

    kinds = frozenset({PageRecord, PlainRecord})

    def __init__(self, url: str) -> None:
        place = server_url(
            url, schemes=("kafka", "kafka+ssl"), default_port=DEFAULT_PORT, example=EXAMPLE
        )
        self.name = place.name
        self._topics = topics_of(place.path)
        self._settings = _settings(place)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kafka sink")
        self._producer: Producer | None = None
        self._told: KafkaError | None = None
        self._acknowledged: set[Name] = set()

    async def open(self) -> None:
        await self._in_thread(self._open)

    async def write(self, records: Sequence[Record]) -> None:
        await self._in_thread(lambda: self._write(records))

    async def close(self) -> None:
        # A write that was cancelled may still be waiting in the thread.
        if self._producer is not None:
            self._producer.purge(blocking=False)
        await self._in_thread(self._forget_producer)
        self._thread.shutdown()

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # All below runs in the thread.

    def _open(self) -> Producer:
        """Raises ConfigError, or ConnectionError when it is worth another try."""
        self._told = None
        if self._producer is not None:
            return self._producer
        producer = Producer({**self._settings, "error_cb": self._hear})
        try:
            known = producer.list_topics(timeout=CONNECT_S).topics
            self._make_topics([topic for topic in self._topics.all if topic not in known])
            self._producer = producer
        except KafkaException as error:
            producer.poll(0)
            self._raise(error.args[0])
        finally:
            if self._producer is None:
                # Here, not in the loop's thread: destroying it waits for threads to end.
                producer.close()
        return producer

    def _make_topics(self, missing: list[str]) -> None:
        """With as many partitions and replicas as is the brokers' default."""
        if not missing:
            return
        # It has to live until its answers have come.
        admin = AdminClient(self._settings)
        made = admin.create_topics([NewTopic(topic) for topic in missing])
        for future in made.values():
            try:
                future.result(CONNECT_S)
            except KafkaException as error:
                code = error.args[0].code()
                if code in NO_TOPIC:
                    raise ConfigError(
                        f"SINKS: {self.name}: {error.args[0].str()}: name another topic, "
                        f"or make {', '.join(self._topics.all)} for this user"
                    ) from error
                # By another process, which starts at the same time.
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _write(self, records: Sequence[Record]) -> None:
        producer = self._open()
        values: dict[Name, bytes] = {}
        places: dict[Name, int] = {}
        rows = rows_of(records, lambda record: messages_of(record, self._topics))
        for position, messages in enumerate(rows):
            for topic, key, value in messages:
                values[topic, key] = value
                places[topic, key] = position
        self._acknowledged &= values.keys()
        refused: dict[int, str] = {}
        # A broker refuses all that it got together. Alone, only those fail that are too large.
        for name in self._deliver(producer, values):
            for error in self._deliver(producer, {name: values[name]}).values():
                refused[places[name]] = error.str()
        if refused:
            raise RecordsRefused(refused)
        self._acknowledged.clear()

    def _deliver(self, producer: Producer, values: dict[Name, bytes]) -> dict[Name, KafkaError]:
        """Return when all are stored, except those that are too large or were sent with such a one.
        Raises ConnectionError."""
        failed: dict[Name, KafkaError] = {}

        def report(error: KafkaError | None, message: Message) -> None:
            # Only errors are reported: see the settings.
            topic, key = message.topic(), message.key()
            assert error is not None and topic is not None and key is not None
            failed[topic, key] = error

        for name, value in values.items():
            if name not in self._acknowledged:
                try:
                    _produce(producer, name, value, report)
                except KafkaException as refusal:
                    failed[name] = refusal.args[0]
        if producer.flush(FLUSH_S):
            self._forget_producer()
            raise ConnectionError(f"no report on some messages within {FLUSH_S:g} s")
        self._acknowledged |= values.keys() - failed.keys()
        for error in failed.values():
            if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                self._raise(error)
        return failed

    def _hear(self, error: KafkaError) -> None:
        """What librdkafka reports beyond single messages. "All brokers are down" comes after the
        error of the last of them."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._told = error

    def _raise(self, error: KafkaError) -> NoReturn:
        told = self._told or error
        if told.code() == KafkaError._AUTHENTICATION:
            raise ConfigError(
                f"SINKS: {self.name}: {told.str()}: check user and password, with special "
                "characters URL-escaped"
            )
        if error.fatal() or told.fatal() or error.code() == KafkaError._FATAL:
            # An idempotent producer has lost count: a new one can continue.
            self._forget_producer()
        raise ConnectionError(error.str() if told is error else f"{error.str()}: {told.str()}")

    def _forget_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.close()


def _produce(
    producer: Producer,
    name: Name,
    value: bytes,
    report: Callable[[KafkaError | None, Message], None],
) -> None:
    topic, key = name
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=report)
        except BufferError:
            # Its queue is full. This ends: everything in it is delivered or given up.
            producer.poll(FULL_QUEUE_S)
        else:
            return


def _settings(place: ServerUrl) -> dict[str, Any]:
    """Of librdkafka."""
    settings: dict[str, Any] = {
        "bootstrap.servers": place.places,
        "security.protocol": SECURITY[place.scheme, bool(place.user)],
        "enable.idempotence": True,
        "acks": "all",
        # Not 5. A broker that begins to lead a partition may refuse one request and take the next:
        # until Kafka 4.5 it takes any number from a producer that is new to it (KAFKA-15591). That
        # answer librdkafka takes for one to all that was sent before (rd_kafka_dr_implicit_ack),
        # and the messages that were refused are lost without an error.
        "max.in.flight.requests.per.connection": 1,
        # All others are known to be stored when nothing is in flight any more.
        "delivery.report.only.error": True,
        "compression.type": "lz4",
        "message.timeout.ms": int(DELIVERY_S * 1000),
        "message.max.bytes": MOST_MESSAGE_BYTES,
        "queue.buffering.max.kbytes": QUEUE_KILOBYTES,
        "queue.buffering.max.messages": QUEUE_MESSAGES,
        "socket.connection.setup.timeout.ms": int(CONNECT_S * 1000),
        "reconnect.backoff.max.ms": LONGEST_RECONNECT_MS,
        # Errors are raised as exceptions; by default it would log to stderr.
        "log_level": 0,
    }
    if place.user:
        settings |= {
            "sasl.mechanism": "PLAIN",
            "sasl.username": place.user,
            "sasl.password": place.password,
        }
    return settings

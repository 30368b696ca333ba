"""Writes records, in a thread of its own, and says when the brokers have them.

What several callers send at the same time goes out together. A record counts as written when all
brokers that must have it do (acks=all).
"""

import asyncio
import queue
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from manyhands.shared.errors import ManyhandsError
from manyhands.worker.source.kafka.failures import Outgoing

DELIVERY_S = 30.0
FLUSH_S = DELIVERY_S + 10.0
FULL_QUEUE_S = 0.1
# Of calls that are sent together.
MOST_TOGETHER = 1000
MOST_RECORD_BYTES = 16_000_000
SETTINGS: Mapping[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    # More than one request at a time can lose a record without an error where a partition has just
    # got another leader (KAFKA-15591): see the Kafka sink.
    "max.in.flight.requests.per.connection": 1,
    "compression.type": "lz4",
    "message.timeout.ms": int(DELIVERY_S * 1000),
    "message.max.bytes": MOST_RECORD_BYTES,
    "linger.ms": 1,
}


class NotSent(ManyhandsError):
    """The brokers did not take a record; the text says why."""


class _Batch:
    """Records of one call. State: what the brokers refused."""

    def __init__(self, records: Sequence[Outgoing]) -> None:
        self.records = records
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error = ""

    def report(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.error = self.error or error.str()

    def tell(self) -> None:
        """In the loop's thread."""
        if self.done.done():
            return
        if self.error:
            self.done.set_exception(NotSent(self.error))
        else:
            self.done.set_result(None)


class Sender:
    """State: the thread, the batches that it has not begun, and whether its producer is of use."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = {**settings, **SETTINGS, "error_cb": self._hear}
        self._is_broken = False
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="kafka sender", daemon=True)
        self._thread.start()

    async def send(self, records: Sequence[Outgoing]) -> None:
        """Return when the brokers have them all. Raises NotSent; some may be written then."""
        batch = _Batch(records)
        self._batches.put(batch)
        await batch.done

    async def close(self) -> None:
        """After the last `send` has returned."""
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    # All below runs in the thread.

    def _hear(self, error: KafkaError) -> None:
        self._is_broken = self._is_broken or error.fatal()

    def _run(self) -> None:
        producer = Producer(self._settings)
        while (first := self._batches.get()) is not None:
            batches = [first]
            while len(batches) < MOST_TOGETHER and not self._batches.empty():
                if (following := self._batches.get()) is None:
                    self._batches.put(None)
                    break
                batches.append(following)
            self._send(producer, batches)
            if self._is_broken:
                # An idempotent producer has lost count: a new one can go on.
                self._is_broken = False
                producer = Producer(self._settings)

    def _send(self, producer: Producer, batches: Sequence[_Batch]) -> None:
        for batch in batches:
            for record in batch.records:
                _produce(producer, record, batch)
        if producer.flush(FLUSH_S):
            for batch in batches:
                batch.error = batch.error or f"no answer within {FLUSH_S:g} s"
            producer.purge()
        self._loop.call_soon_threadsafe(_tell_all, batches)


def _tell_all(batches: Sequence[_Batch]) -> None:
    for batch in batches:
        batch.tell()


def _produce(producer: Producer, record: Outgoing, batch: _Batch) -> None:
    produce = partial(
        producer.produce,
        record.topic,
        value=record.value,
        key=record.key,
        headers=list(record.headers),
        on_delivery=batch.report,
    )
    while True:
        try:
            produce()
        except BufferError:
            # Its queue is full; everything in it is delivered or given up in the end.
            producer.poll(FULL_QUEUE_S)
        except KafkaException as error:
            batch.error = batch.error or error.args[0].str()
            return
        else:
            return

"""Records as messages of a real Kafka: all there when `write` returns, none twice while we live."""

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import devservers.kafka
from devservers import KafkaServer
from manyhands.shared.crawl.page_fields import OF_LINKS, VERSION
from manyhands.shared.errors import ConfigError
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.servers import kafka as sink_module
from manyhands.worker.sinks.servers.kafka import KafkaSink
from tests.support.kafka_jobs import end_of
from tests.support.kafka_relay import KafkaRelay
from tests.support.shared_server import SharedServer
from tests.support.sink_records import (
    LATER_FIELDS,
    hostile_pages,
    page,
    page_outside_of_crawls,
    plain,
    written,
)

pytestmark = pytest.mark.jvm

Messages = list[tuple[str, Any]]
QUIET = {"log_level": 0}
PASSWORD = "p@ss/w:rd"


@pytest.fixture
def topic() -> str:
    return f"test-{secrets.token_hex(4)}"


@pytest.fixture
async def sink(kafka_server: SharedServer, topic: str) -> AsyncIterator[KafkaSink]:
    sink = KafkaSink(f"kafka://{kafka_server.address}/{topic}")
    await sink.open()
    yield sink
    await sink.close()


@pytest.fixture
def read(kafka_server: SharedServer, topic: str) -> Callable[[str], Messages]:
    return lambda kind: messages(kafka_server.address, f"{topic}-{kind}")


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[KafkaServer]:
    """One that may be killed."""
    with KafkaServer() as server:
        yield server


def messages(address: str, topic: str) -> Messages:
    """All of the topic, as key and value."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tests", **QUIET})
    found: Messages = []
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        for number in partitions:
            place = TopicPartition(topic, number, 0)
            end = end_of(consumer, place)
            consumer.assign([place])
            at = 0
            while at < end:
                message = consumer.poll(20)
                assert message is not None and message.error() is None
                key, value, offset = message.key(), message.value(), message.offset()
                assert key is not None and value is not None and offset is not None
                found.append((key.decode(), orjson.loads(value)))
                at = offset + 1
    finally:
        consumer.close()
    return found


def keys(found: Messages) -> list[str]:
    return sorted(key for key, _ in found)


def make_topic(address: str, name: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    admin.create_topics([NewTopic(name, config=settings)])[name].result(20)


# What arrives


async def test_a_page_arrives_with_all_its_fields(sink: KafkaSink, read: Any):
    await sink.write([page(1)])
    assert read("pages") == [
        (
            page(1).id,
            {
                "id": page(1).id,
                "url": "https://site.example/1",
                "final_url": "https://site.example/1?final",
                "status": 200,
                "content_type": "text/html; charset=utf-8",
                "title": "Page 1 – ä",
                "language": "de",
                "is_truncated": False,
                "fetched_at": "2026-11-17T05:44:33.123456Z",
                "crawl": 7,
                "visit": 1,
                "depth": 2,
                "is_indexable": True,
            }
            | {name: value for name, value in LATER_FIELDS.items() if name not in OF_LINKS},
        )
    ]
    assert read("edges") == [
        (
            page(1).id,
            {
                "page": page(1).id,
                "crawl": 7,
                "source": "https://site.example/1?final",
                "targets": [f"https://site.example/1/{link}" for link in range(3)],
                "schema": VERSION,
                "texts": None,
                "rels": None,
            },
        )
    ]


async def test_a_page_outside_of_crawls_has_nulls_and_no_edges(sink: KafkaSink, read: Any):
    await sink.write([page_outside_of_crawls(1)])
    [(_, found)] = read("pages")
    assert {name for name, value in found.items() if value is None} == {
        *("title", "language", "crawl", "visit", "depth"),
        *(name for name, value in LATER_FIELDS.items() if value is None and name not in OF_LINKS),
    }
    assert read("edges") == []


async def test_records_arrive_as_json(sink: KafkaSink, read: Any):
    bodies = [{"a": [1, 2.5, None, "ä"]}, [1, "two"], "text", None]
    await sink.write([PlainRecord(str(number), body) for number, body in enumerate(bodies)])
    assert sorted(read("records")) == [
        (str(number), {"id": str(number), "body": body}) for number, body in enumerate(bodies)
    ]


async def test_a_batch_of_two_thousand_pages_arrives(sink: KafkaSink, read: Any):
    batch = [page(number) for number in range(2000)]
    await sink.write(batch)
    expected = sorted(one.id for one in batch)
    assert (keys(read("pages")), keys(read("edges"))) == (expected, expected)


async def test_an_id_that_stands_twice_in_a_batch_is_one_message(sink: KafkaSink, read: Any):
    await sink.write([page(1), plain(1), page(1), plain(1)])
    assert (keys(read("pages")), keys(read("records"))) == ([page(1).id], ["job.1"])


async def test_a_repeat_bears_the_same_keys(sink: KafkaSink, read: Any):
    """Kafka takes it twice; whoever reads can tell."""
    for _ in range(2):
        await sink.write([page(1)])
    assert keys(read("pages")) == [page(1).id] * 2
    assert len({orjson.dumps(value) for _, value in read("edges")}) == 1


async def test_batches_larger_than_the_queue_get_through(
    kafka_server: SharedServer, topic: str, read: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sink_module, "QUEUE_MESSAGES", 10)
    sink = KafkaSink(f"kafka://{kafka_server.address}/{topic}")
    await sink.write([page(number) for number in range(100)])
    await sink.close()
    assert len(keys(read("pages"))) == 100


async def test_many_processes_may_start_at_once(kafka_server: SharedServer, topic: str, read: Any):
    sinks = [KafkaSink(f"kafka://{kafka_server.address}/{topic}") for _ in range(4)]
    await asyncio.gather(*(sink.open() for sink in sinks))
    await asyncio.gather(*(sink.write([plain(n)]) for n, sink in enumerate(sinks)))
    assert keys(read("records")) == ["job.0", "job.1", "job.2", "job.3"]
    for sink in sinks:
        await sink.close()


async def test_the_loop_goes_on_while_a_batch_is_delivered(sink: KafkaSink):
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    await sink.write([page(number) for number in range(500)])
    turning.cancel()
    assert turns > 10


# Hostile text


async def test_hostile_pages_arrive(sink: KafkaSink, read: Any):
    await sink.write(hostile_pages())
    titles = {key.removeprefix("hostile."): found["title"] for key, found in read("pages")}
    assert titles["nul"] == "before\0after"
    assert titles["half a pair"] == "before\ufffdafter"
    assert titles["beyond the BMP"] == "\U0001f577 \U0010fffd"
    assert len(titles["long"]) == 512 * 1024
    edges = dict(read("edges"))
    assert edges["hostile.links"]["targets"] == [f"https://l.example/{n}" for n in range(6000)]
    assert len(edges["hostile.url"]["targets"][0]) > 8192


async def test_links_beyond_the_size_of_a_message_come_in_parts(sink: KafkaSink, read: Any):
    # Nothing that a compression could make fit.
    links = [f"https://l.example/{secrets.token_hex(4000)}" for _ in range(500)]
    await sink.write([page(1, id="many", links=links)])
    found = dict(read("edges"))
    names = ["many", *(f"many/{part}" for part in range(2, len(found) + 1))]
    assert sorted(found) == sorted(names)
    assert len(names) > 5
    assert [link for name in names for link in found[name]["targets"]] == links


# What can never be taken


async def test_what_is_too_large_is_refused_by_its_place(sink: KafkaSink, read: Any):
    batch: list[Record] = [
        page(1),
        PlainRecord("too large for a broker", os.urandom(2_000_000).hex()),
        plain(1),
        PlainRecord("too large for the client", "a" * 17_000_000),
        PlainRecord("large, but not on its way", "a" * 5_000_000),
    ]
    with pytest.raises(RecordsRefused, match="too large") as refused:
        await sink.write(batch)
    assert sorted(refused.value.reasons) == [1, 3]
    await sink.write([batch[0], batch[2], batch[4]])
    assert keys(read("pages")) == [page(1).id]
    assert keys(read("records")) == ["job.1", "large, but not on its way"]


async def test_what_is_no_json_is_refused_before_anything_is_sent(sink: KafkaSink, read: Any):
    with pytest.raises(RecordsRefused) as refused:
        await sink.write([plain(1), PlainRecord("set", {1}), PlainRecord("big", 2**70)])
    assert sorted(refused.value.reasons) == [1, 2]
    assert read("records") == []


async def test_a_topic_with_a_low_limit_refuses_only_what_is_too_large(
    kafka_server: SharedServer, topic: str, read: Any
):
    make_topic(kafka_server.address, f"{topic}-records", **{"max.message.bytes": "3000"})
    sink = KafkaSink(f"kafka://{kafka_server.address}/{topic}")
    # Together they are too much for the topic: they go alone then.
    batch = [PlainRecord(f"{number:02}", os.urandom(500).hex()) for number in range(20)]
    batch[7] = PlainRecord("07", os.urandom(5000).hex())
    with pytest.raises(RecordsRefused) as refused:
        await sink.write(batch)
    assert list(refused.value.reasons) == [7]
    del batch[7]
    await sink.write(batch)
    await sink.close()
    assert keys(read("records")) == [one.id for one in batch]


# Faults


async def test_a_broker_that_is_killed_between_batches_is_waited_for(
    own_kafka: KafkaServer, topic: str
):
    sink = KafkaSink(f"kafka://{own_kafka.address}/{topic}")
    await sink.write([page(1)])
    own_kafka.kill()
    write = asyncio.create_task(sink.write([page(2)]))
    await asyncio.to_thread(own_kafka.start)
    # It tries again by itself for a while; whether that was long enough is the machine's affair.
    await asyncio.gather(write, return_exceptions=True)
    if write.exception() is not None:
        await written(sink, [page(2)])
    await sink.close()
    found = await asyncio.to_thread(messages, own_kafka.address, f"{topic}-pages")
    assert set(keys(found)) == {page(1).id, page(2).id}


async def test_a_broker_that_is_gone_makes_the_write_fail(
    own_kafka: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sink_module, "DELIVERY_S", 1.5)
    sink = KafkaSink(f"kafka://{own_kafka.address}/{topic}")
    await sink.open()
    own_kafka.kill()
    with pytest.raises(ConnectionError, match="timed out"):
        await sink.write([page(1), plain(1)])
    await asyncio.to_thread(own_kafka.start)
    await written(sink, [page(1), plain(1)])
    await sink.close()
    found = await asyncio.to_thread(messages, own_kafka.address, f"{topic}-pages")
    # Nothing of it had left before.
    assert keys(found) == [page(1).id]


async def test_every_page_arrives_though_the_broker_is_killed_again_and_again(
    own_kafka: KafkaServer, topic: str
):
    sink = KafkaSink(f"kafka://{own_kafka.address}/{topic}")
    killing = asyncio.create_task(killed(own_kafka, times=2))
    done = attempts = 0
    while not killing.done():
        batch = [page(number) for number in range(done * 100, done * 100 + 100)]
        attempts += await written(sink, batch)
        done += 1
        await asyncio.sleep(0.05)
    await killing
    await sink.close()
    found = await asyncio.to_thread(messages, own_kafka.address, f"{topic}-pages")
    times = Counter(key for key, _ in found)
    assert set(times) == {page(number).id for number in range(done * 100)}
    # The producer's numbers tell the broker what it has already. Only on a machine so slow that the
    # producer gave up before the broker was back may there be more.
    assert set(times.values()) == {1} or attempts > done


async def test_what_a_broker_refused_that_does_not_lead_yet_is_not_taken_for_delivered(
    kafka_server: SharedServer, topic: str, read: Any
):
    # Kafka itself leads the partition from now on, and has heard of no producer.
    make_topic(kafka_server.address, f"{topic}-records")
    assert read("records") == []
    # A request for each: librdkafka puts a megabyte into one.
    batch = [PlainRecord(f"{number:02}", "a" * 600_000) for number in range(10)]
    async with KafkaRelay(kafka_server.port) as relay:
        sink = KafkaSink(f"kafka://127.0.0.1:{relay.port}/{topic}")
        await sink.write(batch)
        await sink.close()
    assert relay.has_refused
    assert keys(read("records")) == [one.id for one in batch]


async def killed(server: KafkaServer, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(1)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)


async def test_what_was_acknowledged_of_a_batch_is_not_sent_again(
    kafka_server: SharedServer, topic: str, read: Any
):
    # It takes nothing that was not made within this millisecond.
    refusing = {"message.timestamp.before.max.ms": "0"}
    make_topic(kafka_server.address, f"{topic}-records", **refusing)
    sink = KafkaSink(f"kafka://{kafka_server.address}/{topic}")
    batch: list[Record] = [page(1), *(plain(number) for number in range(2000)), page(2)]
    # The records that are too old are refused for their timestamp, the others of their request
    # because it failed; which of them is the first depends on the millisecond.
    refused = "Broker: (Invalid timestamp|Broker failed to validate record)"
    for _ in range(2):
        with pytest.raises(ConnectionError, match=refused):
            await sink.write(batch)
    await sink.write([page(1), page(2)])
    await sink.close()
    assert keys(read("pages")) == [page(1).id, page(2).id]
    assert keys(read("edges")) == [page(1).id, page(2).id]


async def test_a_sink_is_closed_soon_though_a_write_waits(own_kafka: KafkaServer, topic: str):
    sink = KafkaSink(f"kafka://{own_kafka.address}/{topic}")
    await sink.open()
    own_kafka.kill()
    write = asyncio.create_task(sink.write([page(1)]))
    await asyncio.sleep(0.5)
    write.cancel()
    async with asyncio.timeout(10):
        await sink.close()
    await asyncio.to_thread(own_kafka.start)


# Settings that are wrong


@pytest.fixture(scope="module")
def kafka_with_password() -> Iterator[KafkaServer]:
    """A server whose clients log in as bob."""
    plain_settings = devservers.kafka._settings

    def settings(directory: Path, port: int, controller_port: int) -> str:
        login = f'PlainLoginModule required user_bob="{PASSWORD}";'
        return plain_settings(directory, port, controller_port).replace(
            "PLAINTEXT:PLAINTEXT\n", "PLAINTEXT:SASL_PLAINTEXT\n"
        ) + (
            "sasl.enabled.mechanisms=PLAIN\nlistener.name.plaintext.plain.sasl.jaas.config="
            f"org.apache.kafka.common.security.plain.{login}\n"
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devservers.kafka, "_settings", settings)
        with KafkaServer() as server:
            yield server


async def test_a_user_with_a_password_is_let_in(kafka_with_password: KafkaServer, topic: str):
    sink = KafkaSink(
        f"kafka://bob:{quote(PASSWORD, safe='')}@{kafka_with_password.address}/{topic}"
    )
    await sink.write([page(1)])
    await sink.close()


async def refusal(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sink_module, "CONNECT_S", 1.5)
    sink = KafkaSink(url)
    with pytest.raises(ConfigError) as refused:
        await sink.open()
    await sink.close()
    return str(refused.value)


async def test_a_wrong_password_is_told(
    kafka_with_password: KafkaServer, monkeypatch: pytest.MonkeyPatch
):
    place = f"{kafka_with_password.address}/crawl"
    text = await refusal(f"kafka://bob:wr0ng@{place}", monkeypatch)
    assert text.startswith(f"SINKS: kafka://{place}: ")
    assert "Invalid username or password" in text
    assert text.endswith("check user and password, with special characters URL-escaped")
    assert "wr0ng" not in text
    assert "\n" not in text


async def test_a_name_that_can_be_no_topic_is_told(
    kafka_server: SharedServer, monkeypatch: pytest.MonkeyPatch
):
    text = await refusal(f"kafka://{kafka_server.address}/no%20topic", monkeypatch)
    assert text.endswith(
        "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-': "
        "name another topic, or make no topic-pages, no topic-edges, no topic-records for this user"
    )


@pytest.mark.parametrize(
    ("place", "reason"),
    [("127.0.0.1:1", "Connection refused"), ("nosuch.invalid:9092", "Failed to resolve")],
)
async def test_a_server_that_is_not_there_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, place: str, reason: str
):
    monkeypatch.setattr(sink_module, "CONNECT_S", 1.0)
    sink = KafkaSink(f"kafka://{place}/topic")
    with pytest.raises(ConnectionError, match=reason):
        await sink.open()
    with pytest.raises(ConnectionError, match=reason):
        await sink.write([page(1)])
    await sink.close()


async def test_one_broker_of_several_is_enough(kafka_server: SharedServer, topic: str, read: Any):
    sink = KafkaSink(f"kafka://127.0.0.1:1,{kafka_server.address}/{topic}")
    await sink.write([plain(1)])
    await sink.close()
    assert keys(read("records")) == ["job.1"]


def test_its_name_says_neither_user_nor_password():
    sink = KafkaSink("kafka+ssl://bob:s3cret@one:1,two/crawl")
    assert sink.name == "kafka+ssl://one:1,two:9092/crawl"
    assert sink.kinds == {PageRecord, PlainRecord}

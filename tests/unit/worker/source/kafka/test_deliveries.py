"""A record as a job in hand."""

import json

import pytest

from manyhands.shared.errors import ProtocolError
from manyhands.worker.jobs.message import Message
from manyhands.worker.source.kafka.deliveries import KafkaDelivery, make_delivery
from manyhands.worker.source.kafka.partition import Held, Partition, Place
from manyhands.worker.source.kafka.progress import Received
from manyhands.worker.source.kafka.topics import Topic

PARTITION = Partition(Place("t", 0), Topic("t"), None)


def delivery(
    value: bytes | None,
    *headers: tuple[str, bytes],
    topic: str = "t",
    raw: dict[str, str] | None = None,
) -> KafkaDelivery:
    held = Held(Message(topic, 0, 5, b"k", headers), value, Received(5, 0), 0)
    return make_delivery(held, PARTITION, raw or {}, received_at=100.0)


def job(**fields: object) -> bytes:
    return json.dumps({"jobtype": "x", "args": [1]} | fields).encode()


def test_a_job_of_two_fields_is_enough():
    made = delivery(job())
    assert (made.jobtype, made.args, made.id, made.jid) == ("x", [1], "t/0/5", "t/0/5")
    assert made.deliveries == 1
    assert made.message is not None and made.message.key == b"k"


def test_the_identity_of_a_job_is_its_own_and_its_jid_that_of_the_record():
    made = delivery(job(jid="abcdefgh", custom={"mh": {"id": "first", "deliveries": 0}}))
    assert (made.id, made.jid) == ("first", "t/0/5")


def test_a_failed_record_keeps_its_identity_and_counts_its_runs():
    made = delivery(job(), ("mh-origin", b"orders/1/2"), ("mh-failures", b"3"), topic="g-retry-5s")
    assert (made.id, made.deliveries) == ("orders/1/2", 4)


def test_a_value_of_a_declared_topic_is_an_argument_as_it_is():
    made = delivery(b"\xff", raw={"t": "click"})
    assert (made.jobtype, made.args) == ("click", [b"\xff"])
    assert made.fields()["args"] == [b"\xff"]


def test_a_value_of_a_declared_topic_is_known_by_it_after_a_failure():
    made = delivery(b"\xff", ("mh-origin", b"t/1/2"), topic="g-retry-5s", raw={"t": "click"})
    assert (made.jobtype, made.id) == ("click", "t/1/2")


@pytest.mark.parametrize(("fields", "retries"), [({}, 25), ({"retry": 3}, 3), ({"retry": -1}, 0)])
def test_a_job_says_how_often_it_is_tried_again(fields, retries):
    assert delivery(job(**fields)).failing().retries == retries


def test_no_job_of_kafka_is_kept_apart_for_having_no_retries():
    """Its record comes again by itself if the process dies."""
    assert not delivery(job(retry=0)).is_once


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "the record has no value"),
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "jobtype and args missing"),
        (b'{"jobtype": "x", "args": {}}', "args a list"),
        (b'{"jobtype": null, "args": []}', "jobtype must be a string"),
        (b'{"jobtype": "x", "args": [], "reserve_for": "long"}', "TypeError"),
    ],
)
def test_what_is_no_job_is_refused_with_the_reason(value, why):
    with pytest.raises(ProtocolError, match=why):
        delivery(value)

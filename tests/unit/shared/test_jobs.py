"""What a job looks like on the wire, and what is refused before it gets there."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.errors import InvalidJob
from manyhands.shared.jobs import (
    JIDS_AT_ONCE,
    MAX_SAFE_INTEGER,
    Job,
    check_batch,
    check_queue_name,
    encode_job,
    new_jid,
    rfc3339,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def a_job(**fields: Any) -> Job:
    return Job(**({"jobtype": "add", "args": [1, 2], "jid": "12345678"} | fields))


def sent(job: Job) -> dict[str, Any]:
    wire: dict[str, Any] = orjson.loads(encode_job(job))
    return wire


def test_every_field_is_sent_even_if_it_has_its_default():
    assert sent(a_job(created_at=NOON)) == {
        "jid": "12345678",
        "jobtype": "add",
        "args": [1, 2],
        "queue": "default",
        "reserve_for": 1800,
        "retry": 25,
        "created_at": "2026-01-02T12:00:00Z",
        "custom": {"mh": {"id": "12345678", "deliveries": 0}},
    }


def test_a_moment_to_run_at_is_sent_in_utc():
    at = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert sent(a_job(at=at))["at"] == "2026-01-02T12:00:00Z"


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(InvalidJob, match="time zone"):
        encode_job(a_job(at=datetime(2026, 1, 2)))
    with pytest.raises(InvalidJob, match="time zone"):
        encode_job(a_job(created_at=datetime(2026, 1, 2)))


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_comes_back_as_it_was(moment):
    text = rfc3339(moment)
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == moment


def test_custom_fields_stand_beside_the_identity():
    custom = sent(a_job(custom={"trace": "t1"}))["custom"]
    assert custom == {"mh": {"id": "12345678", "deliveries": 0}, "trace": "t1"}


def test_an_identity_that_the_caller_brings_is_kept():
    identity = {"id": "older", "deliveries": 3}
    assert sent(a_job(custom={"mh": identity}))["custom"]["mh"] == identity


def test_the_version_of_the_payload_is_said_beside_the_identity():
    custom = sent(a_job(version=2, custom={"trace": "t1"}))["custom"]
    assert custom == {"mh": {"id": "12345678", "deliveries": 0, "v": 2}, "trace": "t1"}
    mine = {"id": "older", "deliveries": 3}
    job = a_job(version=3, custom={"mh": mine})
    assert sent(job)["custom"]["mh"] == mine | {"v": 3}
    assert job.custom == {"mh": {"id": "older", "deliveries": 3}}, "it was changed by the sending"


def test_a_forked_child_gives_out_other_jids_than_its_parent():
    new_jid()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, new_jid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() not in {new_jid() for _ in range(JIDS_AT_ONCE)}
    os.close(reader)
    os.close(writer)


def test_new_jids_differ_and_are_long_enough():
    jids = {new_jid() for _ in range(1000)}
    assert len(jids) == 1000
    assert min(len(jid) for jid in jids) >= 8


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"jid": "1234567"}, "1234567"),
        ({"jid": ""}, "jid"),
        ({"jobtype": ""}, "jobtype"),
        ({"args": (1, 2)}, "list"),
        ({"args": {"a": 1}}, "list"),
        ({"args": None}, "list"),
        ({"reserve_for": 0}, "reserve_for"),
        ({"reserve_for": 86_401}, "reserve_for"),
        ({"retry": -2}, "retry"),
        ({"version": 0}, "version"),
        ({"queue": ""}, "queue"),
        ({"queue": "a b"}, "queue"),
        ({"args": [{1, 2}]}, "JSON"),
        ({"args": [{1: 2}]}, "JSON"),
        ({"args": ["\ud800"]}, "JSON"),
        ({"jobtype": "\udcff"}, "JSON"),
        ({"custom": {"a": object()}}, "JSON"),
    ],
)
def test_a_job_that_the_server_would_not_take_is_refused_with_the_reason(fields, says):
    with pytest.raises(InvalidJob, match=says):
        encode_job(a_job(**fields))


@pytest.mark.parametrize(
    "fields",
    [{"reserve_for": 1}, {"reserve_for": 86_400}, {"retry": -1}, {"retry": 0}, {"args": []}],
)
def test_the_limits_themselves_are_allowed(fields):
    name, value = next(iter(fields.items()))
    assert sent(a_job(**fields))[name] == value


@dataclass
class Point:
    x: int


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 2**64])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [[n]], lambda n: {"a": {"b": (n,)}}])
def test_a_job_with_an_integer_beyond_2_53_is_refused(number, wrap):
    with pytest.raises(InvalidJob, match="send it as a string"):
        encode_job(a_job(args=[wrap(number)]))
    with pytest.raises(InvalidJob, match="custom"):
        encode_job(a_job(custom={"a": wrap(number)}))


def test_an_integer_beyond_2_53_is_not_hidden_by_a_dataclass():
    with pytest.raises(InvalidJob):
        encode_job(a_job(args=[Point(MAX_SAFE_INTEGER + 1)]))


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER, 1e300, True])
def test_numbers_that_survive_the_server_are_sent(number):
    assert sent(a_job(args=[number]))["args"] == [number]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_say_is_refused_and_not_changed(number):
    with pytest.raises(InvalidJob):
        encode_job(a_job(args=[number]))


def test_a_server_that_keeps_big_integers_gets_them():
    job = a_job(args=[2**63])
    assert orjson.loads(encode_job(job, keeps_big_integers=True))["args"] == [2**63]


@pytest.mark.parametrize("keeps", [True, False])
def test_an_endless_nesting_is_refused(keeps):
    deep: list[Any] = []
    deep.append(deep)
    with pytest.raises(InvalidJob):
        encode_job(a_job(args=deep), keeps_big_integers=keeps)


def test_a_batch_that_names_a_jid_twice_is_refused():
    check_batch([a_job(), a_job(jid="87654321")])
    with pytest.raises(InvalidJob, match="12345678"):
        check_batch([a_job(), a_job(jid="87654321"), a_job()])


@pytest.mark.parametrize("name", ["default", "a", "A.b_c-9", "-"])
def test_a_legal_queue_name_is_accepted(name):
    check_queue_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "ä", "a/b", "*", "a,b", "a:1"])
def test_an_illegal_queue_name_is_refused(name):
    with pytest.raises(InvalidJob, match="queue name"):
        check_queue_name(name)

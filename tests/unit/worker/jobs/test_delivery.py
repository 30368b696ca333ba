"""A job in hand: who it is, how often it came, and what it becomes when it goes back."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.errors import InvalidJob, ProtocolError
from manyhands.shared.jobs import Job, encode_job
from manyhands.worker.jobs.delivery import (
    MAX_MARGIN_S,
    Delivery,
    deferred_copy,
    fresh_copy,
    parse_delivery,
    put_back_copy,
    retry_copy,
)
from manyhands.worker.jobs.outcomes import PUT_BACK, Defer, Retry

WIRE: dict[str, Any] = {
    "jid": "job-00000001",
    "jobtype": "add",
    "args": [1, 2],
    "queue": "critical",
    "retry": 3,
    "reserve_for": 600,
    "created_at": "2026-01-02T12:00:00Z",
    "enqueued_at": "2026-01-02T12:00:01Z",
}


def delivered(reserved_after: float = 100.0, **fields: Any) -> Delivery:
    return parse_delivery(orjson.dumps(WIRE | fields), reserved_after)


def again(payload: bytes | None) -> dict[str, Any]:
    assert payload is not None
    fields: dict[str, Any] = orjson.loads(payload)
    return fields


def redelivered(payload: bytes | None) -> Delivery:
    """The next delivery of a copy that was queued."""
    assert payload is not None
    return parse_delivery(payload, 0.0)


def test_a_job_of_another_producer_is_known_by_its_jid():
    delivery = delivered()
    assert (delivery.id, delivery.jid, delivery.deliveries) == ("job-00000001",) * 2 + (1,)
    assert (delivery.jobtype, delivery.args) == ("add", [1, 2])


def test_a_job_of_ours_is_known_by_its_identity():
    delivery = redelivered(encode_job(Job(jobtype="add", args=[], jid="12345678")))
    assert (delivery.id, delivery.deliveries) == ("12345678", 1)


def test_an_identity_outlives_the_jid():
    delivery = delivered(custom={"mh": {"id": "first", "deliveries": 4}})
    assert (delivery.id, delivery.deliveries) == ("first", 5)


@pytest.mark.parametrize(
    ("mh", "version"),
    [
        ({}, 1),
        ({"id": "first", "deliveries": 1}, 1),
        ({"id": "first", "deliveries": 1, "v": 2}, 2),
        # As another producer may say it, who knows nothing of identities.
        ({"v": 3}, 3),
        ({"v": "2"}, 1),
        ({"v": None}, 1),
        ({"v": True}, 1),
        ({"v": 2.0}, 1),
    ],
)
def test_a_job_carries_the_version_of_its_payload(mh, version):
    assert delivered(custom={"mh": mh}).version == version


def test_a_job_of_ours_brings_its_version_with_it():
    delivery = redelivered(encode_job(Job(jobtype="add", args=[], version=2)))
    assert delivery.version == 2


@pytest.mark.parametrize("mh", [{"v": 2}, {"id": "first", "deliveries": 1, "v": 2}])
def test_the_version_outlives_every_kind_of_copy(mh):
    delivery = delivered(custom={"mh": mh | {"note": "kept"}})
    for outcome in (PUT_BACK, Retry(1), Defer(datetime(2027, 1, 1, tzinfo=UTC))):
        copy = fresh_copy(delivery, outcome)
        assert redelivered(copy).version == 2
        assert redelivered(copy).id == delivery.id
        assert again(copy)["custom"]["mh"]["note"] == "kept"


def test_failures_count_as_deliveries():
    assert delivered(failure={"retry_count": 0}).deliveries == 2
    assert delivered(failure={"retry_count": 2}).deliveries == 4


@pytest.mark.parametrize(
    ("reserve_for", "reserved_s"), [(600, 600), (1, 60), (None, 1800), (0, 1800), (86_400, 86_400)]
)
def test_the_reservation_is_the_servers(reserve_for, reserved_s):
    delivery = delivered(1000.0, reserve_for=reserve_for)
    assert delivery.reserved_until == 1000.0 + reserved_s
    assert 0 < delivery.reserved_until - delivery.deadline <= MAX_MARGIN_S


def test_a_short_reservation_keeps_most_of_its_time_for_the_job():
    delivery = delivered(0.0, reserve_for=60)
    assert delivery.deadline >= 0.85 * delivery.reserved_until


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nonsense",
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b"{}",
        b'{"jid":"12345678","jobtype":"a"}',
        b'{"jobtype":"a","args":[]}',
        b'{"jid":"12345678","args":[]}',
        b'{"jid":7,"jobtype":"a","args":[]}',
        b'{"jid":"12345678","jobtype":"a","args":null}',
        b'{"jid":"12345678","jobtype":"a","args":{}}',
        b'{"jid":"12345678","jobtype":"a","args":[],"reserve_for":"long"}',
        b'{"jid":"12345678","jobtype":"a","args":[],"failure":{"retry_count":"x"}}',
    ],
)
def test_what_is_no_job_is_a_protocol_error(payload):
    with pytest.raises(ProtocolError):
        parse_delivery(payload, 0.0)


@pytest.mark.parametrize(
    "custom",
    [
        None,
        {},
        {"mh": None},
        {"mh": 7},
        {"mh": "text"},
        {"mh": []},
        {"mh": {}},
        {"mh": {"id": 7, "deliveries": 1}},
        {"mh": {"id": "x"}},
        {"mh": {"id": "x", "deliveries": "many"}},
        {"mh": {"id": "x", "deliveries": 1.5}},
        {"mh": {"id": "", "deliveries": 0}},
        {"other": {"id": "x"}},
    ],
)
def test_a_strange_identity_is_none_and_does_no_harm(custom):
    delivery = delivered(custom=custom)
    assert (delivery.id, delivery.deliveries) == ("job-00000001", 1)
    copy = redelivered(put_back_copy(delivery))
    assert (copy.id, copy.deliveries) == ("job-00000001", 2)
    others = {name: value for name, value in (custom or {}).items() if name != "mh"}
    assert again(put_back_copy(delivery))["custom"].items() >= others.items()


@pytest.mark.parametrize("custom", ["text", 7, [1], True])
def test_custom_fields_that_are_no_map_do_not_stop_a_put_back(custom):
    delivery = delivered(custom=custom)
    copy = redelivered(put_back_copy(delivery))
    assert (copy.id, copy.deliveries) == ("job-00000001", 2)


def test_a_put_back_keeps_every_other_field():
    extra: dict[str, Any] = {
        "failure": {"retry_count": 1, "message": "no", "errtype": "E", "backtrace": ["a"]},
        "custom": {"trace": "t", "mh": {"id": "first", "deliveries": 2, "note": "kept"}},
        "backtrace": 7,
        "unknown": {"deep": [1, None, "ä"]},
    }
    before = WIRE | extra
    after = again(put_back_copy(delivered(**extra)))
    assert after["jid"] != before["jid"]
    assert len(after["jid"]) >= 8
    assert after["custom"] == {
        "trace": "t",
        "mh": {"id": "first", "deliveries": 3, "note": "kept"},
    }
    changing = {"jid", "custom", "enqueued_at", "at"}
    assert {name: after[name] for name in after if name not in changing} == {
        name: before[name] for name in before if name not in changing
    }


def test_a_put_back_runs_at_once_and_is_enqueued_by_the_server():
    after = again(put_back_copy(delivered(at="2026-01-02T11:00:00Z")))
    assert "at" not in after
    assert "enqueued_at" not in after


def test_each_copy_has_a_jid_of_its_own():
    delivery = delivered()
    assert len({again(put_back_copy(delivery))["jid"] for _ in range(50)}) == 50


@given(st.lists(st.sampled_from(["put back", "defer", "retry", "fail"]), max_size=12))
def test_deliveries_count_every_handing_out_however_the_job_went_back(ways):
    delivery = delivered(retry=100)
    for number, way in enumerate(ways, start=2):
        if way == "put back":
            delivery = redelivered(put_back_copy(delivery))
        elif way == "defer":
            delivery = redelivered(deferred_copy(delivery, datetime(2026, 1, 2, tzinfo=UTC)))
        elif way == "retry":
            delivery = redelivered(retry_copy(delivery, Retry(5)))
        else:
            delivery = failed_by_the_server(delivery)
        assert delivery.deliveries == number
        assert delivery.id == "job-00000001"


def failed_by_the_server(delivery: Delivery) -> Delivery:
    """What a FAIL makes of a job: the same jid, one failure more."""
    fields = orjson.loads(delivery.payload)
    failure = fields.get("failure")
    fields["failure"] = {"retry_count": failure["retry_count"] + 1 if failure else 0}
    return parse_delivery(orjson.dumps(fields), 0.0)


def test_a_deferred_job_waits_for_its_moment_and_spends_no_retry():
    until = datetime(2027, 5, 6, 7, 8, 9, tzinfo=UTC)
    after = again(deferred_copy(delivered(failure={"retry_count": 1}), until))
    assert after["at"] == "2027-05-06T07:08:09Z"
    assert after["failure"] == {"retry_count": 1}
    assert after["retry"] == 3
    assert after["custom"]["mh"]["id"] == "job-00000001"


def test_a_moment_without_a_zone_is_refused():
    with pytest.raises(InvalidJob):
        deferred_copy(delivered(), datetime(2027, 1, 1))


def test_a_retry_waits_for_its_delay_and_says_why():
    before = datetime.now(UTC)
    after = again(retry_copy(delivered(), Retry(60, "busy")))
    at = datetime.fromisoformat(after["at"])
    assert 59 < (at - before).total_seconds() < 90
    assert after["failure"]["message"] == "busy"
    assert after["failure"]["retry_count"] == 0
    assert after["failure"]["next_at"] == after["at"]


def test_a_retry_keeps_what_else_is_known_of_failures():
    failure = {"retry_count": 0, "backtrace": ["line"], "remaining": 2}
    after = again(retry_copy(delivered(failure=failure), Retry(1)))
    assert after["failure"]["backtrace"] == ["line"]
    assert after["failure"]["retry_count"] == 1
    assert after["failure"]["remaining"] == 2


@pytest.mark.parametrize(("retry", "retries"), [(-1, 0), (0, 0), (1, 1), (3, 3), (25, 25)])
def test_a_job_is_retried_as_often_as_the_server_would(retry, retries):
    delivery, done = delivered(retry=retry), 0
    while (copy := retry_copy(delivery, Retry(1))) is not None:
        assert again(copy)["failure"]["retry_count"] == done
        assert again(copy)["failure"]["retry_count"] < retry
        delivery, done = redelivered(copy), done + 1
    assert done == retries


@pytest.mark.parametrize("retry_count", [0, 1, 2, 3, 4])
def test_a_job_that_failed_before_has_the_rest_of_its_retries(retry_count):
    copy = retry_copy(delivered(retry=3, failure={"retry_count": retry_count}), Retry(1))
    assert (copy is not None) is (retry_count + 1 < 3)


def test_a_job_that_names_no_retries_has_the_servers_default():
    wire = {name: value for name, value in WIRE.items() if name != "retry"}
    delivery = parse_delivery(orjson.dumps(wire | {"failure": {"retry_count": 23}}), 0.0)
    copy = retry_copy(delivery, Retry(1))
    assert copy is not None
    assert retry_copy(redelivered(copy), Retry(1)) is None


def test_a_job_whose_retries_are_null_has_the_servers_default():
    assert again(retry_copy(delivered(retry=None), Retry(1)))["failure"]["retry_count"] == 0


@pytest.mark.parametrize("failure", ["text", 7, [1], None, {}])
def test_a_strange_failure_does_not_stop_a_retry(failure):
    assert again(retry_copy(delivered(failure=failure), Retry(1)))["failure"]["retry_count"] == 0


def test_a_reason_that_is_not_utf_8_does_not_stop_a_retry():
    copy = retry_copy(delivered(), Retry(1, "cannot open \udcff"))
    assert again(copy)["failure"]["message"].startswith("cannot open ")


@given(st.text(max_size=20), st.lists(st.integers(-(2**53), 2**53), max_size=4))
def test_the_args_come_back_as_they_were(text, numbers):
    args = [text.encode("utf-8", "replace").decode(), numbers, {"a": None}]
    assert redelivered(put_back_copy(delivered(args=args))).args == args


# What others have put into a job


@pytest.mark.parametrize("outcome", [PUT_BACK, Defer(datetime(2030, 1, 1, tzinfo=UTC)), Retry(1)])
def test_a_copy_has_every_field_as_it_came_byte_for_byte(outcome):
    args = b'[123456789012345678901234567890, 1.000, "\\u00e4"]'
    custom = b'{"trace": {"n":1.000 } ,"mh":{"v":3}}'
    payload = (
        b'{"jid":"12345678","jobtype":"add","args":%b,"custom":%b,"backtrace":7,'
        b'"created_at":"2020-01-01T00:00:00Z","enqueued_at":"2020-01-01T00:00:00Z","new":[ 1 ]}'
    ) % (args, custom)
    copy = fresh_copy(parse_delivery(payload, 0.0), outcome)
    assert copy is not None
    assert b'"args":' + args in copy
    assert b'"trace":{"n":1.000 }' in copy
    assert b'"new":[ 1 ]' in copy
    fields = again(copy)
    assert fields["custom"]["mh"] | {"deliveries": 0} == {"v": 3, "id": "12345678", "deliveries": 0}
    assert (fields["backtrace"], fields["created_at"]) == (7, "2020-01-01T00:00:00Z")
    assert "enqueued_at" not in fields
    assert fields["jid"] != "12345678"

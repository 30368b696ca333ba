"""A job as the broker reads, checks and keeps it."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.broker.jobs import (
    Refused,
    check_pushed,
    decode_one,
    encode,
    expires_at,
    from_row,
    parse_time,
    read_many,
    read_one,
    utc_text,
)

NOW = "2024-05-06T07:08:09Z"
LONG_DECIMAL = b"0." + b"123456789" * 40
BIG = b"%d" % 2**80


def line(**changes: bytes | None) -> bytes:
    fields: dict[str, bytes | None] = {
        "jid": b'"1234567890"',
        "jobtype": b'"greet"',
        "args": b"[]",
        **changes,
    }
    present = (b'"%b":%b' % (key.encode(), value) for key, value in fields.items() if value)
    return b"{%b}" % b",".join(present)


def pushed(**changes: bytes | None) -> bytes:
    (job,) = read_one(line(**changes))
    check_pushed(job, NOW)
    return encode(job)


@pytest.mark.parametrize("value", [None, b"null", b'""'])
def test_what_a_producer_leaves_out_is_filled_in(value):
    fields = json.loads(pushed(queue=value, created_at=value))
    assert fields["queue"] == "default"
    assert fields["created_at"] == NOW


@pytest.mark.parametrize("value", [None, b"null"])
def test_without_a_number_of_retries_there_are_25(value):
    assert json.loads(pushed(retry=value))["retry"] == 25


@pytest.mark.parametrize("retry", [-1, 0, 3])
def test_a_number_of_retries_stays(retry):
    assert json.loads(pushed(retry=b"%d" % retry))["retry"] == retry


def test_fields_that_are_given_stay():
    fields = {
        "queue": b'"a.b_c-D9"',
        "reserve_for": b"86400",
        "created_at": b'"2020-01-01T00:00:00Z"',
        "enqueued_at": b'"2020-01-02T00:00:00Z"',
        "at": b'"2020-01-03T00:00:00Z"',
        "backtrace": b"7",
    }
    stored = json.loads(pushed(**fields))
    assert {key: stored[key] for key in fields} == {
        key: json.loads(value) for key, value in fields.items()
    }


@pytest.mark.parametrize(
    ("field", "empty"),
    [
        ("at", b'""'),
        ("failure", b"null"),
        ("backtrace", b"0"),
        ("enqueued_at", b'""'),
        ("reserve_for", b"0"),
        ("custom", b"{}"),
        ("custom", b"{ \t}"),
    ],
)
def test_null_and_empty_are_the_same_as_absent(field, empty):
    """As Go leaves them out: faktory-rs ends on a job with an empty `at`."""
    assert pushed(**{field: b"null"}) == pushed(**{field: empty}) == pushed()


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (b"{}", {"retry_count": 0, "remaining": 0, "failed_at": ""}),
        (
            b'{"retry_count":null,"remaining":2,"failed_at":null,"next_at":"","message":null,'
            b'"errtype":"","backtrace":[]}',
            {"retry_count": 0, "remaining": 2, "failed_at": ""},
        ),
        (
            b'{"retry_count":1,"next_at":"x","message":"m","errtype":"e","backtrace":[null,"b"]}',
            {
                "retry_count": 1,
                "remaining": 0,
                "failed_at": "",
                "next_at": "x",
                "message": "m",
                "errtype": "e",
                "backtrace": ["", "b"],
            },
        ),
    ],
)
def test_of_a_failure_only_the_counts_and_its_time_are_sent_when_they_are_empty(sent, stored):
    assert json.loads(pushed(failure=sent))["failure"] == stored


def test_a_field_that_nobody_knows_is_dropped():
    assert pushed(surprise=b"[1,2]") == pushed()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"jid": None}, "jobs must have a reasonable jid parameter"),
        ({"jid": b"null"}, "jobs must have a reasonable jid parameter"),
        ({"jid": b'"1234567"'}, "jobs must have a reasonable jid parameter"),
        ({"jobtype": None}, "jobs must have a jobtype parameter"),
        ({"jobtype": b"null"}, "jobs must have a jobtype parameter"),
        ({"jobtype": b'""'}, "jobs must have a jobtype parameter"),
        ({"args": None}, "jobs must have an args parameter"),
        ({"args": b"null"}, "jobs must have an args parameter"),
        ({"args": b"{}"}, "invalid JSON: args must be a list"),
        ({"args": b'"[]"'}, "invalid JSON: args must be a list"),
        ({"args": b"1"}, "invalid JSON: args must be a list"),
        ({"custom": b"[]"}, "invalid JSON: custom must be an object"),
        ({"custom": b"true"}, "invalid JSON: custom must be an object"),
        ({"reserve_for": b"86401"}, "jobs cannot be reserved for more than one day"),
        ({"jid": '"äää"'.encode()}, "jobs must have a reasonable jid parameter"),
        ({"queue": b'"a b"', "at": b'"soon"'}, "invalid timestamp for 'at'"),
        ({"queue": b'"two words"'}, 'cannot get "two words" queue: queue names must match'),
        ({"queue": b'"a\\nb"'}, "queue names must match"),
        ({"queue": '"schlüssel"'.encode()}, "queue names must match"),
    ],
)
def test_a_job_that_faktory_would_refuse_is_refused_in_its_words(changes, text):
    with pytest.raises(Refused) as refusal:
        pushed(**changes)
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"jid": b"12345678"},
        {"retry": b'"5"'},
        {"retry": b"1.5"},
        {"args": b"[1,]"},
        {"args": b"[NaN]"},
        {"custom": b'{"a"}'},
        {"failure": b"3"},
        {"reserve_for": BIG},
        {"retry": b"1.0"},
    ],
)
def test_what_is_no_job_is_not_read(changes):
    with pytest.raises(msgspec.DecodeError):
        read_one(line(**changes))


def test_the_length_of_a_jid_is_counted_in_bytes():
    assert json.loads(pushed(jid='"ääää"'.encode()))["jid"] == "ääää"


@pytest.mark.parametrize(
    "value",
    [
        BIG,
        b"-" + BIG,
        b"1e400",
        b"1E+400",
        LONG_DECIMAL,
        b"-0",
        b"-0.0",
        b"1.0",
        b"9" * 5000,
        '"Grüße, 世界 😀"'.encode(),
        b'"\\u0000\\ud83d\\ude00\\/"',
        b'{ "a" :\t[ ] }',
        b'{"b":1,"a":2,"b":3}',
    ],
)
def test_args_and_custom_come_back_byte_for_byte(value):
    args, custom = b"[%b, %b]" % (value, value), b'{"x": %b}' % value
    stored = pushed(args=args, custom=custom)
    assert b'"args":' + args in stored
    assert b'"custom":' + custom in stored
    assert encode(decode_one(stored)) == stored


@given(st.text(min_size=8), st.text(min_size=1))
def test_any_text_can_name_a_job_and_its_type(jid, jobtype):
    stored = pushed(
        jid=json.dumps(jid, ensure_ascii=False).encode(),
        jobtype=json.dumps(jobtype).encode(),
    )
    assert from_row(5, stored).jid == jid
    assert json.loads(stored)["jobtype"] == jobtype
    assert b"\n" not in stored


def test_a_row_is_read_for_what_delivery_needs():
    stored = pushed(reserve_for=b"90", args=b"[1]")
    job = from_row(77, stored)
    assert (job.key, job.jid, job.reserve_for, job.payload) == (77, "1234567890", 90, stored)
    assert from_row(77, pushed()).reserve_for == 0


def test_a_list_of_jobs_is_read_in_its_order():
    jobs = read_many(b"[%b,%b]" % (line(jid=b'"first-job"'), line(jid=b'"second-job"')))
    assert [job.jid for job in jobs] == ["first-job", "second-job"]


def test_null_is_no_list_of_jobs_or_a_job_without_anything():
    assert read_many(b"null") == []
    assert [job.jid for job in read_many(b"[null,%b]" % line())] == [None, "1234567890"]
    assert read_one(b"null")[0].jid is None


def test_a_batch_with_one_field_of_the_wrong_kind_is_refused_as_a_whole():
    with pytest.raises(Refused, match="invalid JSON: args must be a list"):
        read_many(b"[%b,%b]" % (line(), line(args=b"{}")))


# Times


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-01-01T00:00:00Z", 1_704_067_200.0),
        ("2024-01-01T00:00:00.5Z", 1_704_067_200.5),
        ("2024-01-01T00:00:00.123456789Z", 1_704_067_200.123456),
        ("2024-01-01T05:30:00.123456789+05:30", 1_704_067_200.123456),
        ("2023-12-31T16:00:00-08:00", 1_704_067_200.0),
        ("0001-01-01T00:00:00Z", -62_135_596_800.0),
    ],
)
def test_times_are_read_as_clients_of_all_languages_write_them(text, moment):
    assert parse_time(text, "at") == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "1704067200",
        "2024-13-01T00:00:00Z",
        "9999-12-31T23:59:59-01:00",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01t00:00:00z",
        "2024-01-01T00:00Z",
        "20240101T000000Z",
        "2024-W01-1T00:00:00Z",
    ],
)
def test_what_is_no_time_is_refused_by_its_name(text):
    with pytest.raises(Refused) as refusal:
        parse_time(text, "at")
    assert str(refusal.value).startswith(f"invalid timestamp for 'at': \"{text}\": use RFC 3339")


@given(st.text() | st.from_regex(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d\Z"))
def test_a_time_is_read_and_can_be_written_again_or_it_is_refused(text):
    try:
        moment = parse_time(text, "at")
    except Refused:
        return
    assert utc_text(moment)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_a_time_that_we_wrote_is_read_as_it_was(moment):
    assert parse_time(utc_text(moment.timestamp()), "at") == pytest.approx(moment.timestamp())


@pytest.mark.parametrize("at", [None, b"null", b'""'])
def test_without_a_time_a_job_is_due_now(at):
    assert check_pushed(decode_one(line(at=at)), NOW) == 0


def test_with_a_time_it_is_due_then():
    job = decode_one(line(at=b'"2024-01-01T00:00:00Z"'))
    assert check_pushed(job, NOW) == 1_704_067_200


@pytest.mark.parametrize(
    ("custom", "moment"),
    [
        (None, None),
        (b"null", None),
        (b"{}", None),
        (b'{"expires_at":null}', None),
        (b'{"expires_at":"2024-01-01T00:00:00Z"}', 1_704_067_200.0),
        (b'{"expires_at":"2024-01-01T01:00:00+01:00"}', 1_704_067_200.0),
        (b'{"expires_at":1704067200}', 1_704_067_200.0),
        (b'{"expires_at":1704067200.25}', 1_704_067_200.25),
        (b'{"expires_at":0}', 0.0),
        (b'{"expires_at":"tomorrow"}', None),
        (b'{"expires_at":"2024-01-01T00:00:00"}', None),
        (b'{"expires_at":true}', None),
        (b'{"expires_at":[1]}', None),
        (b'{"expires_at":1e400}', None),
        (b'{"other":{"expires_at":1}}', None),
    ],
)
def test_a_job_expires_when_its_custom_says_so_in_words_that_we_understand(custom, moment):
    assert expires_at(pushed(custom=custom)) == moment


def test_an_argument_of_that_name_means_nothing():
    assert expires_at(pushed(args=b'[{"expires_at":1}]')) is None

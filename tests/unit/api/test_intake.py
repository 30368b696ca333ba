"""From a client's bytes to a job on the wire: what is taken, what is refused, and where the fault
is said to be."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.api.intake import (
    MAX_DELAY_S,
    MAX_JOBTYPE_LENGTH,
    MAX_RETRY,
    MAX_TEMPLATES,
    NO_OPTIONS,
    EncodedJob,
    Intake,
    Item,
    Options,
    query_options,
    split_list,
)
from manyhands.api.problems import Problem
from manyhands.shared.jobs import MAX_DEPTH, MAX_SAFE_INTEGER, Job, JobTemplate, encode_job
from manyhands.shared.urls import shard_queue

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
SHARDS = 64
URL = "https://example.com/a"


def make_intake(*, allows_unknown: bool = False, keeps_big_integers: bool = False) -> Intake:
    return Intake(
        shards=SHARDS,
        allows_unknown=allows_unknown,
        keeps_big_integers=lambda: keeps_big_integers,
    )


def take(
    jobtype: str = "add",
    args: bytes = b'{"a": 1, "b": 2}',
    options: Options = NO_OPTIONS,
    **kind: bool,
) -> dict[str, Any]:
    """The job as the broker gets it."""
    return wire(make_intake(**kind).job(jobtype, args, options, NOW))


def wire(job: EncodedJob) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(job.payload)
    return fields


def refusal(jobtype: str = "add", args: bytes = b'{"a": 1, "b": 2}', **kind: bool) -> Problem:
    with pytest.raises(Problem) as caught:
        take(jobtype, args, NO_OPTIONS, **kind)
    return caught.value


def line_refusal(line: bytes, **kind: bool) -> Problem:
    with pytest.raises(Problem) as caught:
        make_intake(**kind).line(line, NOW)
    return caught.value


def query_refusal(query: bytes) -> Problem:
    with pytest.raises(Problem) as caught:
        query_options(query)
    return caught.value


# What is taken


def test_the_guides_own_job():
    job = make_intake().job("add", b'{"a": 1, "b": 1}', NO_OPTIONS, NOW)
    assert (job.jobtype, job.queue) == ("add", "default")
    assert wire(job) == {
        "jid": job.jid,
        "jobtype": "add",
        "args": [1, 1],
        "queue": "default",
        "reserve_for": 1800,
        "retry": 25,
        "created_at": "2026-01-02T12:00:00Z",
        "custom": {"mh": {"id": job.jid, "deliveries": 0}},
    }


def test_arguments_are_sent_in_the_order_of_their_model_not_of_the_client():
    assert take(args=b'{"b": 2, "a": 1}')["args"] == [1, 2]


def test_each_job_has_a_jid_of_its_own():
    intake = make_intake()
    jobs = [intake.job("add", b'{"a": 1, "b": 2}', NO_OPTIONS, NOW) for _ in range(100)]
    assert len({job.jid for job in jobs}) == 100
    assert [wire(job)["custom"]["mh"]["id"] for job in jobs] == [job.jid for job in jobs]


def test_a_fetch_job_goes_to_the_queue_of_its_domain():
    job = take("fetch", orjson.dumps({"url": URL}))
    assert job["queue"] == shard_queue(URL, SHARDS)
    assert job["args"] == [URL]
    assert job["reserve_for"] == 300


def test_a_line_of_text_is_a_page_to_fetch():
    job = wire(make_intake().url(URL.encode(), Options(retry=3), NOW))
    assert (job["jobtype"], job["args"], job["retry"]) == ("fetch", [URL], 3)
    assert job["queue"] == shard_queue(URL, SHARDS)


def test_a_line_of_ndjson_carries_its_type_and_its_options():
    line = (
        b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": "slow", "retry": 0, '
        b'"reserve_for": 60, "in": 90}'
    )
    job = wire(make_intake().line(line, NOW))
    assert (job["queue"], job["retry"], job["reserve_for"]) == ("slow", 0, 60)
    assert job["at"] == "2026-01-02T12:01:30Z"


def test_a_fetch_job_says_beside_its_identity_how_long_it_is_unique():
    intake = make_intake()
    jobs = [
        intake.job("fetch", orjson.dumps({"url": URL}), query_options(b"unique_for_s=60"), NOW),
        intake.url(URL.encode(), query_options(b"unique_for_s=1.5"), NOW),
        intake.line(
            b'{"jobtype": "fetch", "args": {"url": "http://a.example/"}, "unique_for_s": 7}', NOW
        ),
    ]
    for job, seconds in zip(jobs, (60, 1.5, 7), strict=True):
        identity = {"id": job.jid, "deliveries": 0}
        assert wire(job)["custom"] == {"mh": identity, "unique_for_s": seconds}
    plain = intake.url(URL.encode(), NO_OPTIONS, NOW)
    assert wire(plain)["custom"] == {"mh": {"id": plain.jid, "deliveries": 0}}


@pytest.mark.parametrize("jobtype", ["add", "resize"])
def test_no_other_job_can_be_unique(jobtype):
    with pytest.raises(Problem, match="only fetch jobs can be unique") as refused:
        take(jobtype, options=query_options(b"unique_for_s=60"), allows_unknown=True)
    assert refused.value.more["field"] == "unique_for_s"


@pytest.mark.parametrize("jobtype", ["add", "fetch"])
def test_the_option_of_faktory_enterprise_is_refused_with_the_one_that_there_is(jobtype):
    line = orjson.dumps({"jobtype": jobtype, "args": {}, "unique_for": 60})
    for problem in (query_refusal(b"unique_for=60"), line_refusal(line)):
        assert problem.more["field"] == "unique_for"
        assert problem.detail.endswith("only fetch jobs can be unique, by the option unique_for_s")


def test_an_unknown_type_is_taken_if_that_is_allowed_with_its_object_as_the_only_argument():
    job = take("resize", b'{"width": 7, "tags": ["x", null]}', allows_unknown=True)
    assert job["args"] == [{"width": 7, "tags": ["x", None]}]
    assert (job["jobtype"], job["queue"]) == ("resize", "default")


@pytest.mark.parametrize("jobtype", ["Ä::b/ç %s %%", '"quoted"', "back\\slash", "x" * 200])
def test_the_name_of_an_unknown_type_arrives_as_it_was(jobtype):
    assert take(jobtype, b"{}", allows_unknown=True)["jobtype"] == jobtype


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "line\nend", "\u2028", "😀", "é", "\x7f"])
def test_every_character_that_json_can_say_arrives(text):
    job = take("any", orjson.dumps({"text": text}), allows_unknown=True)
    assert job["args"] == [{"text": text}]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_arguments_of_any_shape_arrive_as_they_were(arguments):
    assert take("any", orjson.dumps(arguments), allows_unknown=True)["args"] == [arguments]


def test_a_stranger_who_names_new_queues_does_not_fill_the_memory():
    intake = make_intake()
    for number in range(MAX_TEMPLATES + 5):
        intake.job("add", b'{"a": 1, "b": 2}', Options(queue=f"q{number}"), NOW)
    assert len(intake._templates) <= MAX_TEMPLATES


# The template against the encoder that everybody else uses


@given(
    queue=st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    jobtype=st.text(min_size=1).filter(str.isprintable),
    retry=st.integers(-1, MAX_RETRY),
    reserve_for=st.integers(1, 86_400),
    args=st.lists(json_values, max_size=3),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
def test_a_template_writes_what_encode_job_writes(queue, jobtype, retry, reserve_for, args, at):
    job = Job(
        jobtype=jobtype,
        args=args,
        queue=queue,
        retry=retry,
        reserve_for=reserve_for,
        created_at=NOW,
        at=at,
    )
    due = (at.isoformat().replace("+00:00", "Z")).encode() if at else b""
    template = JobTemplate(jobtype, queue, retry, reserve_for)
    encoded = template.encode(job.jid, orjson.dumps(args), b"2026-01-02T12:00:00Z", due)
    assert orjson.loads(encoded) == orjson.loads(encode_job(job))


# Options


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        (b"queue=slow.2_x-y", "queue", "slow.2_x-y"),
        (b"retry=0", "retry", 0),
        (b"retry=-1", "retry", -1),
        (b"retry=1000", "retry", MAX_RETRY),
        (b"reserve_for=1", "reserve_for", 1),
        (b"reserve_for=86400", "reserve_for", 86_400),
        (b"at=2030-01-31T12:00:00Z", "at", "2030-01-31T12:00:00Z"),
        (b"at=2030-01-31T12:00:00%2B05:30", "at", "2030-01-31T06:30:00Z"),
        (b"at=2030-01-31T12:00:00.25Z", "at", "2030-01-31T12:00:00.250000Z"),
        (b"in=90", "at", "2026-01-02T12:01:30Z"),
        (b"in=0", "at", "2026-01-02T12:00:00Z"),
        (b"in=0.5", "at", "2026-01-02T12:00:00.500000Z"),
    ],
)
def test_an_option_of_the_query_is_a_field_of_the_job(query, field, value):
    assert take(options=query_options(query))[field] == value


def test_without_options_a_job_has_no_time_to_wait_for():
    assert "at" not in take(options=query_options(b""))


def test_several_options_go_together():
    job = take(options=query_options(b"queue=q&retry=2&reserve_for=90&in=60"))
    assert (job["queue"], job["retry"], job["reserve_for"]) == ("q", 2, 90)
    assert job["at"] == "2026-01-02T12:01:00Z"


def test_the_farthest_time_is_ten_years_ahead():
    job = take(options=query_options(b"in=%d" % MAX_DELAY_S))
    assert datetime.fromisoformat(job["at"]) == NOW + timedelta(seconds=MAX_DELAY_S)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (b"queue=", "queue"),
        (b"queue=a%20b", "queue"),
        (b"queue=a%0A", "queue"),
        (b"queue=%00", "queue"),
        (b"queue=*", "queue"),
        (b"queue=" + b"q" * 201, "queue"),
        (b"retry=-2", "retry"),
        (b"retry=1001", "retry"),
        (b"retry=x", "retry"),
        (b"retry=", "retry"),
        (b"retry=null", "retry"),
        (b"in=null", "in"),
        (b"retry=1.5", "retry"),
        (b"retry=" + b"9" * 5000, "retry"),
        (b"reserve_for=0", "reserve_for"),
        (b"reserve_for=86401", "reserve_for"),
        (b"in=-1", "in"),
        (b"in=nan", "in"),
        (b"in=inf", "in"),
        (b"in=soon", "in"),
        (b"in=1e400", "in"),
        (b"in=%d" % (MAX_DELAY_S + 1), "in"),
        (b"unique_for_s=0", "unique_for_s"),
        (b"unique_for_s=315360001", "unique_for_s"),
        (b"unique_for_s=nan", "unique_for_s"),
        (b"unique_for_s=null", "unique_for_s"),
        (b"colour=red", "colour"),
        (b"in_=1", "in_"),
        (b"jobtype=add", "jobtype"),
    ],
)
def test_an_option_that_is_not_in_order_is_refused_by_name(query, field):
    problem = query_refusal(query)
    assert (problem.status, problem.more["field"]) == (422, field)


@pytest.mark.parametrize("query", [b"queue=a&queue=b", b"queue=%ff", b"\xff=1", b"queue=%d1"])
def test_a_query_that_is_none_is_refused(query):
    assert query_refusal(query).status == 400


@pytest.mark.parametrize(
    "at",
    [
        "",
        "tomorrow",
        "2030-01-31",
        "2030-01-31T12:00:00",
        "2030-02-30T12:00:00Z",
        "1893499200",
        "12:00:00Z",
        "2030-01-31T25:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
        "2030-01-31T12:00:00Z\x00",
        "Thu, 31 Jan 2030 12:00:00 GMT",
        "²⁰³⁰-01-31T12:00:00Z",
        "2030-W05-4T12:00:00Z",
        "2030-01-31T12:00:00Z ",
        "20300131T120000Z",
    ],
)
def test_a_date_that_is_none_is_refused(at):
    with pytest.raises(Problem) as caught:
        take(options=Options(at=at))
    assert (caught.value.status, caught.value.more["field"]) == (422, "at")
    assert "2030-01-31T12:00:00Z" in caught.value.detail


def test_a_time_and_a_delay_together_are_refused():
    with pytest.raises(Problem) as caught:
        take(options=Options(at="2030-01-31T12:00:00Z", in_=5))
    assert (caught.value.status, caught.value.more["field"]) == (422, "at")


# What is refused


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (b"{}", ["args.a", "args.b"]),
        (b'{"a": 1}', ["args.b"]),
        (b'{"a": "1", "b": 2}', ["args.a"]),
        (b'{"a": 1.5, "b": true}', ["args.a", "args.b"]),
        (b'{"a": null, "b": 2}', ["args.a"]),
        (b'{"a": [1], "b": 2}', ["args.a"]),
        (b'{"a": 1, "b": 2, "c": 3}', ["args.c"]),
        (b"[1, 2]", ["args"]),
        (b"7", ["args"]),
        (b"null", ["args"]),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_each_field(args, fields):
    problem = refusal(args=args)
    assert problem.status == 422
    assert problem.more["field"] == fields[0]
    assert [error["field"] for error in problem.more["errors"]] == fields
    assert all(error["detail"] for error in problem.more["errors"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"a": 1, "b": 2',
        b'{"a": 1, "b": 2} trailing',
        b"{'a': 1}",
        b'{"a": 1, "b": 2,}',
        b'{"a": 01, "b": 2}',
        b"a=1&b=2",
        b'\x00{"a": 1, "b": 2}',
        b'{"a": 1, "b": 2\x00}',
        b'\xef\xbb\xbf{"a": 1, "b": 2}',
        b'{"a": "\xff", "b": 2}',
        b'{"a": "\xed\xa0\x80", "b": 2}',
        b'{"a": "\\ud800", "b": 2}',
        b'{"\\udfff": 1}',
        b'{"a": ' + b"1" * 5000 + b', "b": 2}',
        b'{"a":' * 100_000,
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("jobtype", ["add", "unknown"])
def test_what_is_not_json_is_refused(jobtype, body):
    problem = refusal(jobtype, body, allows_unknown=True)
    assert problem.status in (400, 422)
    assert orjson.loads(problem.body())["detail"]


@pytest.mark.parametrize("args", [b"[]", b"7", b"null", b'"text"', b'{"a": 1e400}', b'{"a": NaN}'])
def test_an_unknown_type_wants_an_object_too(args):
    problem = refusal("unknown", args, allows_unknown=True)
    assert problem.status in (400, 422)
    assert problem.more["field"] == "args"


@pytest.mark.parametrize("jobtype", ["subtract", "", "ADD", "add ", "\x00", "x" * 100_000])
def test_an_unknown_type_is_refused_with_the_types_that_there_are(jobtype):
    problem = refusal(jobtype)
    assert (problem.status, problem.more["field"]) == (404, "jobtype")
    assert "add, export, fetch, parse, warc" in problem.detail
    assert len(problem.detail) < 300


@pytest.mark.parametrize("jobtype", ["", "\x00", "a\nb", "\ud800", "x" * (MAX_JOBTYPE_LENGTH + 1)])
def test_a_name_that_is_none_is_refused_even_if_unknown_types_are_allowed(jobtype):
    problem = refusal(jobtype, b"{}", allows_unknown=True)
    assert (problem.status, problem.more["field"]) == (422, "jobtype")
    assert orjson.loads(problem.body())["field"] == "jobtype"


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com/", "http://", "http://a b/", "javascript:alert(1)"),
        *(
            "https://u:p@h/",
            "https://exa\x00mple.com/",
            "http://h:99999/",
            "http://h/" + "x" * 5000,
        ),
    ],
)
def test_a_url_that_is_none_is_refused(url):
    problem = refusal("fetch", orjson.dumps({"url": url}))
    assert (problem.status, problem.more["field"]) == (422, "args.url")
    assert not problem.more["errors"][0]["detail"].startswith("Value error")


@pytest.mark.parametrize("line", [b"\xff", b"http://\xed\xa0\x80/"])
def test_a_line_of_text_that_is_not_utf_8_is_refused(line):
    with pytest.raises(Problem) as caught:
        make_intake().url(line, NO_OPTIONS, NOW)
    assert caught.value.status == 400


# Numbers


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, 2**70])
def test_an_integer_that_a_faktory_would_change_is_refused(number):
    for jobtype in ("add", "unknown"):
        problem = refusal(jobtype, orjson_like(a=number), allows_unknown=True)
        assert (problem.status, problem.more["field"]) == (422, "args")
        assert "as a string" in problem.detail


@pytest.mark.parametrize("number", [MAX_SAFE_INTEGER + 1, -(2**63) - 1, 2**64, 2**70, 10**300])
def test_our_broker_gets_all_digits_of_an_integer(number):
    job = make_intake(keeps_big_integers=True).job("add", orjson_like(a=number), NO_OPTIONS, NOW)
    assert b'"args":[%d,2]' % number in job.payload


def orjson_like(a: int) -> bytes:
    return b'{"a": %d, "b": 2}' % a


@pytest.mark.parametrize(("depth", "is_taken"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_arguments_are_nested_so_deep_and_no_deeper(depth, is_taken):
    body = b'{"a":' * depth + b"1" + b"}" * depth
    if is_taken:
        assert take("deep", body, allows_unknown=True)["args"] == [orjson.loads(body)]
    else:
        assert refusal("deep", body, allows_unknown=True).status == 422


# Lines and lists


@pytest.mark.parametrize(
    ("line", "status", "field"),
    [
        (b"{}", 422, "jobtype"),
        (b'{"jobtype": "add"}', 422, "args"),
        (b'{"args": {}}', 422, "jobtype"),
        (b'{"jobtype": 5, "args": {}}', 422, "jobtype"),
        (b'{"jobtype": "sub", "args": {}}', 404, "jobtype"),
        (b'{"jobtype": "add", "args": {"a": 1}}', 422, "args.b"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "in": "x"}', 422, "in"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "in": true}', 422, "in"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": "a\\n"}', 422, "queue"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": 7}', 422, "queue"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "retry": "1"}', 422, "retry"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "at": 5}', 422, "at"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "jid": "x"}', 422, "jid"),
        (b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "custom": {}}', 422, "custom"),
        (b"[]", 422, None),
        (b"7", 422, None),
        (b"nonsense", 400, None),
        (b'{"jobtype": "add", "args": {"a": 1, "b": ' + b"[" * 100_000, 400, None),
    ],
)
def test_a_line_that_is_no_job_is_refused_with_its_field(line, status, field):
    problem = line_refusal(line)
    assert (problem.status, problem.more.get("field")) == (status, field)


def test_null_is_as_good_as_an_option_left_out():
    line = b'{"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": null, "at": null, "in": null}'
    assert wire(make_intake().line(line, NOW))["queue"] == "default"


def test_a_list_is_split_into_its_jobs():
    items = split_list(b'[{"jobtype": "add", "args": {"a": 1}}, {"jobtype": "b", "args": 7}]')
    assert [(item.jobtype, bytes(item.args)) for item in items] == [
        ("add", b'{"a": 1}'),
        ("b", b"7"),
    ]
    assert all(isinstance(item, Item) for item in items)
    assert split_list(b"[]") == []


@pytest.mark.parametrize(
    ("body", "status", "more"),
    [
        (b'[{"jobtype": "a", "args": 1}, {"jobtype": "a"}]', 422, {"index": 1, "field": "args"}),
        (b'[{"jobtype": "a", "args": 1, "x": 1}]', 422, {"index": 0, "field": "x"}),
        (b'[{"jobtype": "a", "args": 1, "queue": ""}]', 422, {"index": 0, "field": "queue"}),
        (b"[1, 2]", 422, {"index": 0}),
        (b'{"jobtype": "a", "args": 1}', 422, {}),
        (b'[{"jobtype": "a", "args": 1},', 400, {}),
        (b"", 400, {}),
        (b"[[" * 100_000, 422, {"index": 0}),
    ],
)
def test_a_list_that_is_none_is_refused_with_the_first_fault(body, status, more):
    with pytest.raises(Problem) as caught:
        split_list(body)
    assert (caught.value.status, caught.value.more) == (status, more)


def test_who_sends_ndjson_as_a_list_is_told_how_to_send_it():
    with pytest.raises(Problem, match="x-ndjson"):
        split_list(b'{"jobtype": "a", "args": 1}\n{"jobtype": "a", "args": 1}')


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_problem(body):
    intake = make_intake(allows_unknown=True)
    for read in (
        lambda: intake.line(body, NOW),
        lambda: intake.url(body, NO_OPTIONS, NOW),
        lambda: intake.job("add", body, NO_OPTIONS, NOW),
        lambda: intake.job("other", body, NO_OPTIONS, NOW),
        lambda: split_list(body),
        lambda: query_options(body),
    ):
        try:
            read()
        except Problem as problem:
            assert orjson.loads(problem.body())["status"] == problem.status < 500

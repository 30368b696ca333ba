"""Every verb of our client as a real server answers it.

What the sets hold is seen as any client can see it, by INFO, or by MUTATE requeue and FETCH.
"""

import asyncio
import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from shared.errors import InvalidJob, ServerError
from shared.faktory.client import FaktoryClient, JobFilter, MutateTarget
from shared.jobs import Job, encode_job, new_jid, utc_now
from tests.contract.conftest import Server
from tests.support.raw_client import RawClient

EVERY_JSON_TYPE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**53,
    -(2**53),
    0.1,
    1e300,
    "",
    "plain",
    "Grüße, 世界 🐈 \u2028 \x00 \x7f",
    'quotes " and \\ and \r\n and \t',
    "<script>&amp;</script>",
    [],
    {},
    [[["deep"]]],
    {"key with space": {"ключ": [1, None]}},
]
SETS = ("scheduled", "retries", "dead", "working")
TARGETS = [MutateTarget.RETRIES, MutateTarget.SCHEDULED, MutateTarget.DEAD]


async def sizes(client: FaktoryClient) -> dict[str, int]:
    info = await client.info()
    return {name: info["faktory"]["sets"][name] for name in SETS}


async def queue_size(client: FaktoryClient, queue: str) -> int:
    info = await client.info()
    return int(info["faktory"]["queues"].get(queue, 0))


async def put_into(client: FaktoryClient, target: MutateTarget, job: Job) -> None:
    """Bring a job into one of the sets by the ways that lead there."""
    if target is MutateTarget.SCHEDULED:
        job.at = utc_now() + timedelta(hours=1)
        await client.push(job)
        return
    job.retry = 5 if target is MutateTarget.RETRIES else -1
    await client.push(job)
    fetched = await client.fetch([job.queue])
    assert fetched is not None and fetched["jid"] == job.jid
    await client.fail(job.jid, "Broken", "on purpose")


async def take_out(client: FaktoryClient, target: MutateTarget, job: Job) -> dict[str, Any]:
    """Requeue a job of a set and fetch it: the only way to see it over the protocol."""
    await client.requeue(target, JobFilter(jids=[job.jid]))
    fetched = await client.fetch([job.queue])
    assert fetched is not None
    return fetched


# PUSHB and FETCH


async def test_a_job_comes_back_with_every_field_as_it_was_pushed(
    client: FaktoryClient, queue: str
) -> None:
    job = Job(
        jobtype="каждый тип",
        args=EVERY_JSON_TYPE,
        queue=queue,
        retry=3,
        reserve_for=600,
        at=datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        created_at=datetime(2021, 6, 7, 8, 9, 10, 111213, tzinfo=UTC),
        custom={"trace": "ä", "nested": {"list": EVERY_JSON_TYPE}},
    )

    assert await client.push(job) == job.jid
    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched.pop("enqueued_at")
    assert fetched == {
        "jid": job.jid,
        "jobtype": "каждый тип",
        "args": EVERY_JSON_TYPE,
        "queue": queue,
        "retry": 3,
        "reserve_for": 600,
        "at": "2020-01-02T03:04:05.678901Z",
        "created_at": "2021-06-07T08:09:10.111213Z",
        "custom": job.to_wire()["custom"],
    }
    assert fetched["custom"]["mh"] == {"id": job.jid, "deliveries": 0}


async def test_a_job_that_says_nothing_special_carries_every_field_explicitly(
    client: FaktoryClient, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))

    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched["retry"] == 25
    assert fetched["reserve_for"] == 1800
    assert fetched["args"] == []


@pytest.mark.parametrize("retry", [-1, 0, 1, 25])
async def test_every_value_of_retry_arrives(client: FaktoryClient, queue: str, retry: int) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue, retry=retry))

    fetched = await client.fetch([queue])

    assert fetched is not None
    assert fetched["retry"] == retry


async def test_jobs_of_a_queue_come_in_the_order_in_which_they_were_pushed(
    client: FaktoryClient, queue: str
) -> None:
    assert (
        await client.push_bulk([Job(jobtype="any", args=[n], queue=queue) for n in range(5)]) == {}
    )

    fetched = [await client.fetch([queue]) for _ in range(5)]

    assert [job["args"] for job in fetched if job] == [[0], [1], [2], [3], [4]]


async def test_a_fetch_serves_its_queues_in_the_order_in_which_it_names_them(
    client: FaktoryClient, queue: str
) -> None:
    for name in ("low", "high"):
        await client.push(Job(jobtype=name, args=[], queue=f"{queue}-{name}"))

    first = await client.fetch([f"{queue}-high", f"{queue}-low"])
    second = await client.fetch([f"{queue}-high", f"{queue}-low"])

    assert first is not None and first["jobtype"] == "high"
    assert second is not None and second["jobtype"] == "low"


async def test_a_fetch_on_an_empty_queue_gives_nothing(client: FaktoryClient, queue: str) -> None:
    assert await client.fetch([queue]) is None


async def test_commands_are_answered_while_a_fetch_waits(client: FaktoryClient, queue: str) -> None:
    waiting = asyncio.create_task(client.fetch([queue]))
    await client.info()
    assert not waiting.done()
    await client.push(Job(jobtype="late", args=[], queue=queue))

    fetched = await waiting

    assert fetched is not None and fetched["jobtype"] == "late"


async def test_a_whole_batch_of_a_thousand_is_taken(client: FaktoryClient, queue: str) -> None:
    jobs = [Job(jobtype="any", args=[n], queue=queue) for n in range(1000)]

    assert await client.push_bulk(jobs) == {}

    assert await queue_size(client, queue) == 1000


async def test_an_empty_batch_is_no_command(client: FaktoryClient) -> None:
    assert await client.push_bulk([]) == {}


async def test_a_refused_job_of_a_batch_is_named_by_its_jid_and_the_others_are_queued(
    client: FaktoryClient, queue: str
) -> None:
    good = [Job(jobtype="any", args=[n], queue=queue) for n in range(2)]
    too_long = Job(jobtype="any", args=[], queue=queue).to_wire() | {"reserve_for": 86_401}
    no_type = Job(jobtype="any", args=[], queue=queue).to_wire() | {"jobtype": ""}
    batch = [
        encode_job(good[0]),
        orjson.dumps(too_long),
        orjson.dumps(no_type),
        encode_job(good[1]),
    ]

    refused = await client.push_encoded(batch)

    assert refused.keys() == {too_long["jid"], no_type["jid"]}
    assert "reserved" in refused[too_long["jid"]]
    assert "jobtype" in refused[no_type["jid"]]
    fetched = [await client.fetch([queue]) for _ in range(2)]
    assert [job["jid"] for job in fetched if job] == [job.jid for job in good]
    assert await queue_size(client, queue) == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reserve_for", 86_401),
        ("reserve_for", 0),
        ("retry", -2),
        ("jid", "short"),
        ("jobtype", ""),
        ("queue", "two words"),
        ("queue", ""),
    ],
)
async def test_what_the_server_would_refuse_or_spoil_is_never_sent(
    client: FaktoryClient, queue: str, field: str, value: object
) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    setattr(job, field, value)
    commands_before = (await client.info())["server"]["command_count"]

    with pytest.raises(InvalidJob):
        await client.push(job)

    # One more than before: the INFO that asks.
    assert (await client.info())["server"]["command_count"] == commands_before + 1


async def test_two_jobs_of_one_batch_may_not_share_a_jid(client: FaktoryClient, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)

    with pytest.raises(InvalidJob, match=job.jid):
        await client.push_bulk([job, job])

    assert await queue_size(client, queue) == 0


async def test_a_job_for_the_future_is_scheduled_and_not_queued(
    client: FaktoryClient, queue: str
) -> None:
    job = Job(jobtype="any", args=[], queue=queue, at=utc_now() + timedelta(hours=1))

    await client.push(job)

    assert await sizes(client) == {"scheduled": 1, "retries": 0, "dead": 0, "working": 0}
    assert await queue_size(client, queue) == 0


async def test_a_scheduled_job_is_queued_when_its_time_has_come(
    client: FaktoryClient, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue, at=utc_now() + timedelta(seconds=1)))

    fetched = None
    while fetched is None:
        fetched = await client.fetch([queue])

    assert fetched["jobtype"] == "any"
    assert (await sizes(client))["scheduled"] == 0


# ACK and FAIL


async def test_an_acknowledged_job_is_gone_and_counted(client: FaktoryClient, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    await client.push(job)
    assert await client.fetch([queue])
    assert (await sizes(client))["working"] == 1

    await client.ack(job.jid)

    assert await sizes(client) == dict.fromkeys(SETS, 0)
    info = await client.info()
    assert info["faktory"]["total_processed"] == 1
    assert info["faktory"]["total_failures"] == 0


async def test_an_ack_can_be_repeated_and_may_name_a_job_that_nobody_knows(
    client: FaktoryClient,
) -> None:
    await client.ack(new_jid())


async def test_a_fail_of_a_job_that_nobody_knows_is_refused(client: FaktoryClient) -> None:
    with pytest.raises(ServerError, match=r"(?i)job not found"):
        await client.fail(new_jid(), "Broken", "on purpose")


async def test_a_failed_job_waits_for_its_retry_and_says_why(
    client: FaktoryClient, queue: str
) -> None:
    job = Job(jobtype="any", args=["ä"], queue=queue, retry=4, custom={"mine": 1})
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "ValueError", "Grüße: das war nichts", ["one", 'two "quoted"'])

    assert await sizes(client) == {"scheduled": 0, "retries": 1, "dead": 0, "working": 0}
    again = await take_out(client, MutateTarget.RETRIES, job)
    assert (again["jid"], again["args"], again["custom"]["mine"]) == (job.jid, ["ä"], 1)
    failure = again["failure"]
    assert failure["errtype"] == "ValueError"
    assert failure["message"] == "Grüße: das war nichts"
    assert failure["backtrace"] == ["one", 'two "quoted"']
    assert failure["remaining"] == 4
    assert failure.get("retry_count", 0) == 0
    assert failure["failed_at"] and failure["next_at"]


async def test_a_long_error_is_cut_between_characters(client: FaktoryClient, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "é" * 200, "世" * 2000, [f"line {n}" for n in range(200)])

    failure = (await take_out(client, MutateTarget.RETRIES, job))["failure"]
    assert set(failure["errtype"]) == {"é"}
    assert set(failure["message"]) == {"世"}
    assert len(failure["message"]) == 333
    assert len(failure["backtrace"]) == 50


async def test_each_failure_counts(client: FaktoryClient, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=2)
    await client.push(job)
    assert await client.fetch([queue])
    await client.fail(job.jid, "Broken", "first")
    second = await take_out(client, MutateTarget.RETRIES, job)
    await client.fail(job.jid, "Broken", "second")
    third = await take_out(client, MutateTarget.RETRIES, job)
    await client.fail(job.jid, "Broken", "third")

    assert second["failure"].get("retry_count", 0) == 0
    assert third["failure"]["retry_count"] == 1
    assert third["failure"]["remaining"] == 1
    assert (await sizes(client))["dead"] == 1
    assert (await client.info())["faktory"]["total_failures"] == 3


async def test_a_failed_job_without_retries_is_discarded(client: FaktoryClient, queue: str) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=0)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "Broken", "on purpose")

    assert await sizes(client) == dict.fromkeys(SETS, 0)


async def test_a_failed_job_with_retry_minus_one_is_dead_at_once(
    client: FaktoryClient, queue: str
) -> None:
    job = Job(jobtype="any", args=[], queue=queue, retry=-1)
    await client.push(job)
    assert await client.fetch([queue])

    await client.fail(job.jid, "Broken", "on purpose")

    assert await sizes(client) == {"scheduled": 0, "retries": 0, "dead": 1, "working": 0}


async def test_our_pushes_never_change_the_default_of_jobs_that_name_no_retry(
    client: FaktoryClient, server: Server, queue: str
) -> None:
    """A PUSH with `retry` overwrites the server's default for all clients, a PUSHB does not."""
    await client.push(Job(jobtype="ours", args=[], queue=f"{queue}-ours", retry=0))
    await client.push_bulk([Job(jobtype="ours", args=[], queue=f"{queue}-ours", retry=0)])
    jid = new_jid()
    with RawClient(server.url) as stranger:
        raw = {"jid": jid, "jobtype": "theirs", "args": [], "queue": queue}
        assert stranger.call("PUSH " + json.dumps(raw)) == "OK"
    assert await client.fetch([queue])

    await client.fail(jid, "Broken", "on purpose")

    assert (await sizes(client))["retries"] == 1


# BEAT and INFO


async def test_a_beat_of_an_unknown_worker_is_refused(client: FaktoryClient) -> None:
    with pytest.raises(ServerError, match=r"(?i)unknown worker"):
        await client.beat("nobody-knows-me")


async def test_a_beat_of_a_known_worker_is_answered_with_nothing_to_do(
    client: FaktoryClient, server: Server
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(server.url, wid=wid):
        assert await client.beat(wid, rss_kb=12_345) is None


async def test_a_worker_that_says_it_is_quiet_is_told_so_from_then_on(
    client: FaktoryClient, server: Server
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(server.url, wid=wid):
        assert await client.beat(wid, state="quiet") == "quiet"
        assert await client.beat(wid) == "quiet"


async def test_info_has_the_shape_that_we_rely_on(client: FaktoryClient, queue: str) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))

    info = await client.info()

    assert info["faktory"]["queues"][queue] == 1
    assert info["faktory"]["total_enqueued"] == 1
    assert info["faktory"]["sets"].keys() >= set(SETS)
    for name in ("total_processed", "total_failures", "total_queues"):
        assert isinstance(info["faktory"][name], int)
    assert isinstance(info["faktory"]["tasks"]["Workers"]["size"], int)
    # Our command socket, and FETCH's own once it is used.
    assert info["server"]["connections"] >= 1
    assert info["server"]["command_count"] >= 1
    assert info["server"]["faktory_version"]


# QUEUE


async def test_a_paused_queue_gives_no_job_until_it_is_resumed(
    client: FaktoryClient, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))
    await client.queue_pause([queue])

    assert await client.fetch([queue]) is None
    await client.queue_resume([queue])

    assert await client.fetch([queue]) is not None


async def test_all_queues_can_be_paused_and_resumed_at_once(
    client: FaktoryClient, queue: str
) -> None:
    names = [f"{queue}-a", f"{queue}-b"]
    for name in names:
        await client.push(Job(jobtype="any", args=[], queue=name))
    await client.queue_pause(["*"])

    assert await client.fetch(names) is None
    await client.queue_resume(["*"])

    assert await client.fetch(names) is not None
    assert await client.fetch(names) is not None


async def test_a_removed_queue_loses_its_jobs_and_the_others_keep_theirs(
    client: FaktoryClient, queue: str
) -> None:
    names = [f"{queue}-a", f"{queue}-b", f"{queue}-c"]
    for name in names:
        await client.push(Job(jobtype="any", args=[], queue=name))

    await client.queue_remove(names[:2])

    assert [await queue_size(client, name) for name in names] == [0, 0, 1]


async def test_the_latency_of_a_queue_is_the_age_of_its_oldest_job(
    client: FaktoryClient, queue: str
) -> None:
    await client.push(Job(jobtype="any", args=[], queue=queue))
    await asyncio.sleep(0.2)
    await client.push(Job(jobtype="any", args=[], queue=queue))

    latency = await client.queue_latency([queue, f"{queue}-empty"])

    assert latency.keys() == {queue, f"{queue}-empty"}
    assert latency[queue] >= 0.2
    assert latency[f"{queue}-empty"] == 0


@pytest.mark.parametrize("names", [[], ["two words"], ["a", "*"], ["line\r\nFLUSH"]])
async def test_a_queue_name_that_would_break_the_line_is_never_sent(
    client: FaktoryClient, names: list[str]
) -> None:
    with pytest.raises(InvalidJob):
        await client.queue_remove(names)
    with pytest.raises(InvalidJob):
        await client.fetch(names)


async def test_latency_of_all_queues_is_not_a_question_that_can_be_asked(
    client: FaktoryClient,
) -> None:
    with pytest.raises(InvalidJob):
        await client.queue_latency(["*"])


# MUTATE


@pytest.mark.parametrize("target", TARGETS)
async def test_clear_empties_one_set_and_no_other(
    client: FaktoryClient, queue: str, target: MutateTarget
) -> None:
    for each in TARGETS:
        await put_into(client, each, Job(jobtype="any", args=[], queue=queue))

    await client.clear(target)

    expected = dict.fromkeys(("scheduled", "retries", "dead"), 1) | {target.value: 0, "working": 0}
    assert await sizes(client) == expected


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", TARGETS)
async def test_discard_takes_the_named_job_out_of_its_set(
    client: FaktoryClient, queue: str, target: MutateTarget, jid: str
) -> None:
    other = Job(jobtype="any", args=["other"], queue=queue)
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue, jid=jid))
    await put_into(client, target, other)

    await client.discard(target, JobFilter(jids=[jid]))

    assert (await sizes(client))[target.value] == 1
    assert (await take_out(client, target, other))["args"] == ["other"]


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", TARGETS)
async def test_requeue_puts_the_named_job_into_its_queue_now(
    client: FaktoryClient, queue: str, target: MutateTarget, jid: str
) -> None:
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue, jid=jid))
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue))

    await client.requeue(target, JobFilter(jids=[jid]))

    assert (await sizes(client))[target.value] == 1
    fetched = await client.fetch([queue])
    assert fetched is not None and fetched["jid"] == jid


@pytest.mark.parametrize("jid", ["0123456789abcdef", "a jid with spaces"])
@pytest.mark.parametrize("target", [MutateTarget.RETRIES, MutateTarget.SCHEDULED])
async def test_kill_moves_the_named_job_to_the_dead(
    client: FaktoryClient, queue: str, target: MutateTarget, jid: str
) -> None:
    job = Job(jobtype="any", args=["killed"], queue=queue, jid=jid)
    await put_into(client, target, job)
    await put_into(client, target, Job(jobtype="any", args=[], queue=queue))

    await client.kill(target, JobFilter(jids=[jid]))

    after = await sizes(client)
    assert (after[target.value], after["dead"]) == (1, 1)
    assert (await take_out(client, MutateTarget.DEAD, job))["args"] == ["killed"]


async def test_a_filter_can_name_a_job_type(client: FaktoryClient, queue: str) -> None:
    for jobtype in ("wanted", "wanted", "other"):
        job = Job(jobtype=jobtype, args=[], queue=queue)
        await put_into(client, MutateTarget.RETRIES, job)

    await client.discard(MutateTarget.RETRIES, JobFilter(jobtype="wanted"))

    assert (await sizes(client))["retries"] == 1


async def test_a_filter_can_be_a_pattern_over_the_job(client: FaktoryClient, queue: str) -> None:
    for tenant in ("red and blue", "green"):
        job = Job(jobtype="any", args=[], queue=queue, custom={"tenant": tenant})
        await put_into(client, MutateTarget.SCHEDULED, job)

    await client.discard(MutateTarget.SCHEDULED, JobFilter(pattern='*"tenant":"red and*'))

    assert (await sizes(client))["scheduled"] == 1


async def test_a_filter_that_names_nothing_is_never_sent(client: FaktoryClient) -> None:
    with pytest.raises(InvalidJob, match="empty filter"):
        await client.discard(MutateTarget.DEAD, JobFilter())


# FLUSH


async def test_flush_deletes_queues_sets_and_counters(client: FaktoryClient, queue: str) -> None:
    for target in TARGETS:
        await put_into(client, target, Job(jobtype="any", args=[], queue=queue))
    await client.push(Job(jobtype="any", args=[], queue=queue))

    await client.flush()

    info = await client.info()
    assert await sizes(client) == dict.fromkeys(SETS, 0)
    assert info["faktory"]["total_enqueued"] == 0
    assert info["faktory"]["total_processed"] == 0
    assert info["faktory"]["total_failures"] == 0


# What the server does not have


async def test_a_command_of_the_paid_edition_is_refused_and_the_connection_lives_on(
    client: FaktoryClient, queue: str
) -> None:
    with pytest.raises(ServerError):
        await client.call(b'TRACK GET "some-job-id"\r\n')
    with pytest.raises(ServerError):
        await client.call(b"NONSENSE\r\n")

    await client.push(Job(jobtype="any", args=[], queue=queue))
    assert await queue_size(client, queue) == 1

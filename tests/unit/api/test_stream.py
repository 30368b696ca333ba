"""Jobs of any number in one request: every line is accounted for, whatever happens on the way."""

import asyncio
import gzip
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.api import stream as stream_module
from manyhands.api.bodies import SILENCE_S, Chunks, ClientGone, Lines, Receive, unpacker
from manyhands.api.intake import EncodedJob, Item
from manyhands.api.keys import Key, Scope, TokenBucket
from manyhands.api.parts import pay, pay_now
from manyhands.api.problems import Problem, shutting_down, unprocessable
from manyhands.api.stream import (
    MAX_BATCH_BYTES,
    MAX_ERRORS,
    MAX_IN_FLIGHT,
    JobStream,
    LineStream,
    Report,
    push_list,
    ranges,
)
from manyhands.shared.errors import ConnectionLost, FaktoryError, NotSent, ServerError
from manyhands.shared.faktory.client import MAX_BULK_JOBS
from tests.support.virtual_time import run_in_virtual_time, turns
from tests.unit.api.fake_broker import FakeBroker, ObligingBroker, a_job
from tests.unit.api.requests import body_of, never_stopped, vanishing

LINE_LIMIT = 1000


def read_line(line: bytes, _: datetime) -> EncodedJob:
    """A number is a job of that number, and all else is not in order."""
    if not line.isdigit():
        raise unprocessable("not a number", field="args")
    return a_job(int(line))


def read_large_line(line: bytes, _: datetime) -> EncodedJob:
    return a_job(int(line), size_bytes=MAX_BATCH_BYTES // 2)


async def pay_nothing(_: int) -> None:
    pass


class Bench:
    """One request. Made inside the loop."""

    def __init__(
        self, broker: FakeBroker, read: Callable[[bytes, datetime], EncodedJob] = read_line
    ) -> None:
        self.stop = never_stopped()
        self.stream = JobStream(broker, read, pay_nothing, self.stop)

    async def take(self, receive: Receive, encoding: str = "") -> Report:
        chunks = Chunks(receive, self.stop)
        return await self.stream.take(chunks, unpacker(encoding), Lines(LINE_LIMIT))


def take(
    *chunks: bytes, broker: FakeBroker | None = None, encoding: str = "", ends: bool = True
) -> Report:
    async def run() -> Report:
        return await Bench(broker or ObligingBroker()).take(body_of(*chunks, ends=ends), encoding)

    return run_in_virtual_time(run())


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"%d\n" % number for number in range(first, last + 1))


def problem_of(report: Report) -> Problem:
    with pytest.raises(Problem) as caught:
        report.result()
    return caught.value


# Lines


def test_every_line_is_a_job_in_its_order():
    broker = ObligingBroker()
    report = take(numbers(1, 2500), broker=broker)
    assert report.result() == {"accepted": 2500, "refused": 0, "errors": []}
    assert broker.stored == [f"job-{number:08}" for number in range(1, 2501)]


@pytest.mark.parametrize("body", [b"1\n2\n3\n", b"1\n2\n3", b"1\r\n2\r\n3\r\n", b"1\r\n2\n3\r"])
def test_line_ends_of_either_kind_and_a_last_line_without_one(body):
    broker = ObligingBroker()
    assert take(body, broker=broker).result()["accepted"] == 3
    assert broker.stored == ["job-00000001", "job-00000002", "job-00000003"]


def test_blank_lines_are_no_jobs_but_have_a_number():
    report = take(b"\n1\n\r\n   \nbad\n\n2\n\t\nbad")
    assert report.result()["accepted"] == 2
    assert [error["line"] for error in report.errors] == [5, 9]


def test_a_line_that_is_not_in_order_is_named_and_the_others_are_taken():
    report = take(b"1\nbad\n2\n", b"ba", b"d\n3")
    assert report.result() == {
        "accepted": 3,
        "refused": 2,
        "errors": [
            {"line": 2, "status": 422, "detail": "not a number", "field": "args"},
            {"line": 4, "status": 422, "detail": "not a number", "field": "args"},
        ],
    }


def test_a_line_that_the_broker_refuses_is_named_too():
    report = take(b"1\n2\n3\n", broker=ObligingBroker(refuses=frozenset({1})))
    assert report.result()["accepted"] == 2
    (error,) = report.errors
    assert (error["line"], error["status"]) == (2, 422)
    assert "better than this one" in error["detail"]


def test_when_no_line_is_in_order_the_request_is_refused():
    problem = problem_of(take(b"bad\nworse\n"))
    assert (problem.status, problem.more["refused"]) == (422, 2)
    assert [error["line"] for error in problem.more["errors"]] == [1, 2]


@pytest.mark.parametrize("body", [b"", b"\n\n"])
def test_nothing_is_not_wrong(body):
    assert take(body).result() == {"accepted": 0, "refused": 0, "errors": []}


def test_of_very_many_faults_all_are_counted_and_the_first_are_told():
    report = take(b"1\n" + b"bad\n" * (MAX_ERRORS + 500))
    assert report.result()["refused"] == MAX_ERRORS + 500
    assert [error["line"] for error in report.errors] == list(range(2, MAX_ERRORS + 2))


def test_a_packed_body_is_unpacked():
    assert take(gzip.compress(numbers(1, 5000)), encoding="gzip").result()["accepted"] == 5000


# Batches


def test_a_batch_has_no_more_jobs_than_a_server_takes():
    broker = ObligingBroker()
    take(numbers(1, 10_000), broker=broker)
    assert max(broker.sizes) == MAX_BULK_JOBS
    assert sum(broker.sizes) == 10_000


def test_large_jobs_leave_in_small_batches():
    broker = ObligingBroker()

    async def run() -> None:
        await Bench(broker, read_large_line).take(body_of(numbers(1, 7)))

    run_in_virtual_time(run())
    assert broker.sizes == [2, 2, 2, 1]


def test_a_slow_sender_s_line_is_pushed_before_the_next_one_comes():
    async def run() -> None:
        broker = ObligingBroker(takes_s=0.0)
        bench = Bench(broker)
        taking = asyncio.ensure_future(bench.take(body_of(b"1\n", b"2\n", ends=False)))
        await asyncio.sleep(1)
        assert broker.stored == ["job-00000001", "job-00000002"]
        taking.cancel()

    run_in_virtual_time(run())


def test_a_fast_sender_is_held_back_while_four_batches_are_under_way():
    asked = 0

    def chunks() -> Iterator[bytes]:
        for first in range(1, 1_000_000, 100):
            nonlocal asked
            asked += 1
            yield numbers(first, first + 99)

    async def run() -> None:
        broker = FakeBroker()
        source = chunks()

        async def receive() -> dict[str, object]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": next(source), "more_body": True}

        taking = asyncio.ensure_future(Bench(broker).take(receive))
        await turns(2000)
        assert (broker.under_way, broker.sizes) == (4, [100, 1000, 1000, 1000])
        assert asked == 31
        broker.pushes[1].succeed()
        await turns(2000)
        assert (broker.under_way, asked) == (4, 41)
        assert broker.most_under_way == MAX_IN_FLIGHT == 4
        taking.cancel()
        for push in broker.pushes:
            if not push.answer.done():
                push.succeed()
        await turns()

    run_in_virtual_time(run())


def test_megabytes_of_nothing_leave_room_for_other_requests():
    """A few packed bytes; without a pause between them nobody else would have a turn."""
    body = gzip.compress(b"\n" * 4_000_000)

    async def run() -> int:
        served = 0

        async def serve() -> None:
            nonlocal served
            while True:
                await asyncio.sleep(0)
                served += 1

        others = asyncio.ensure_future(serve())
        await Bench(FakeBroker()).take(body_of(body), "gzip")
        others.cancel()
        return served

    assert run_in_virtual_time(run()) >= 3


# What stops a stream


@pytest.mark.parametrize(
    ("error", "is_unknown"),
    [
        (ConnectionLost("gone"), True),
        (NotSent("never left"), False),
        (ServerError("ERR", "the disk is full"), False),
    ],
)
def test_when_the_broker_goes_away_the_report_says_which_lines_are_where(error, is_unknown):
    broker = ObligingBroker(error=error, fails_from=1)
    problem = problem_of(take(numbers(1, 3), numbers(4, 6), broker=broker))
    assert (problem.status, problem.more["accepted"]) == (503, 3)
    assert problem.retry_after_s is not None
    assert problem.more["unknown_lines"] == ([[4, 6]] if is_unknown else [])
    assert problem.more["unqueued_lines"] == ([] if is_unknown else [[4, 6]])
    assert problem.more["next_line"] == 7


def test_a_store_that_takes_no_more_ends_the_stream_with_its_own_words():
    async def run() -> Problem:
        stored: list[EncodedJob] = []

        async def store(jobs: Sequence[EncodedJob]) -> dict[int, Problem]:
            if stored:
                return dict.fromkeys(range(len(jobs)), Problem(409, "it has ended", {"state": "x"}))
            stored.extend(jobs)
            return {}

        stop = never_stopped()
        stream = LineStream(store, read_line, pay_nothing, stop, "it is away")
        body = body_of(numbers(1, 3), numbers(4, 6), ends=False)
        report = await stream.take(Chunks(body, stop), unpacker(""), Lines(LINE_LIMIT))
        return problem_of(report)

    problem = run_in_virtual_time(run())
    assert (problem.status, problem.more["accepted"]) == (409, 3)
    assert problem.detail.startswith("it has ended: unqueued_lines")
    assert problem.more["unqueued_lines"] == [[4, 6]]
    assert problem.more["next_line"] == 7


def test_when_the_broker_goes_away_a_sender_that_waits_is_told_at_once():
    async def run() -> float:
        bench = Bench(ObligingBroker(error=ConnectionLost("gone")))
        problem = problem_of(await bench.take(body_of(b"1\n", ends=False)))
        assert problem.more["unknown_lines"] == [[1, 1]]
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(run()) < 1


def test_what_was_read_when_the_broker_went_away_is_not_tried_again():
    broker = ObligingBroker(takes_s=1, error=ConnectionLost("gone"))
    problem = problem_of(take(b"1\n", numbers(2, 500), broker=broker, ends=False))
    assert broker.sizes == [1]
    assert problem.more["unknown_lines"] == [[1, 1]]
    assert problem.more["unqueued_lines"] == [[2, 500]]


def test_a_service_that_ends_pushes_what_it_has_read_and_says_where_to_go_on():
    async def run() -> None:
        broker = ObligingBroker(takes_s=1)
        bench = Bench(broker)
        taking = asyncio.ensure_future(bench.take(body_of(numbers(1, 7), b"8\n9", ends=False)))
        await turns()
        bench.stop.set_result(shutting_down())
        problem = problem_of(await taking)
        assert (problem.status, problem.retry_after_s) == (503, 5)
        assert (problem.more["accepted"], problem.more["next_line"]) == (8, 9)
        assert problem.more["unknown_lines"] == problem.more["unqueued_lines"] == []
        assert len(broker.stored) == 8

    run_in_virtual_time(run())


def test_an_endless_sender_is_stopped_by_the_end_of_the_service():
    async def run() -> None:
        broker = ObligingBroker(takes_s=0.0)
        bench = Bench(broker)
        sent = 0

        async def receive() -> dict[str, object]:
            nonlocal sent
            await asyncio.sleep(0)
            sent += 1
            return {"type": "http.request", "body": b"%d\n" % sent, "more_body": True}

        taking = asyncio.ensure_future(bench.take(receive))
        await turns(500)
        bench.stop.set_result(shutting_down())
        problem = problem_of(await taking)
        assert problem.more["accepted"] == problem.more["next_line"] - 1 == len(broker.stored)

    run_in_virtual_time(run())


def test_the_line_that_is_too_long_is_the_one_to_go_on_with():
    broker = ObligingBroker()
    problem = problem_of(take(b"1\n\n2\n" + b"3" * 1001 + b"\n4\n", broker=broker))
    assert (problem.status, problem.more["limit"]) == (413, LINE_LIMIT)
    assert (problem.more["accepted"], problem.more["next_line"]) == (2, 4)
    assert len(broker.stored) == 2


def test_a_packed_body_that_breaks_off_is_refused_and_its_lines_are_told():
    body = gzip.compress(numbers(1, 5000))
    problem = problem_of(take(body[: len(body) // 2], encoding="gzip"))
    assert problem.status == 400
    assert 0 < problem.more["accepted"] == problem.more["next_line"] - 1


def test_a_sender_that_falls_silent_is_told_how_far_it_came():
    async def run() -> None:
        problem = problem_of(await Bench(ObligingBroker()).take(body_of(b"1\n2", ends=False)))
        assert (problem.status, problem.more["accepted"]) == (408, 1)
        assert problem.more["next_line"] == 2
        assert asyncio.get_running_loop().time() == pytest.approx(SILENCE_S)

    run_in_virtual_time(run())


def test_of_a_client_that_vanishes_no_more_is_pushed_than_was_under_way():
    async def run() -> None:
        broker = ObligingBroker(takes_s=1)
        with pytest.raises(ClientGone):
            await Bench(broker).take(vanishing(b"1\n", b"2\n3\n", b"4"))
        assert broker.stored == ["job-00000001"]
        assert broker.under_way == 0

    run_in_virtual_time(run())


@settings(max_examples=60)
@given(data=st.data())
def test_every_line_before_the_next_is_in_exactly_one_place(data):
    kinds = data.draw(
        st.lists(st.sampled_from(["good"] * 6 + ["bad", "blank"]), max_size=60).map(
            # A few thousand lines, from a pattern.
            lambda pattern: pattern * 60
        )
    )
    texts = [
        {"good": b"%d" % number, "bad": b"bad", "blank": b""}[kind]
        for number, kind in enumerate(kinds, 1)
    ]
    too_long = data.draw(st.none() | st.integers(0, len(texts)), "a line that is too long, before")
    if too_long is not None:
        texts.insert(too_long, b"9" * (LINE_LIMIT + 1))
    body = b"".join(text + b"\n" for text in texts)
    size = data.draw(st.integers(50, 20_000), "bytes of a chunk")
    chunks = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    error: FaktoryError | None = data.draw(
        st.sampled_from([None, ConnectionLost("gone"), NotSent("x"), ServerError("ERR", "full")])
    )
    broker = ObligingBroker(
        takes_s=data.draw(st.sampled_from([0.0, 0.01])),
        error=error,
        fails_from=data.draw(st.integers(0, 4)),
        refuses=frozenset(data.draw(st.sets(st.integers(0, 3000), max_size=5))),
    )
    stops_after = data.draw(st.none() | st.integers(0, 200), "turns until the service ends")

    async def run() -> Report:
        bench = Bench(broker)
        taking = asyncio.ensure_future(bench.take(body_of(*chunks)))
        if stops_after is not None:
            await turns(stops_after)
            if not bench.stop.done():
                bench.stop.set_result(shutting_down())
        return await taking

    report = run_in_virtual_time(run())
    read = [] if too_long == 0 else kinds[: report.next_line - 1]
    good = {number for number, kind in enumerate(read, 1) if kind == "good"}
    stored = {int(jid.removeprefix("job-")) for jid in broker.stored}
    refused_by_broker = report.refused - read.count("bad")
    places = [*stored, *report.unknown_lines, *report.unqueued_lines]
    assert len(places) == len(set(places))
    assert set(places) <= good
    assert len(good) == len(places) + refused_by_broker
    assert report.accepted == len(stored)
    if report.stopped_by is None:
        assert len(read) == len(kinds)
        assert not report.unknown_lines and not report.unqueued_lines
    else:
        more = problem_of(report).more
        expanded = [
            number
            for name in ("unknown_lines", "unqueued_lines")
            for first, last in more[name]
            for number in range(first, last + 1)
        ]
        assert sorted(expanded) == sorted([*report.unknown_lines, *report.unqueued_lines])
        assert orjson.dumps(more)


@given(st.sets(st.integers(1, 50)))
def test_ranges_say_the_same_in_fewer_numbers(chosen):
    found = ranges(list(chosen))
    assert {n for first, last in found for n in range(first, last + 1)} == chosen
    assert all(
        first <= last and last + 1 < following for (first, last), (following, _) in pairwise(found)
    )


# The rate of a key


def a_key(rate: float) -> Key:
    return Key("ci", frozenset(Scope), b"", TokenBucket(rate, rate, 0.0))


def test_a_stream_is_held_back_to_the_rate_of_its_key():
    async def run() -> None:
        key, stop = a_key(100.0), never_stopped()
        broker = ObligingBroker(takes_s=0.0)
        stream = JobStream(broker, read_line, lambda count: pay(key, count, stop), stop)
        await stream.take(
            Chunks(body_of(numbers(1, 1000), numbers(1001, 2000), b"2001\n"), stop),
            unpacker(""),
            Lines(LINE_LIMIT),
        )
        # The first thousand on credit; then each has to be paid for before the next one.
        assert asyncio.get_running_loop().time() == pytest.approx(19, abs=0.1)

    run_in_virtual_time(run())


def test_a_stream_that_waits_for_its_rate_ends_with_the_service():
    async def run() -> None:
        key, stop = a_key(1.0), never_stopped()
        broker = ObligingBroker(takes_s=0.0)
        stream = JobStream(broker, read_line, lambda count: pay(key, count, stop), stop)
        taking = asyncio.ensure_future(
            stream.take(
                Chunks(body_of(numbers(1, 10), numbers(11, 12)), stop),
                unpacker(""),
                Lines(LINE_LIMIT),
            )
        )
        await asyncio.sleep(1)
        stop.set_result(shutting_down())
        problem = problem_of(await taking)
        assert (problem.status, problem.more["accepted"]) == (503, 10)
        assert (problem.more["unqueued_lines"], problem.more["next_line"]) == ([[11, 12]], 13)

    run_in_virtual_time(run())


def test_what_cannot_be_held_back_is_refused_until_the_debt_is_paid():
    async def run() -> None:
        key = a_key(10.0)
        pay_now(key, 50)
        with pytest.raises(Problem) as caught:
            pay_now(key)
        assert (caught.value.status, caught.value.retry_after_s) == (429, 4)
        await asyncio.sleep(4)
        pay_now(key)

    run_in_virtual_time(run())


def test_a_key_without_a_rate_pays_nothing():
    async def run() -> None:
        key = Key("ci", frozenset(Scope), b"")
        for _ in range(3):
            pay_now(key, 10_000)
            await pay(key, 10_000, never_stopped())
        assert asyncio.get_running_loop().time() == 0

    run_in_virtual_time(run())


# Lists


def items(*numbers: object) -> list[Item]:
    return [Item(jobtype=str(number), args=b"{}") for number in numbers]  # type: ignore[arg-type]


def read_item(item: Item, now: datetime) -> EncodedJob:
    return read_line(item.jobtype.encode(), now)


def push(broker: FakeBroker, *numbers: object) -> list[EncodedJob]:
    return run_in_virtual_time(push_list(broker, items(*numbers), read_item, lambda _: None))


def test_a_list_is_pushed_in_batches_that_a_server_takes():
    broker = ObligingBroker()
    jobs = push(broker, *range(2500))
    assert [job.jid for job in jobs] == broker.stored
    assert broker.sizes == [1000, 1000, 500]
    assert broker.most_under_way == 3


def test_an_empty_list_is_pushed_nowhere():
    broker = ObligingBroker()
    assert push(broker) == []
    assert broker.pushes == []


def test_of_a_list_with_a_fault_nothing_is_pushed():
    broker = ObligingBroker()
    with pytest.raises(Problem) as caught:
        push(broker, 1, "bad", 2, "worse")
    assert caught.value.status == 422
    assert [error["index"] for error in caught.value.more["errors"]] == [1, 3]
    assert all(error["field"] == "args" for error in caught.value.more["errors"])
    assert "2 of 4" in caught.value.detail
    assert broker.pushes == []


def test_of_a_list_that_is_not_paid_for_nothing_is_pushed():
    broker = ObligingBroker()

    def pay_never(count: int) -> None:
        assert count == 2
        raise unprocessable("not paid")

    with pytest.raises(Problem, match="not paid"):
        run_in_virtual_time(push_list(broker, items(1, 2), read_item, pay_never))
    assert broker.pushes == []


def test_a_list_that_the_broker_took_in_part_says_of_each_job_where_it_is(monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_BULK_JOBS", 2)
    broker = ObligingBroker(error=ConnectionLost("gone"), fails_from=1, refuses=frozenset({1}))
    with pytest.raises(Problem) as caught:
        push(broker, 1, 2, 3, 4)
    problem = caught.value
    assert (problem.status, problem.more["outcome"]) == (503, "unknown")
    assert [job["state"] for job in problem.more["jobs"]] == [
        "queued",
        "not queued",
        "unknown",
        "unknown",
    ]
    assert [job["jid"] for job in problem.more["jobs"]] == [f"job-{n:08}" for n in (1, 2, 3, 4)]
    assert "3 of 4" in problem.detail


def test_a_list_that_never_reached_the_broker_says_so():
    with pytest.raises(Problem) as caught:
        push(ObligingBroker(error=NotSent("no connection")), 1, 2)
    assert caught.value.status == 503
    assert "outcome" not in caught.value.more
    assert {job["state"] for job in caught.value.more["jobs"]} == {"not queued"}


def test_a_list_with_a_job_that_the_broker_refuses_is_not_a_success():
    with pytest.raises(Problem) as caught:
        push(ObligingBroker(refuses=frozenset({0})), 1, 2)
    assert caught.value.status == 422
    assert [job["state"] for job in caught.value.more["jobs"]] == ["not queued", "queued"]

"""Single jobs in few PUSHBs: when a batch leaves, and that each request gets its own answer."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.api import batcher as batcher_module
from manyhands.api.batcher import MAX_IN_FLIGHT, Batcher, BatchRules, push_jobs
from manyhands.api.problems import Problem
from manyhands.shared.errors import (
    ConnectionLost,
    FaktoryError,
    NotSent,
    ProtocolError,
    ServerError,
)
from tests.support.virtual_time import run_in_virtual_time, turns
from tests.unit.api.fake_broker import FakeBroker, a_job

RULES = BatchRules(max_size=100, max_delay_s=0.05)


class Figures:
    def __init__(self) -> None:
        self.told: list[tuple[int, float, float]] = []

    def batch_pushed(self, size: int, waited_s: float, took_s: float) -> None:
        self.told.append((size, waited_s, took_s))


class Bench:
    """A batcher with a broker that the test answers for. Made inside the loop."""

    def __init__(self, rules: BatchRules = RULES) -> None:
        self.broker = FakeBroker()
        self.figures = Figures()
        self.batcher = Batcher(self.broker, rules, self.figures)
        self._number = 0

    def request(self, size_bytes: int = 0) -> asyncio.Task[None]:
        self._number += 1
        return asyncio.ensure_future(self.batcher.push(a_job(self._number, size_bytes)))

    async def requests(self, count: int) -> list[asyncio.Task[None]]:
        started = [self.request() for _ in range(count)]
        await turns()
        return started

    async def answer(self, number: int = -1) -> None:
        self.broker.pushes[number].succeed()
        await turns()


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_in_virtual_time(test())

    run.__name__ = test.__name__
    return run


async def problem_of(request: asyncio.Task[None]) -> Problem:
    with pytest.raises(Problem) as caught:
        await request
    return caught.value


# The rules


@given(
    max_size=st.integers(1, 1000),
    waiting=st.integers(0, 3000),
    oldest_waits_s=st.floats(0, 1),
    in_flight=st.integers(0, MAX_IN_FLIGHT + 1),
)
def test_a_batch_leaves_when_it_is_full_or_old_or_alone(
    max_size, waiting, oldest_waits_s, in_flight
):
    size = BatchRules(max_size, 0.05).next_size(waiting, oldest_waits_s, in_flight)
    has_room = in_flight < MAX_IN_FLIGHT
    is_due = waiting >= max_size or in_flight == 0 or oldest_waits_s >= 0.05
    assert size == (min(waiting, max_size) if has_room and is_due else 0)


# When batches leave


@in_virtual_time
async def test_a_lone_request_leaves_at_once_and_is_answered_with_the_broker():
    bench = Bench()
    (request,) = await bench.requests(1)
    assert bench.broker.sizes == [1]
    assert asyncio.get_running_loop().time() == 0
    assert not request.done()
    await bench.answer()
    assert request.done()
    await request


@in_virtual_time
async def test_what_came_in_together_goes_out_together():
    bench = Bench()
    await bench.requests(40)
    assert bench.broker.sizes == [40]


@in_virtual_time
async def test_while_a_batch_is_under_way_the_next_one_gathers_and_leaves_with_its_answer():
    bench = Bench()
    await bench.requests(1)
    await bench.requests(3)
    await bench.requests(4)
    assert bench.broker.sizes == [1]
    await bench.answer()
    assert bench.broker.sizes == [1, 7]
    assert asyncio.get_running_loop().time() == 0


@in_virtual_time
async def test_no_job_waits_longer_than_the_delay_for_a_slow_answer():
    bench = Bench()
    await bench.requests(1)
    await asyncio.sleep(0.01)
    await bench.requests(2)
    await asyncio.sleep(0.03)
    await bench.requests(3)
    await asyncio.sleep(0.0199)
    assert bench.broker.sizes == [1]
    await asyncio.sleep(0.0002)
    assert bench.broker.sizes == [1, 5]


@in_virtual_time
async def test_a_full_batch_does_not_wait():
    bench = Bench()
    await bench.requests(1)
    await bench.requests(99)
    assert bench.broker.sizes == [1]
    await bench.requests(1)
    assert bench.broker.sizes == [1, 100]


@in_virtual_time
async def test_a_crowd_leaves_in_full_batches_and_the_rest_waits_its_turn():
    bench = Bench()
    await bench.requests(250)
    assert bench.broker.sizes == [100, 100]
    await asyncio.sleep(0.06)
    assert bench.broker.sizes == [100, 100, 50]


@in_virtual_time
async def test_several_batches_are_under_way_and_no_more_than_allowed():
    bench = Bench()
    await bench.requests(100 * (MAX_IN_FLIGHT + 3))
    await asyncio.sleep(10)
    assert bench.broker.sizes == [100] * MAX_IN_FLIGHT
    await bench.answer(0)
    assert bench.broker.sizes == [100] * (MAX_IN_FLIGHT + 1)
    assert bench.broker.most_under_way == MAX_IN_FLIGHT


@in_virtual_time
async def test_switched_off_every_job_is_pushed_by_itself():
    bench = Bench(BatchRules(max_size=1, max_delay_s=0.05))
    requests = await bench.requests(3)
    assert bench.broker.sizes == [1, 1, 1]
    for number in range(3):
        await bench.answer(number)
    await asyncio.gather(*requests)


@in_virtual_time
async def test_without_a_delay_nothing_waits_for_an_answer():
    bench = Bench(BatchRules(max_size=100, max_delay_s=0.0))
    await bench.requests(1)
    await bench.requests(1)
    await asyncio.sleep(0.001)
    assert bench.broker.sizes == [1, 1]


@in_virtual_time
async def test_large_jobs_leave_before_the_batch_is_full():
    bench = Bench()
    half = batcher_module.MAX_BATCH_BYTES // 2
    requests = [bench.request(half) for _ in range(5)]
    await turns()
    await asyncio.sleep(0.2)
    assert bench.broker.sizes == [2, 2, 1]
    for number in range(3):
        await bench.answer(number)
    await asyncio.gather(*requests)


@in_virtual_time
async def test_jobs_leave_in_the_order_in_which_they_came():
    bench = Bench()
    await bench.requests(350)
    await asyncio.sleep(1)
    assert bench.broker.jids == sorted(bench.broker.jids)
    assert len(bench.broker.jids) == 350


# Answers


@in_virtual_time
async def test_a_job_that_the_broker_refuses_fails_its_own_request_only():
    bench = Bench()
    requests = await bench.requests(3)
    refused = bench.broker.jids[1]
    bench.broker.pushes[0].succeed(**{refused: "jobs must be in order"})
    await asyncio.gather(requests[0], requests[2])
    problem = await problem_of(requests[1])
    assert (problem.status, problem.more) == (422, {"jid": refused})
    assert "in order" in problem.detail


@pytest.mark.parametrize(
    ("error", "more", "says"),
    [
        (ConnectionLost("closed by the server"), "unknown", "may be queued or not"),
        (ProtocolError("an answer to nothing"), "unknown", "may be queued or not"),
        (NotSent("no connection"), None, "was not queued"),
        (ServerError("ERR", "the disk is full"), None, "the disk is full"),
    ],
)
def test_a_batch_that_fails_is_a_503_that_says_whether_the_outcome_is_known(error, more, says):
    async def check() -> None:
        bench = Bench()
        requests = await bench.requests(2)
        bench.broker.pushes[0].fail(error)
        for request, jid in zip(requests, bench.broker.jids, strict=True):
            problem = await problem_of(request)
            assert (problem.status, problem.more.get("outcome")) == (503, more)
            assert problem.retry_after_s is not None
            assert says in problem.detail
            assert problem.more.get("jid") == (jid if more else None)
        assert bench.batcher.held_jobs == 0

    run_in_virtual_time(check())


@in_virtual_time
async def test_a_failed_batch_fails_no_other():
    bench = Bench()
    first = await bench.requests(100)
    second = await bench.requests(100)
    bench.broker.pushes[0].fail(ConnectionLost("gone"))
    await bench.answer(1)
    await asyncio.gather(*second)
    assert [(await problem_of(request)).status for request in first] == [503] * 100


@in_virtual_time
async def test_a_mistake_of_ours_leaves_nobody_waiting():
    bench = Bench()
    (request,) = await bench.requests(1)
    bench.broker.pushes[0].fail(ZeroDivisionError())
    problem = await problem_of(request)
    assert (problem.status, problem.more["outcome"]) == (503, "unknown")
    assert bench.batcher.held_jobs == 0
    (again,) = await bench.requests(1)
    await bench.answer()
    await again


@in_virtual_time
async def test_a_client_that_goes_away_takes_no_one_with_it():
    bench = Bench()
    gone, stays = await bench.requests(2)
    gone.cancel()
    await turns()
    await bench.answer()
    await stays
    assert gone.cancelled()
    assert bench.batcher.held_jobs == 0


@in_virtual_time
async def test_a_client_that_goes_away_before_its_batch_leaves_is_pushed_all_the_same():
    bench = Bench()
    await bench.requests(1)
    (gone,) = await bench.requests(1)
    gone.cancel()
    await turns()
    await bench.answer()
    assert bench.broker.sizes == [1, 1]
    await bench.answer()
    assert bench.batcher.held_jobs == 0


@in_virtual_time
async def test_figures_tell_size_wait_and_time_of_each_batch():
    bench = Bench()
    await bench.requests(1)
    await bench.requests(3)
    await asyncio.sleep(0.08)
    await bench.answer(1)
    await bench.answer(0)
    assert [size for size, _, _ in bench.figures.told] == [3, 1]
    (_, waited_s, took_s), (_, lone_waited_s, lone_took_s) = bench.figures.told
    assert waited_s == pytest.approx(0.05)
    assert took_s == pytest.approx(0.03)
    assert lone_waited_s == pytest.approx(0.0)
    assert lone_took_s == pytest.approx(0.08)


# Bounds


@in_virtual_time
async def test_without_a_broker_nothing_is_taken():
    bench = Bench()
    bench.broker.is_up = False
    (request,) = await bench.requests(1)
    problem = await problem_of(request)
    assert (problem.status, problem.retry_after_s) == (503, 2)
    assert "outcome" not in problem.more
    assert bench.broker.pushes == []


def test_with_too_many_jobs_in_hand_clients_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(batcher_module, "MAX_HELD_JOBS", 10)

    async def check() -> None:
        bench = Bench()
        taken = await bench.requests(10)
        (refused,) = await bench.requests(1)
        problem = await problem_of(refused)
        assert (problem.status, problem.retry_after_s) == (429, 1)
        assert bench.batcher.held_jobs == 10
        await bench.answer()
        await asyncio.gather(*taken)
        (again,) = await bench.requests(1)
        await bench.answer()
        await again

    run_in_virtual_time(check())


def test_with_too_many_bytes_in_hand_clients_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(batcher_module, "MAX_HELD_BYTES", 1000)

    async def check() -> None:
        bench = Bench()
        taken = bench.request(1000)
        await turns()
        problem = await problem_of(bench.request())
        assert problem.status == 429
        await bench.answer()
        await taken
        again = bench.request()
        await turns()
        await bench.answer()
        await again

    run_in_virtual_time(check())


async def test_one_pushb_of_jobs_gives_the_problem_of_each_that_is_not_stored():
    broker = FakeBroker()
    jobs = [a_job(number) for number in range(3)]
    pushing = asyncio.ensure_future(push_jobs(broker, jobs))
    await turns()
    broker.pushes[0].succeed(
        **{jobs[1].jid: "jobs cannot be so", jobs[2].jid: "redis: client is closed"}
    )
    assert {jid: problem.status for jid, problem in (await pushing).items()} == {
        jobs[1].jid: 422,
        jobs[2].jid: 503,
    }


# All of it together

FATES: tuple[type[FaktoryError] | None, ...] = (None, None, ConnectionLost, NotSent)


@settings(max_examples=50)
@given(
    arrivals=st.lists(st.tuples(st.floats(0, 0.2), st.integers(1, 40)), max_size=30),
    fates=st.lists(st.tuples(st.floats(0, 0.3), st.sampled_from(FATES)), min_size=1, max_size=30),
    max_size=st.integers(1, 50),
)
def test_every_job_is_pushed_once_and_every_request_gets_the_fate_of_its_batch(
    arrivals, fates, max_size
):
    async def check() -> None:
        bench = Bench(BatchRules(max_size, 0.05))
        requests: list[asyncio.Task[None]] = []

        async def arrive() -> None:
            for pause_s, number in arrivals:
                await asyncio.sleep(pause_s)
                requests.extend(bench.request() for _ in range(number))

        async def answer_all() -> None:
            for takes_s, fate in cycle(fates):
                push = await bench.broker.received.get()
                await asyncio.sleep(takes_s)
                push.fail(fate("gone")) if fate else push.succeed()

        answering = asyncio.ensure_future(answer_all())
        await arrive()
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        answering.cancel()
        assert bench.broker.jids == [f"job-{number:08}" for number in range(1, len(requests) + 1)]
        assert all(0 < size <= max_size for size in bench.broker.sizes)
        assert bench.broker.most_under_way <= MAX_IN_FLIGHT
        assert bench.batcher.held_jobs == 0
        expected = [
            fates[number % len(fates)][1]
            for number, push in enumerate(bench.broker.pushes)
            for _ in push.jobs
        ]
        for outcome, fate in zip(outcomes, expected, strict=True):
            if fate is None:
                assert outcome is None
            else:
                assert isinstance(outcome, Problem)
                assert ("outcome" in outcome.more) == (fate is ConnectionLost)

    run_in_virtual_time(check())

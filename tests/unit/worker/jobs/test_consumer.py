"""Jobs in hand: started once, ended in time, and put back in order when the worker stops."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from manyhands.worker.jobs import consumer as consumer_module
from manyhands.worker.jobs.consumer import LEAST_TIME_S, Consumer
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.outcomes import Done, Failed, PutBack, Retry
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.service.held_jobs import HeldJobs
from manyhands.worker.testing import MemorySource, make_delivery
from tests.support.scripted_server import eventually


class Works:
    """A consumer with handlers `wait` (until released or cancelled), `stubborn`, `retry`."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.source = MemorySource()
        self.release = asyncio.Event()
        self.started: list[str] = []
        registry = Registry()
        self.held = HeldJobs()
        execution = Execution(self.source, registry, [], threads, held=self.held)
        self.consumer = Consumer(self.source, execution, slots=9, held=self.held)

        @registry.job("wait")
        async def wait(name: str) -> None:
            self.started.append(name)
            await self.release.wait()

        @registry.job("retry")
        async def retry(name: str) -> None:
            raise Retry(1, name)

        @registry.job("stubborn")
        async def stubborn(name: str) -> None:
            self.started.append(name)
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    self.started.append(f"{name} stays")

    def deliver(self, name: str, jobtype: str = "wait", **fields):
        delivery = make_delivery(jobtype, [name], **({"jid": f"job-{name}"} | fields))
        self.consumer.deliver(delivery)
        return delivery

    def outcome_types(self, jid: str) -> list[type]:
        return [type(outcome) for outcome in self.source.outcomes(jid)]

    async def nothing_in_hand(self) -> None:
        await eventually(lambda: not self.consumer.in_hand)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.fixture
async def works(threads, monkeypatch) -> Works:
    monkeypatch.setattr(consumer_module, "CANCEL_GRACE_S", 0.02)
    monkeypatch.setattr(consumer_module, "DEADLINE_CHECK_S", 0.001)
    return Works(threads)


def soon() -> float:
    return asyncio.get_running_loop().time() + 0.02


def much_later() -> float:
    return asyncio.get_running_loop().time() + 100


async def at_once() -> None:
    """Nothing is outstanding."""


async def test_a_delivered_job_runs_and_frees_its_slot(works):
    delivery = works.deliver("a")
    assert works.consumer.in_hand == {delivery.id: delivery}
    works.release.set()
    await works.nothing_in_hand()
    assert works.outcome_types(delivery.jid) == [Done]
    assert works.source.ended == [delivery]


async def test_many_jobs_run_at_the_same_time(works):
    deliveries = [works.deliver(f"{number:08}") for number in range(200)]
    await eventually(lambda: len(works.started) == 200)
    works.release.set()
    await works.nothing_in_hand()
    assert sorted(one.jid for one in works.source.ended) == sorted(one.jid for one in deliveries)
    assert all(works.outcome_types(one.jid) == [Done] for one in deliveries)


async def test_a_copy_of_a_job_in_hand_is_not_started_and_goes_with_the_first(works):
    identity = {"mh": {"id": "same", "deliveries": 0}}
    first = works.deliver("first", custom=identity)
    copy = works.deliver("copy", custom=identity)
    another = works.deliver("another", custom=identity)
    await eventually(lambda: works.started)
    assert works.source.ended == [copy, another]
    works.release.set()
    await works.nothing_in_hand()
    assert works.started == ["first"]
    assert works.consumer.copies_seen == 2
    assert works.source.settled[0][0] is first
    assert first.copies == [copy, another]
    assert works.outcome_types(first.jid) == [Done]
    assert works.outcome_types(copy.jid) == []
    assert works.source.ended == [copy, another, first]


async def test_the_same_delivery_again_is_answered_by_the_first_alone(works):
    first = works.deliver("a")
    again = works.deliver("a")
    works.release.set()
    await works.nothing_in_hand()
    assert first.copies is None
    assert works.source.ended == [again, first]
    assert works.outcome_types(first.jid) == [Done]


async def test_a_job_may_come_again_once_it_has_ended(works):
    works.release.set()
    works.deliver("a")
    await works.nothing_in_hand()
    works.deliver("a")
    await works.nothing_in_hand()
    assert works.started == ["a", "a"]


async def test_a_job_with_too_little_time_left_is_put_back_and_not_started(works):
    now = asyncio.get_running_loop().time()
    late = works.deliver("late", reserve_for=60, reserved_after=now - 54 + LEAST_TIME_S - 0.1)
    assert works.consumer.in_hand == {}
    await eventually(lambda: works.source.ended)
    assert works.outcome_types(late.jid) == [PutBack]
    assert works.started == []
    fine = works.deliver("fine", reserve_for=60, reserved_after=now - 54 + LEAST_TIME_S + 5)
    assert works.consumer.in_hand == {fine.id: fine}
    works.release.set()
    await works.nothing_in_hand()


async def test_a_job_that_runs_into_its_deadline_is_cancelled_and_failed(works):
    watching = asyncio.create_task(works.consumer.watch_deadlines())
    delivery = works.deliver("slow")
    other = works.deliver("other")
    await eventually(lambda: len(works.started) == 2)
    delivery.deadline = asyncio.get_running_loop().time() - 1
    await eventually(lambda: delivery.id not in works.consumer.in_hand)
    (outcome,) = works.source.outcomes(delivery.jid)
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "TimeoutError"
    assert list(works.consumer.in_hand) == [other.id]
    watching.cancel()
    works.release.set()
    await works.nothing_in_hand()


async def test_an_overdue_job_is_cancelled_once(works):
    watching = asyncio.create_task(works.consumer.watch_deadlines())
    delivery = works.deliver("slow", "stubborn")
    await eventually(lambda: works.started)
    delivery.deadline = asyncio.get_running_loop().time() - 1
    await eventually(lambda: len(works.started) == 2)
    for _ in range(5):
        await asyncio.sleep(0.002)
    assert works.started == ["slow", "slow stays"]
    watching.cancel()
    works.release.set()
    await works.nothing_in_hand()
    assert len(works.outcome_types(delivery.jid)) == 1


async def test_a_stop_with_empty_hands_ends_when_the_source_is_drained(works):
    drained = asyncio.Event()

    async def until_drained() -> None:
        await drained.wait()

    stopping = asyncio.create_task(works.consumer.stop(until_drained, much_later()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not stopping.done()
    drained.set()
    await stopping


async def test_a_stop_lets_running_jobs_finish(works):
    delivery = works.deliver("a")
    stopping = asyncio.create_task(works.consumer.stop(at_once, much_later()))
    await eventually(lambda: works.started)
    assert not stopping.done()
    works.release.set()
    await stopping
    assert works.outcome_types(delivery.jid) == [Done]


async def test_a_stop_puts_back_what_does_not_finish_in_time(works):
    deliveries = [works.deliver(name) for name in ("aaaa", "bbbb")]
    await eventually(lambda: len(works.started) == 2)
    await works.consumer.stop(at_once, soon())
    assert [works.outcome_types(one.jid) for one in deliveries] == [[PutBack], [PutBack]]
    assert works.consumer.in_hand == {}
    assert len(works.source.queued_again) == 2


async def test_jobs_that_arrive_during_a_stop_are_put_back_only_when_no_more_can_come(works):
    drained = asyncio.Event()

    async def until_drained() -> None:
        await drained.wait()

    stopping = asyncio.create_task(works.consumer.stop(until_drained, much_later()))
    await asyncio.sleep(0)
    works.deliver("late-1")
    works.deliver("late-2")
    for _ in range(5):
        await asyncio.sleep(0)
    assert works.started == []
    assert works.source.events == []
    drained.set()
    await stopping
    assert works.source.put_back_jids == ["job-late-1", "job-late-2"]
    assert works.source.settled == []


async def test_a_copy_that_arrives_during_a_stop_still_goes_with_the_first(works):
    identity = {"mh": {"id": "same", "deliveries": 0}}
    first = works.deliver("first", custom=identity)
    stopping = asyncio.create_task(works.consumer.stop(at_once, much_later()))
    await eventually(lambda: works.started)
    copy = works.deliver("copy", custom=identity)
    works.release.set()
    await stopping
    assert first.copies == [copy]
    assert works.source.put_back_jids == []


async def test_a_handler_that_swallows_its_cancellation_is_put_back_once_all_the_same(works):
    delivery = works.deliver("a", "stubborn")
    await eventually(lambda: works.started)
    await works.consumer.stop(at_once, soon())
    assert works.started == ["a", "a stays"]
    assert works.outcome_types(delivery.jid) == [PutBack]
    works.release.set()
    await works.nothing_in_hand()
    assert works.outcome_types(delivery.jid) == [PutBack]
    assert works.source.ended == [delivery]


async def test_handlers_that_swallow_their_cancellation_are_put_back_all_at_the_same_time(works):
    """One after the other, thousands would not be done in time."""
    works.source.settle_gate.clear()
    deliveries = [works.deliver(f"{number}", "stubborn") for number in range(3)]
    await eventually(lambda: len(works.started) == 3)
    stopping = asyncio.create_task(works.consumer.stop(at_once, soon()))
    await eventually(lambda: all(delivery.is_settled for delivery in deliveries))
    works.source.settle_gate.set()
    await stopping
    assert [works.outcome_types(delivery.jid) for delivery in deliveries] == [[PutBack]] * 3
    works.release.set()
    await works.nothing_in_hand()


async def test_a_second_signal_ends_the_waiting_for_handlers(works):
    delivery = works.deliver("a")
    stopping = asyncio.create_task(works.consumer.stop(at_once, much_later()))
    await eventually(lambda: works.started)
    works.consumer.stop_now()
    await stopping
    assert works.outcome_types(delivery.jid) == [PutBack]


async def test_a_stop_waits_for_jobs_that_are_being_put_back(works):
    now = asyncio.get_running_loop().time()
    works.source.settle_gate.clear()
    late = works.deliver("late", reserve_for=60, reserved_after=now - 54)
    stopping = asyncio.create_task(works.consumer.stop(at_once, soon()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    works.source.settle_gate.set()
    await stopping
    assert works.outcome_types(late.jid) == [PutBack]


async def test_a_retry_that_is_being_queued_when_the_stop_comes_is_not_forgotten(works):
    works.source.settle_gate.clear()
    delivery = works.deliver("a", "retry")
    await eventually(lambda: delivery.is_settled)
    stopping = asyncio.create_task(works.consumer.stop(at_once, soon() - 0.02))
    for _ in range(5):
        await asyncio.sleep(0.001)
    works.source.settle_gate.set()
    await stopping
    assert works.outcome_types(delivery.jid) == [Retry]
    assert len(works.source.queued_again) == 1


# Jobs that are put back when the process dies


async def test_only_jobs_without_retries_are_kept_for_the_supervisor(works: Works):
    works.deliver("a", retry=0)
    works.deliver("b", retry=3)
    works.deliver("c")
    assert [orjson.loads(job.payload)["jid"] for job in works.held.read()] == ["job-a"]
    works.release.set()
    await works.nothing_in_hand()
    assert works.held.read() == []


@pytest.mark.parametrize(("deaths", "together"), [(1, 3), (2, 1), (7, 1)])
async def test_jobs_that_may_have_ended_a_process_run_few_at_a_time(
    works: Works, deaths: int, together: int
):
    for name in "abcde":
        works.deliver(name, retry=0, custom={"mh": {"deaths": deaths}})
    works.deliver("other")
    await eventually(lambda: len(works.started) == together + 1)
    assert sum(job.was_started for job in works.held.read()) == together
    works.release.set()
    await works.nothing_in_hand()
    assert sorted(works.started) == [*"abcde", "other"]


async def test_a_job_that_waits_its_turn_is_put_back_by_a_stop(works: Works):
    for name in "ab":
        works.deliver(name, retry=0, custom={"mh": {"deaths": 2}})
    await eventually(lambda: works.started == ["a"])
    works.consumer.stop_now()
    await works.nothing_in_hand()
    assert works.outcome_types("job-b") == [PutBack]
    assert (works.started, works.held.read()) == (["a"], [])

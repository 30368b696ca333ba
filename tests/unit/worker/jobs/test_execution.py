"""The life of a job: every path through run_one ends in exactly one settlement."""

import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, NoReturn

import pytest
import structlog

from manyhands.shared.errors import ServerError
from manyhands.shared.jobs import Job, utc_now
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.outcomes import Dead, Defer, Done, Drop, Failed, Outcome, PutBack, Retry
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.records import Record
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from manyhands.worker.testing import MemorySinks, MemorySource, make_delivery
from tests.support.scripted_server import eventually

UNTIL = datetime(2027, 1, 1, tzinfo=UTC)


class Observer:
    """A middleware that remembers."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[tuple[str, Outcome, float]] = []

    def job_started(self, delivery: Delivery) -> None:
        self.started.append(delivery.jid)

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        self.ended.append((delivery.jid, outcome, took_s))


class LoggedSinks(MemorySinks):
    def __init__(self, source: MemorySource) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.is_up = asyncio.Event()
        self.is_up.set()
        self._source = source

    async def room(self) -> None:
        await self.has_room.wait()

    async def write(self, records: Sequence[Record]) -> None:
        await self.is_up.wait()
        if self.error is not None:
            raise self.error
        await super().write(records)
        self._source.events += [f"wrote {record}" for record in self.records]


@dataclass
class Bench:
    """One execution with everything around it."""

    source: MemorySource
    registry: Registry
    observer: Observer
    execution: Execution
    freed: list[Delivery]

    async def run(self, args: Sequence[Any] = (), jobtype: str = "job", **fields: Any) -> Outcome:
        """Run one job to its end; the one outcome that it was settled with."""
        delivery = make_delivery(jobtype, args, **fields)
        await asyncio.create_task(self.execution.run_one(delivery, self.freed.append))
        return self.outcome(delivery)

    def outcome(self, delivery: Delivery) -> Outcome:
        (outcome,) = self.source.outcomes(delivery.jid)
        assert delivery.is_settled
        assert self.freed == [delivery]
        assert self.observer.started == [delivery.jid]
        assert [(jid, told) for jid, told, _ in self.observer.ended] == [(delivery.jid, outcome)]
        return outcome

    def start(self, *args: Any) -> tuple[Delivery, asyncio.Task[None]]:
        delivery = make_delivery("job", args)
        task = asyncio.create_task(self.execution.run_one(delivery, self.freed.append))
        delivery.task = task
        return delivery, task


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2, thread_name_prefix="handler") as pool:
        yield pool


def make_bench(
    threads: ThreadPoolExecutor, sink: LoggedSinks | None, source: MemorySource
) -> Bench:
    registry, observer = Registry(), Observer()
    execution = Execution(source, registry, [observer], threads, sink)
    return Bench(source, registry, observer, execution, [])


@pytest.fixture
async def bench(threads) -> Bench:
    return make_bench(threads, None, MemorySource())


@pytest.fixture
async def sink_and_bench(threads) -> tuple[LoggedSinks, Bench]:
    source = MemorySource()
    sink = LoggedSinks(source)
    return sink, make_bench(threads, sink, source)


async def test_a_handler_that_returns_is_done(bench: Bench):
    seen = []

    @bench.registry.job("job")
    async def handler(a: int, b: int = 5):
        seen.append((a, b))

    assert isinstance(await bench.run(["3"]), Done)
    assert seen == [(3, 5)]
    assert bench.source.queued_again == []


@pytest.mark.parametrize("raised", [Retry(5), Defer(UNTIL), Drop("nothing to do"), Dead("never")])
@pytest.mark.parametrize("is_async", [True, False])
async def test_an_outcome_that_a_handler_raises_is_the_one_reported(bench: Bench, raised, is_async):
    def plain() -> NoReturn:
        raise raised

    async def coroutine() -> NoReturn:
        raise raised

    bench.registry.job("job")(coroutine if is_async else plain)
    assert await bench.run() is raised


async def test_an_exception_fails_the_job_with_its_text_and_place(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        raise ValueError("no good")

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert (outcome.error_type, outcome.message) == ("ValueError", "no good")
    assert any("handler" in line for line in outcome.backtrace)
    assert not any("\n" in line for line in outcome.backtrace)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_wants_to_exit_fails_its_job_only(bench: Bench, is_async):
    def plain() -> NoReturn:
        sys.exit(3)

    async def coroutine() -> NoReturn:
        sys.exit(3)

    bench.registry.job("job")(coroutine if is_async else plain)
    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "SystemExit"


class Unusual(BaseException):
    """As some libraries raise to get past `except Exception`."""


async def test_an_unusual_exception_fails_its_job(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        raise Unusual("let me through")

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "Unusual"


@pytest.mark.parametrize(
    "kind",
    [GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError, Unusual, StopIteration],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_a_handler_raises_fails_its_job_and_frees_the_slot(
    bench: Bench, kind, is_async
):
    def plain() -> NoReturn:
        raise kind

    async def coroutine() -> NoReturn:
        raise kind

    bench.registry.job("job")(coroutine if is_async else plain)
    assert isinstance(await asyncio.wait_for(bench.run(), 10), Failed)
    assert len(bench.freed) == 1


@pytest.mark.parametrize("raised", [None, ValueError, Retry(1)])
async def test_a_handler_that_cancels_its_own_task_leaves_a_settled_job(bench: Bench, raised):
    @bench.registry.job("job")
    async def handler():
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if raised is not None:
            raise raised

    delivery = make_delivery("job", [])
    delivery.task = asyncio.create_task(bench.execution.run_one(delivery, bench.freed.append))
    await asyncio.wait([delivery.task])
    bench.outcome(delivery)
    assert len(bench.freed) == 1
    assert len(bench.source.queued_again) == isinstance(raised, Retry)


@pytest.mark.parametrize("value", [0, object(), ValueError("returned"), asyncio.CancelledError])
async def test_what_a_handler_returns_is_of_no_matter(bench: Bench, value):
    @bench.registry.job("job")
    async def handler():
        return value

    assert isinstance(await bench.run(), Done)


@pytest.mark.parametrize("second", [RuntimeError, KeyboardInterrupt, GeneratorExit])
async def test_an_exception_that_cannot_be_shown_fails_its_job(bench: Bench, second):
    class Shy(Exception):
        def __str__(self) -> str:
            raise second("I do not say")

    @bench.registry.job("job")
    async def handler():
        raise Shy

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "Shy"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_stray_stop_iteration_fails_its_job(bench: Bench, is_async):
    def plain() -> None:
        next(iter(()))

    async def coroutine() -> None:
        next(iter(()))

    bench.registry.job("job")(coroutine if is_async else plain)
    outcome = await asyncio.wait_for(bench.run(), 10)
    assert isinstance(outcome, Failed)
    assert outcome.error_type != "CancelledError", "it ended only because we stopped waiting"


async def test_an_unknown_job_type_fails(bench: Bench):
    outcome = await bench.run(jobtype="nobody-knows")
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "UnknownJobType"
    assert "nobody-knows" in outcome.message


async def test_args_that_do_not_fit_fail_and_the_handler_is_not_called(bench: Bench):
    called = []

    @bench.registry.job("job")
    async def handler(a: int):
        called.append(a)

    outcome = await bench.run(["x"])
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "BadArguments"
    assert called == []


async def test_a_job_out_of_time_fails(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        await asyncio.Event().wait()

    delivery, task = bench.start()
    await asyncio.sleep(0)
    delivery.cancel_reason = "time-out"
    task.cancel()
    await task
    outcome = bench.outcome(delivery)
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "TimeoutError"


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_job_cancelled_by_a_shutdown_is_put_back(bench: Bench, is_async):
    running, release = threading.Event(), threading.Event()

    def plain() -> None:
        running.set()
        release.wait(10)

    async def coroutine() -> None:
        running.set()
        await asyncio.Event().wait()

    bench.registry.job("job")(coroutine if is_async else plain)
    delivery, task = bench.start()
    await eventually(running.is_set)
    delivery.cancel_reason = "shutdown"
    task.cancel()
    await task
    release.set()
    assert isinstance(bench.outcome(delivery), PutBack)
    assert bench.source.queued_again[0]["custom"]["mh"]["id"] == delivery.id


async def test_a_handler_that_cancels_itself_fails(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        raise asyncio.CancelledError

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.error_type == "CancelledError"


async def test_a_handler_that_ends_well_in_spite_of_its_cancellation_is_done(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    delivery, task = bench.start()
    await asyncio.sleep(0)
    delivery.cancel_reason = "shutdown"
    task.cancel()
    await task
    assert isinstance(bench.outcome(delivery), Done)


async def test_a_sync_handler_runs_in_a_thread_and_the_loop_goes_on(bench: Bench):
    names, release = [], threading.Event()

    @bench.registry.job("job")
    def handler():
        names.append(threading.current_thread().name)
        release.wait(10)

    delivery, task = bench.start()
    await eventually(lambda: names)
    release.set()
    await task
    assert isinstance(bench.outcome(delivery), Done)
    assert names[0].startswith("handler")


async def test_a_wrapped_coroutine_is_never_done_without_having_run(bench: Bench):
    ran = []

    async def handler() -> None:
        ran.append(True)

    @bench.registry.job("job")
    @wraps(handler)
    def wrapper():
        return handler()

    outcome = await bench.run()
    assert ran or not isinstance(outcome, Done)


async def test_records_are_durable_before_children_are_queued_before_the_job_is_settled(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sink, bench = sink_and_bench

    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        ctx.push(Job(jobtype="child", args=[], jid="child-01"))
        ctx.emit("record")
        ctx.push(Job(jobtype="child", args=[], jid="child-02"))
        assert bench.source.events == []

    assert isinstance(await bench.run(), Done)
    assert bench.source.events == [
        "slot free job-00000001",
        "wrote record",
        "pushed child-01",
        "pushed child-02",
        "settled job-00000001",
    ]
    assert sink.records == ["record"]


async def test_a_failed_job_leaves_neither_records_nor_children(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sink, bench = sink_and_bench

    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        ctx.push(Job(jobtype="child", args=[]))
        ctx.emit("record")
        raise ValueError

    assert isinstance(await bench.run(), Failed)
    assert (sink.records, bench.source.pushed) == ([], [])


async def test_records_that_a_sink_refuses_fail_the_job_and_no_children_are_queued(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sink, bench = sink_and_bench
    sink.error = RecordsRefused({0: "not JSON"})
    emitting(bench)
    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.message == "not JSON"
    assert bench.source.pushed == []


async def test_a_job_that_waits_for_its_records_holds_no_slot(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sinks, bench = sink_and_bench
    sinks.is_up.clear()
    emitting(bench)
    delivery = make_delivery("job")
    task = asyncio.create_task(bench.execution.run_one(delivery, bench.freed.append))
    await eventually(lambda: "slot free job-00000001" in bench.source.events)
    assert not bench.source.settled
    sinks.is_up.set()
    await task
    assert isinstance(bench.outcome(delivery), Done)


async def test_a_job_whose_records_find_no_room_keeps_its_slot(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sinks, bench = sink_and_bench
    sinks.has_room.clear()
    emitting(bench)
    delivery = make_delivery("job")
    task = asyncio.create_task(bench.execution.run_one(delivery, bench.freed.append))
    await eventually(lambda: delivery.is_handled)
    assert bench.source.events == []
    sinks.has_room.set()
    await task
    assert bench.source.events[0] == "slot free job-00000001"


@pytest.mark.parametrize("reason", ["time-out", "shutdown"])
async def test_a_job_that_waited_for_its_sinks_too_long_is_put_back(
    sink_and_bench: tuple[LoggedSinks, Bench], reason: str
):
    sinks, bench = sink_and_bench
    sinks.is_up.clear()
    emitting(bench)
    delivery = make_delivery("job")
    task = asyncio.create_task(bench.execution.run_one(delivery, bench.freed.append))
    await eventually(lambda: delivery.is_handled)
    delivery.cancel_reason = reason
    task.cancel()
    await task
    assert isinstance(bench.outcome(delivery), PutBack)
    assert bench.source.pushed == []


async def test_a_job_is_put_back_when_its_sink_is_down_and_we_stop(
    sink_and_bench: tuple[LoggedSinks, Bench],
):
    sinks, bench = sink_and_bench
    sinks.error = SinkDown("the database is not there")
    emitting(bench)
    assert isinstance(await bench.run(), PutBack)


def emitting(bench: Bench) -> None:
    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        ctx.push(Job(jobtype="child", args=[]))
        ctx.emit("record")


async def test_children_that_cannot_be_queued_fail_the_job(bench: Bench):
    bench.source.push_error = ServerError("ERR", "refused")

    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        ctx.push(Job(jobtype="child", args=[]))

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert "refused" in outcome.message


async def test_a_record_without_a_sink_fails_the_job(bench: Bench):
    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        ctx.emit("record")

    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert "no sink" in outcome.message


async def test_a_handler_knows_its_job(bench: Bench):
    seen = []

    @bench.registry.job("job")
    async def handler(ctx: JobContext):
        seen.append((ctx.id, ctx.jid, ctx.deliveries, ctx.deadline))

    before = asyncio.get_running_loop().time()
    await bench.run(custom={"mh": {"id": "first", "deliveries": 2}}, reserve_for=600)
    ((identity, jid, deliveries, deadline),) = seen
    assert (identity, jid, deliveries) == ("first", "job-00000001", 3)
    assert before < deadline < before + 600


async def test_a_middleware_that_fails_at_the_start_fails_the_job(threads):
    class Broken(Observer):
        def job_started(self, delivery: Delivery) -> None:
            super().job_started(delivery)
            raise RuntimeError("broken")

    source, registry, observer = MemorySource(), Registry(), Broken()
    registry.job("job")(lambda: None)
    execution = Execution(source, registry, [observer], threads)
    bench = Bench(source, registry, observer, execution, [])
    outcome = await bench.run()
    assert isinstance(outcome, Failed)
    assert outcome.message == "broken"


async def test_a_moment_without_a_zone_fails_the_job_that_wants_to_wait_for_it(bench: Bench):
    @bench.registry.job("job")
    async def handler():
        raise Defer(datetime(2027, 1, 1))

    assert isinstance(await bench.run(), Failed)


@pytest.mark.parametrize("after_s", [float("inf"), float("nan"), 1e18])
async def test_a_delay_that_is_no_time_fails_the_job_that_asks_for_it(bench: Bench, after_s):
    @bench.registry.job("job")
    async def handler():
        raise Retry(after_s)

    assert isinstance(await bench.run(), Failed)


async def test_a_settled_job_is_not_settled_again(bench: Bench):
    delivery = make_delivery("job")
    await bench.execution.settle(delivery, PutBack(), 0.0)
    await bench.execution.settle(delivery, Done(), 0.0)
    assert [type(outcome) for outcome in bench.source.outcomes(delivery.jid)] == [PutBack]
    assert len(bench.observer.ended) == 1


async def test_the_slot_is_freed_only_after_the_job_is_settled(bench: Bench):
    bench.registry.job("job")(lambda: None)
    bench.source.settle_gate.clear()
    delivery, task = bench.start()
    await eventually(lambda: delivery.is_settled)
    assert bench.freed == []
    bench.source.settle_gate.set()
    await task
    assert bench.freed == [delivery]


async def test_the_slot_is_freed_even_if_the_outcome_cannot_be_reported(bench: Bench, monkeypatch):
    bench.registry.job("job")(lambda: None)

    async def refuse(delivery: Delivery, outcome: Outcome) -> None:
        raise ServerError("ERR", "not now")

    monkeypatch.setattr(bench.source, "settle", refuse)
    delivery, task = bench.start()
    with pytest.raises(ServerError):
        await task
    assert bench.freed == [delivery]


@pytest.mark.parametrize(("known", "sent"), [(1, 1), (2, 1), (2, 2)])
async def test_a_handler_gets_every_version_up_to_its_own(bench: Bench, known, sent):
    seen = []

    @bench.registry.job("job", version=known)
    async def handler(ctx: JobContext):
        seen.append(ctx.version)

    assert isinstance(await bench.run(custom={"mh": {"v": sent}}), Done)
    assert seen == [sent]


@pytest.mark.parametrize(("deliveries", "after_s"), [(1, 1), (2, 2), (500, 30)])
async def test_a_job_that_is_too_new_is_left_to_another_worker(bench: Bench, deliveries, after_s):
    @bench.registry.job("job", version=2)
    async def handler(new_kind_of_argument: str):
        raise AssertionError("it was called")

    before = utc_now()
    identity = {"id": "first", "deliveries": deliveries - 1, "v": 3}
    outcome = await bench.run([{"not": "a string"}], custom={"mh": identity}, retry=0)

    assert isinstance(outcome, Defer)
    assert 0 <= (outcome.until - before).total_seconds() - after_s < 5
    (again,) = bench.source.queued_again
    assert again["custom"]["mh"] == identity | {"deliveries": deliveries}
    assert "failure" not in again


async def test_too_new_jobs_are_said_once_for_each_type(bench: Bench):
    for name in ("one", "other"):
        bench.registry.job(name)(lambda: None)
    with structlog.testing.capture_logs() as lines:
        for number, name in enumerate(["one", "one", "other", "one", "other"]):
            delivery = make_delivery(name, jid=f"job-{number:08}", custom={"mh": {"v": 2}})
            await bench.execution.run_one(delivery, bench.freed.append)
    assert [(line["jobtype"], line["version"], line["known"]) for line in lines] == [
        ("one", 2, 1),
        ("other", 2, 1),
    ]

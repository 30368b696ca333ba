"""What developers test their handlers with: it must end a job as the worker would."""

import asyncio
import threading
from datetime import UTC, date, datetime

import pytest

from manyhands.shared.jobs import Job
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.testing import (
    Dead,
    Defer,
    Done,
    Drop,
    Failed,
    JobResult,
    Retry,
    make_delivery,
    run_job,
    run_job_sync,
    set_up,
)

UNTIL = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_a_job_that_returns_leaves_its_records_and_children(registry: Registry):
    @registry.job("job")
    async def handler(day: date, context: JobContext):
        context.emit({"day": day.isoformat()})
        context.push(Job(jobtype="child", args=[day.year], jid="child-01"))

    result = run_job_sync("job", "2026-01-02", registry=registry)
    assert isinstance(result.outcome, Done)
    assert result.records == [{"day": "2026-01-02"}]
    assert [(child.jid, child.args) for child in result.children] == [("child-01", [2026])]
    assert result.queued_again is None


async def test_it_runs_in_the_loop_of_an_async_test(registry: Registry):
    loops = []

    @registry.job("job")
    async def handler():
        loops.append(asyncio.get_running_loop())

    assert isinstance((await run_job("job", registry=registry)).outcome, Done)
    assert loops == [asyncio.get_running_loop()]


def test_a_plain_function_runs_in_a_thread_that_is_gone_afterwards(registry: Registry):
    threads = []
    registry.job("job")(lambda: threads.append(threading.current_thread()))
    assert isinstance(run_job_sync("job", registry=registry).outcome, Done)
    (thread,) = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def run_raising(registry: Registry, raised: BaseException) -> JobResult:
    @registry.job("job")
    async def handler(context: JobContext):
        context.emit("a record")
        context.push(Job(jobtype="child", args=[]))
        raise raised

    return run_job_sync("job", registry=registry)


@pytest.mark.parametrize("raised", [Drop("nothing to do"), Dead("never")])
def test_a_job_that_is_over_leaves_nothing(registry: Registry, raised):
    assert run_raising(registry, raised) == JobResult(raised, [], [], None)


@pytest.mark.parametrize(("raised", "spent"), [(Retry(5), 0), (Defer(UNTIL), None)])
def test_a_job_that_is_to_run_again_is_queued_again(registry: Registry, raised, spent):
    result = run_raising(registry, raised)
    assert (result.outcome, result.records, result.children) == (raised, [], [])
    assert result.queued_again is not None
    assert result.queued_again.get("failure", {}).get("retry_count") == spent
    assert "at" in result.queued_again


@pytest.mark.parametrize("raised", [ValueError("no good"), SystemExit(3)])
def test_an_exception_is_a_failure_and_does_not_end_the_test(registry: Registry, raised):
    result = run_raising(registry, raised)
    assert isinstance(result.outcome, Failed)
    assert result.outcome.error_type == type(raised).__name__
    assert (result.records, result.children) == ([], [])


def test_a_type_without_a_handler_and_arguments_that_do_not_fit_are_failures(registry: Registry):
    @registry.job("job")
    def handler(a: int): ...

    for result in (
        run_job_sync("other", registry=registry),
        run_job_sync("job", "x", registry=registry),
    ):
        assert isinstance(result.outcome, Failed)


@pytest.mark.parametrize(
    "child",
    [
        Job(jobtype="child", args=[object()]),
        Job(jobtype="child", args=[], jid="short"),
        Job(jobtype="child", args=[], queue="no such name"),
    ],
)
def test_a_child_that_no_server_would_take_fails_the_job(registry: Registry, child):
    @registry.job("job")
    async def handler(context: JobContext):
        context.push(child)

    result = run_job_sync("job", registry=registry)
    assert isinstance(result.outcome, Failed)
    assert result.children == []


def test_a_record_that_no_file_could_hold_fails_the_job(registry: Registry):
    @registry.job("job")
    async def handler(context: JobContext):
        context.emit(object())

    assert isinstance(run_job_sync("job", registry=registry).outcome, Failed)


def test_every_run_is_of_the_same_job_unless_it_is_another_delivery(registry: Registry):
    seen = []

    @registry.job("job", version=2)
    async def handler(context: JobContext):
        seen.append((context.id, context.deliveries, context.version))

    run_job_sync("job", registry=registry)
    run_job_sync("job", deliveries=3, version=2, registry=registry)
    assert seen == [(seen[0][0], 1, 1), (seen[0][0], 3, 2)]


def test_a_payload_that_is_too_new_is_put_off(registry: Registry):
    registry.job("job")(lambda: None)
    result = run_job_sync("job", version=2, registry=registry)
    assert isinstance(result.outcome, Defer)
    assert result.queued_again is not None
    assert result.queued_again["custom"]["mh"]["v"] == 2


def test_a_delivery_can_be_made_without_a_loop_if_its_time_is_given():
    assert make_delivery(reserved_after=5.0).reserved_until > 5.0


async def test_hooks_are_called_before_the_first_job_and_not_again(registry: Registry):
    seen: list[str] = []

    @registry.setup
    def hook(process: ProcessSetup) -> None:
        seen.append(f"hook {process.settings.fetch.timeout_s > 0}")

    @registry.job("job")
    async def handler():
        seen.append("job")

    for _ in range(2):
        assert isinstance((await run_job("job", registry=registry)).outcome, Done)
    assert seen == ["hook True", "job", "job"]


async def test_a_test_may_set_up_with_its_own_settings_and_replace_what_was_made(
    registry: Registry,
):
    made: list[object] = []
    registry.setup(lambda process: made.append(process.settings))

    @registry.job("job")
    async def handler():
        return None

    settings = Settings()
    assert set_up(settings, registry).settings is settings
    await run_job("job", registry=registry)
    assert made == [settings]

"""Every way in which a job can end, by `manyhands worker`, as the server's state shows it."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job, new_jid, utc_now
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.ledger import Ledger
from tests.support.raw_client import RawClient
from tests.support.waiting import WITHIN_S, eventually, stays
from tests.support.worker_process import AnyState, WorkerUnderTest

pytestmark = ON_BOTH_SERVERS


@pytest.fixture
def queue() -> str:
    """The same for all tests: they share a worker, and each finds its server empty."""
    return "outcomes"


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ledger]:
    """One for each server, by its URL."""
    directory = tmp_path_factory.mktemp("ledgers")
    return defaultdict(lambda: Ledger(directory / new_jid()))


@pytest.fixture
def ledger(server: AnyServer, ledgers: dict[str, Ledger]) -> Ledger:
    """Without any line of an earlier test."""
    found = ledgers[server.url]
    found.path.unlink(missing_ok=True)
    return found


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartWorker]:
    """The worker of a server, made when it is first asked for: its start is most of a test."""
    directory = tmp_path_factory.mktemp("workers")
    found: dict[str, WorkerUnderTest] = {}

    def worker_of(url: str, ledger: Ledger, queue: str) -> WorkerUnderTest:
        if url not in found:
            number = len(found)
            found[url] = WorkerUnderTest(directory, number, url, ledger, WORKER_QUEUES=queue)
        return found[url]

    yield worker_of
    for worker in found.values():
        worker.clean_up()
        assert "Traceback" not in worker.stderr, worker.stderr


@pytest.fixture
async def worker(
    server: AnyServer, state: AnyState, started: StartWorker, ledger: Ledger, queue: str
) -> WorkerUnderTest:
    """A worker on the queue, ready to take jobs."""
    worker = started(server.url, ledger, queue)
    await worker.ready(state)
    return worker


def has_run(ledger: Ledger, id_: str, deliveries: list[int]) -> bool:
    return [entry.deliveries for entry in ledger.entries if entry.id == id_] == deliveries


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


async def only(jobs: Any, within_s: float = WITHIN_S) -> dict[str, Any]:
    """Wait for a set to hold a job, which must be the only one."""
    held: list[dict[str, Any]] = await eventually(jobs, within_s)
    assert len(held) == 1
    return held[0]


async def assert_settled(state: AnyState, *, processed: int, failures: int) -> None:
    """Nothing is left anywhere, and the server counted so many."""
    await eventually(lambda: state.processed == processed and state.is_empty)
    assert state.failures == failures


async def test_a_worker_announces_how_many_jobs_it_runs_at_a_time(
    worker: WorkerUnderTest, server: AnyServer, queue: str
) -> None:
    service = worker.line("Concurrency: 4 jobs per worker")
    assert service["server"] == server.url
    assert service["processes"] == 1

    child = worker.line("taking jobs")
    assert child["process_id"] == "worker-0"
    assert child["stages"] == {"worker": queue}
    assert "ledger" in child["jobtypes"]


# Done


async def test_a_job_that_returns_is_processed(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    jid = await client.push(Job(jobtype="ledger", args=[7], queue=queue))

    await assert_settled(state, processed=1, failures=0)
    (entry,) = ledger.entries
    assert (entry.id, entry.jid, entry.deliveries, entry.note) == (jid, jid, 1, "7")


async def test_many_jobs_run_once_each(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    jobs = [Job(jobtype="ledger", args=[n], queue=queue) for n in range(300)]
    await client.push_bulk(jobs)

    await assert_settled(state, processed=300, failures=0)
    assert sorted(ledger.notes, key=int) == [str(n) for n in range(300)]
    assert {entry.jid for entry in ledger.entries} == {job.jid for job in jobs}


async def test_a_job_of_another_producer_is_known_by_its_jid(
    worker: WorkerUnderTest, server: AnyServer, state: AnyState, ledger: Ledger, queue: str
) -> None:
    jid = new_jid()
    with RawClient(server.url) as stranger:
        raw = {"jid": jid, "jobtype": "ledger", "args": [1], "queue": queue}
        assert stranger.call("PUSH " + json.dumps(raw)) == "OK"

    await assert_settled(state, processed=1, failures=0)
    assert [(entry.id, entry.deliveries) for entry in ledger.entries] == [(jid, 1)]


@pytest.mark.parametrize("how", ["retry", "defer"])
async def test_a_handler_sees_every_field_of_another_producers_job_each_time_that_it_runs(
    worker: WorkerUnderTest,
    server: AnyServer,
    state: AnyState,
    ledger: Ledger,
    queue: str,
    how: str,
) -> None:
    job = {"jid": new_jid(), "jobtype": "tells", "args": [how], "queue": queue, "retry": 5}
    told = {"custom": {"trace": {"ä": [1, None]}, "locale": "de"}, "backtrace": 7}
    with RawClient(server.url) as stranger:
        assert stranger.call("PUSH " + json.dumps(job | told)) == "OK"

    await eventually(lambda: len(ledger.entries) == 2, 30)
    assert [json.loads(entry.note) for entry in ledger.entries] == [told] * 2
    assert {entry.id for entry in ledger.entries} == {job["jid"]}


async def test_a_plain_function_can_be_a_handler(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="sync_add", args=[40, 2], queue=queue))

    await assert_settled(state, processed=1, failures=0)
    assert ledger.notes == ["42"]


async def test_a_worker_takes_no_more_jobs_than_it_has_slots(
    client: Client,
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
) -> None:
    """One of its own: its slots stay taken."""
    start_worker(server.url, WORKER_QUEUES="slow")
    await client.push_bulk([Job(jobtype="sleepy", args=[60], queue="slow") for _ in range(6)])

    await eventually(lambda: len(ledger.entries) == 4)
    await stays(lambda: len(state.working) == 4 and len(state.queue("slow")) == 2, 2.5)


# Errors


async def test_an_exception_sends_the_job_to_the_retries_with_its_traceback(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    jid = await client.push(Job(jobtype="fails", args=["Grüße: kaputt"], queue=queue, retry=3))

    job = await only(lambda: state.retries)

    assert job["jid"] == jid
    assert job["failure"]["errtype"] == "Broken"
    assert job["failure"]["message"] == "Grüße: kaputt"
    assert job["failure"]["remaining"] == 3
    backtrace = "\n".join(job["failure"]["backtrace"])
    assert "in fails" in backtrace
    assert "raise Broken(message)" in backtrace
    assert state.working == []
    assert state.failures == 1


async def test_an_exception_in_a_job_without_retries_ends_it(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    await client.push(Job(jobtype="fails", args=["once"], queue=queue, retry=0))

    await eventually(lambda: state.failures == 1 and state.is_empty)


async def test_an_unknown_job_type_is_a_failure_that_names_it(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    await client.push(Job(jobtype="nobody.knows.me", args=[], queue=queue))

    failure = (await only(lambda: state.retries))["failure"]

    assert failure["errtype"] == "UnknownJobType"
    assert "nobody.knows.me" in failure["message"]


@pytest.mark.parametrize(
    ("args", "named"),
    [(["not a number"], "n: "), ([], "n: "), ([1, 2], "2 were given"), ([None], "n: ")],
)
async def test_arguments_that_do_not_fit_are_a_failure_that_names_them(
    worker: WorkerUnderTest,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
    args: list[Any],
    named: str,
) -> None:
    await client.push(Job(jobtype="ledger", args=args, queue=queue))

    failure = (await only(lambda: state.retries))["failure"]

    assert failure["errtype"] == "BadArguments"
    assert "ledger" in failure["message"]
    assert named in failure["message"]
    assert ledger.entries == []


# Retry


async def test_retry_schedules_the_job_under_a_fresh_jid_and_spends_a_retry(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    pushed = Job(jobtype="retries", args=[600], queue=queue, retry=3, custom={"mine": "ä"})
    before = utc_now()
    await client.push(pushed)

    job = await only(lambda: state.scheduled)

    assert job["jid"] != pushed.jid
    assert job["custom"]["mh"]["id"] == pushed.jid
    assert job["custom"]["mine"] == "ä"
    assert (job["args"], job["queue"], job["retry"]) == ([600], queue, 3)
    assert job["failure"].get("retry_count", 0) == 0
    assert job["failure"]["remaining"] == 3
    assert job["failure"]["errtype"] == "Retry"
    assert job["failure"]["message"] == "come back later"
    assert before + timedelta(seconds=600) <= moment(job["at"])
    assert moment(job["at"]) <= utc_now() + timedelta(seconds=600)
    await eventually(lambda: state.working == [])
    assert state.retries == []


async def test_a_retried_job_runs_again_under_the_same_identity(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    jid = await client.push(Job(jobtype="retries", args=[0.1], queue=queue))

    await eventually(lambda: len(ledger.entries) == 2)
    await eventually(lambda: state.is_empty)
    first, second = ledger.entries
    assert first.id == second.id == jid
    assert first.jid == jid != second.jid
    assert (first.deliveries, second.deliveries) == (1, 2)


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_a_job_that_asks_for_one_retry_too_many_dies(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    """As with FAIL: `retry` counts the runs after the first, and the last failure is death."""
    pushed = Job(jobtype="always_retries", args=[0.1], queue=queue, retry=2)
    await client.push(pushed)

    job = await only(lambda: state.dead, 30)

    assert [entry.deliveries for entry in ledger.entries] == [1, 2, 3]
    assert {entry.id for entry in ledger.entries} == {pushed.jid}
    assert job["custom"]["mh"]["id"] == pushed.jid
    assert job["failure"]["message"] == "never satisfied"
    assert job["failure"]["retry_count"] == 2
    assert state.scheduled == [] and state.retries == []


async def test_retry_of_a_job_without_retries_discards_it_as_its_pusher_asked(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="retries", args=[0.1], queue=queue, retry=0))

    await eventually(lambda: state.failures == 1 and state.is_empty)
    assert len(ledger.entries) == 1


async def test_retry_of_a_job_that_may_fail_only_once_is_dead(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    jid = await client.push(Job(jobtype="retries", args=[0.1], queue=queue, retry=-1))

    assert (await only(lambda: state.dead))["jid"] == jid


# Defer


async def test_defer_schedules_the_job_and_spends_no_retry(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    pushed = Job(jobtype="defers", args=[600], queue=queue, retry=3)
    await client.push(pushed)

    job = await only(lambda: state.scheduled)

    assert job["jid"] != pushed.jid
    assert job["custom"]["mh"]["id"] == pushed.jid
    assert "failure" not in job
    assert job["retry"] == 3
    assert moment(job["at"]) > utc_now() + timedelta(seconds=500)
    await eventually(lambda: state.working == [])
    assert state.failures == 0


async def test_a_deferred_job_runs_when_its_time_has_come(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    jid = await client.push(Job(jobtype="defers", args=[0.1], queue=queue, retry=0))

    await eventually(lambda: len(ledger.entries) == 2)
    await eventually(lambda: state.is_empty)
    assert [(entry.id, entry.deliveries) for entry in ledger.entries] == [(jid, 1), (jid, 2)]
    assert state.failures == 0


# Drop and Dead


async def test_drop_is_processed_like_a_success(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    await client.push(Job(jobtype="drops", args=[], queue=queue))

    await assert_settled(state, processed=1, failures=0)


async def test_dead_goes_to_the_dead_set_without_retries(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    jid = await client.push(Job(jobtype="dies", args=["no hope"], queue=queue, retry=25))

    job = await only(lambda: state.dead)

    assert job["jid"] == jid
    assert job["failure"]["errtype"] == "Dead"
    assert job["failure"]["message"] == "no hope"
    assert state.retries == [] and state.working == []


async def test_dead_leaves_other_jobs_that_wait_for_their_retry_alone(
    worker: WorkerUnderTest, client: Client, state: AnyState, queue: str
) -> None:
    waiting = await client.push(Job(jobtype="fails", args=["later"], queue=queue))
    await eventually(lambda: state.retries)

    await client.push(Job(jobtype="dies", args=["no hope"], queue=queue))

    await only(lambda: state.dead)
    assert [job["jid"] for job in state.retries] == [waiting]


# Children


async def test_the_children_of_a_job_are_queued_and_consumed(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="parent", args=[queue], queue=queue))

    await assert_settled(state, processed=4, failures=0)
    assert sorted(ledger.notes) == ["0", "1", "2"]


async def test_a_job_that_fails_has_no_children(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="failing_parent", args=[queue], queue=queue))

    await only(lambda: state.retries)
    assert state.queue(queue) == []
    assert ledger.entries == []


# The same job twice


async def test_a_copy_of_a_job_in_hand_is_not_run_beside_it(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    # Longer than the copy can take to get there.
    first = Job(jobtype="sleepy", args=[5], queue=queue)
    identity = {"mh": {"id": first.jid, "deliveries": 0}}
    copy = Job(jobtype="sleepy", args=[5], queue=queue, custom=identity)
    await client.push(first)
    await eventually(lambda: ledger.notes == ["started"])

    await client.push(copy)

    await assert_settled(state, processed=2, failures=0)
    assert ledger.notes == ["started", "ended"]


async def test_a_job_that_ended_may_be_pushed_again(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    job = Job(jobtype="ledger", args=[1], queue=queue)
    await client.push(job)
    await assert_settled(state, processed=1, failures=0)

    await client.push(job)

    await assert_settled(state, processed=2, failures=0)
    assert ledger.notes == ["1", "1"]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("jobtype", ["retries", "defers"])
async def test_a_job_that_is_queued_again_without_delay_is_never_lost(
    worker: WorkerUnderTest,
    client: Client,
    state: AnyState,
    ledger: Ledger,
    queue: str,
    jobtype: str,
) -> None:
    """Its new delivery may reach this very worker before the old one is settled: here both
    answers have come when the loop finds time to look."""
    await client.push(Job(jobtype="hogs", args=[5], queue=queue))
    for _ in range(10):
        # Alone in the queue, so that a FETCH of this worker waits for it already.
        jid = await client.push(Job(jobtype=jobtype, args=[0], queue=queue))
        ran_twice = partial(has_run, ledger, jid, [1, 2])
        await eventually(ran_twice, what="it did not run a second time")


# Order of queues


async def test_queues_are_served_in_strict_order_when_they_have_no_weights(
    client: Client,
    server: AnyServer,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    for number, name in enumerate(("low", "high")):
        jobs = [Job(jobtype="ledger", args=[number], queue=f"{queue}-{name}") for _ in range(20)]
        await client.push_bulk(jobs)

    start_worker(server.url, WORKER_QUEUES=f"{queue}-high,{queue}-low", WORKER_CONCURRENCY="1")

    await eventually(lambda: len(ledger.entries) == 40)
    assert ledger.notes == ["1"] * 20 + ["0"] * 20


async def test_a_paused_queue_is_left_alone_until_it_is_resumed(
    worker: WorkerUnderTest, client: Client, state: AnyState, ledger: Ledger, queue: str
) -> None:
    await client.push(Job(jobtype="ledger", args=[1], queue=queue))
    await eventually(lambda: ledger.notes == ["1"])
    await client.queue_pause([queue])
    # FETCHes from before the pause end within two seconds.
    await asyncio.sleep(3.5)

    await client.push(Job(jobtype="ledger", args=[2], queue=queue))
    await stays(lambda: ledger.notes == ["1"], 1)
    await client.queue_resume([queue])

    await eventually(lambda: ledger.notes == ["1", "2"])

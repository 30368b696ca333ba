"""The supervisor and its children: started, killed, hung, grown too large, rolled and stopped."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from devservers import BrokerServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker, empty
from tests.support.ledger import Ledger
from tests.support.service_pages import child_of, children_of, is_ready, read_status
from tests.support.waiting import eventually, stays
from tests.support.worker_process import AnyState, WorkerUnderTest
from tests.support.worker_service import UP_WITHIN_S, is_running, start_service

ON_FAKTORY = pytest.mark.parametrize("server", ["faktory_process"], indirect=True)
START_METHODS = pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
# An empty answer to a FETCH takes two.
FETCHES_END_S = 3.0

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> AnyServer:
    """Our broker, which gives the jobs of a child that died to the next; or what a mark says."""
    process: AnyServer = request.getfixturevalue(getattr(request, "param", "broker_process"))
    empty(process)
    return process


@dataclass(frozen=True, slots=True)
class Scene:
    """A server, its client, and a queue and a ledger of the test's own."""

    server: AnyServer
    client: Client
    state: AnyState
    start_worker: StartWorker
    ledger: Ledger
    queue: str

    async def start(self, processes: int = 2, **settings: str) -> WorkerUnderTest:
        """A service with all its children ready."""
        return await start_service(
            self.start_worker, self.server, self.queue, processes, **settings
        )

    def sleepy_jobs(self, count: int, seconds: float) -> list[Job]:
        return [Job(jobtype="sleepy", args=[seconds], queue=self.queue) for _ in range(count)]

    async def push_sleepy(self, count: int, seconds: float) -> list[Job]:
        jobs = self.sleepy_jobs(count, seconds)
        await self.client.push_bulk(jobs)
        return jobs

    async def keep_busy(self, count: int, seconds: float) -> list[Job]:
        """Push so many and wait until all of them run."""
        jobs = await self.push_sleepy(count, seconds)
        await eventually(lambda: self.ledger.notes.count("started") == count)
        return jobs

    async def block_one(self) -> None:
        """Let a job block the event loop of its child for good."""
        await self.client.push(Job(jobtype="blocks", args=[3600], queue=self.queue))
        await eventually(lambda: self.ledger.notes == ["started"])

    def ended_ids(self) -> Counter[str]:
        return Counter(entry.id for entry in self.ledger.entries if entry.note == "ended")


@pytest.fixture
async def scene(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> Scene:
    return Scene(server, client, state, start_worker, ledger, queue)


def pid_of(worker: WorkerUnderTest, process_id: str) -> int:
    pid = child_of(worker, process_id)["pid"]
    assert isinstance(pid, int)
    return pid


def what_happened(worker: WorkerUnderTest, process_id: str = "") -> list[str]:
    events = read_status(worker)["events"]
    return [event["what"] for event in events if event["process_id"] == process_id]


def happened(worker: WorkerUnderTest, process_id: str, text: str) -> bool:
    return any(text in what for what in what_happened(worker, process_id))


def outstanding_fetches(worker: WorkerUnderTest) -> int:
    return sum(turn["outstanding"] for child in children_of(worker) for turn in child["turns"])


def ids(jobs: Iterable[Job]) -> set[str]:
    return {job.jid for job in jobs}


# Starting


@START_METHODS
async def test_children_start_work_and_end_with_their_supervisor(scene: Scene, method: str) -> None:
    worker = await scene.start(processes=3, WORKER_START_METHOD=method)
    children = children_of(worker)
    pids = [child["pid"] for child in children]
    assert [child["process_id"] for child in children] == ["worker-0", "worker-1", "worker-2"]
    assert len(set(pids)) == 3 and all(map(is_running, pids))
    assert is_ready(worker)
    jobs = await scene.push_sleepy(60, 0.1)
    await eventually(lambda: scene.ended_ids() == Counter(ids(jobs)))

    worker.terminate()

    assert await worker.ended() == 0
    assert not any(map(is_running, pids))
    assert worker.said == []
    assert scene.state.is_empty


async def test_the_concurrency_is_told_once_and_children_start_one_after_the_other(
    scene: Scene,
) -> None:
    worker = await scene.start(processes=3)

    (line,) = [line for line in worker.logged if line["event"].startswith("Concurrency")]
    assert line["event"] == "Concurrency: 10 jobs per worker"
    assert line["processes"] == 3
    told = [event for event in worker.events() if event.startswith("worker-")]
    assert told == [
        f"worker-{number} {what}" for number in range(3) for what in ("started", "is ready")
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"WORKER_HANDLERS": "tests.support.no_such_module"}, "no_such_module"),
        ({"WORKER_QUEUES": "not a name"}, "not a name"),
        # Of which each stage has a part.
        ({"WORKER_QUEUES": "fetch.*:3,parse"}, "every queue a weight or none: fetch.*:3,parse"),
        ({"WORKER_QUEUES": "fetch.*,parse,fetch.*"}, "a queue twice"),
        ({"WORKER_QUEUES": "crawl.*,parse"}, "WORKER_QUEUES names crawl.*"),
        ({"FAKTORY_URL": "nonsense://"}, "nonsense"),
    ],
)
async def test_a_wrong_setting_is_told_in_one_line_however_many_processes_there_are(
    scene: Scene, settings: dict[str, str], said: str
) -> None:
    env = {
        "WORKER_QUEUES": scene.queue,
        "WORKER_PROCESSES": "4",
        "FAKTORY_URL": scene.server.url,
    } | settings
    worker = scene.start_worker(env.pop("FAKTORY_URL"), **env)

    assert await worker.ended() == 1
    (line,) = worker.said
    assert said in line


async def test_a_handler_module_with_a_syntax_error_is_told_in_one_line(
    scene: Scene, tmp_path: Path
) -> None:
    (tmp_path / "my_jobs.py").write_text("from manyhands import job\n\ndef f(:\n")
    worker = scene.start_worker(
        scene.server.url, WORKER_QUEUES=scene.queue, WORKER_HANDLERS="my_jobs"
    )

    assert await worker.ended() == 1
    (line,) = worker.said
    assert line.startswith("worker: WORKER_HANDLERS: cannot import my_jobs: SyntaxError: ")
    assert "my_jobs.py, line 3" in line


async def test_a_stop_while_children_start_leaves_none(scene: Scene) -> None:
    worker = scene.start_worker(scene.server.url, WORKER_QUEUES=scene.queue, WORKER_PROCESSES="8")
    await worker.logs("worker-1 started")
    pids = worker.children

    worker.terminate()

    assert await worker.ended() == 0
    assert not any(map(is_running, pids))
    assert not worker.has_logged("worker-7 started")


async def test_a_server_that_is_away_at_first_is_waited_for_by_all_children(
    start_worker: StartWorker, queue: str
) -> None:
    with BrokerServer() as away:
        away.kill()
        worker = start_worker(away.url, WORKER_QUEUES=queue, WORKER_PROCESSES="2")
        await worker.logs("worker-1 started", UP_WITHIN_S)
        assert not is_ready(worker)

        away.start()

        await worker.logs("worker-0 is ready", UP_WITHIN_S)
        await worker.logs("worker-1 is ready", UP_WITHIN_S)
        assert is_ready(worker)
        worker.terminate()
        assert await worker.ended() == 0


# Children that end


async def test_a_killed_child_is_replaced_and_its_jobs_are_done(scene: Scene) -> None:
    worker = await scene.start()
    killed = pid_of(worker, "worker-0")
    other = pid_of(worker, "worker-1")
    jobs = await scene.push_sleepy(200, 0.2)
    await eventually(lambda: len(scene.ended_ids()) >= 20)

    os.kill(killed, signal.SIGKILL)

    await worker.logs("worker-0 ended: SIGKILL; starting it again in")
    await eventually(lambda: child_of(worker, "worker-0")["state"] == "ready", UP_WITHIN_S)
    child = child_of(worker, "worker-0")
    assert (child["incarnation"], child["restarts"], child["last_exit"]) == (1, 1, "SIGKILL")
    assert pid_of(worker, "worker-1") == other
    await eventually(lambda: set(scene.ended_ids()) == ids(jobs), 20)
    worker.terminate()
    assert await worker.ended() == 0


async def test_a_child_that_was_ended_by_somebody_else_is_replaced(scene: Scene) -> None:
    worker = await scene.start()

    os.kill(pid_of(worker, "worker-1"), signal.SIGTERM)

    await worker.logs("worker-1 ended: exit code 0; starting it again in")
    await eventually(lambda: child_of(worker, "worker-1")["incarnation"] == 1, UP_WITHIN_S)


async def test_a_crash_loop_is_told_once_and_the_others_go_on(scene: Scene) -> None:
    worker = await scene.start()

    def pid_of_next(incarnation: int) -> int | None:
        child = child_of(worker, "worker-0")
        pid: int | None = child["pid"] if child["incarnation"] == incarnation else None
        return pid

    for incarnation in range(5):
        pid = await eventually(partial(pid_of_next, incarnation), UP_WITHIN_S)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    await worker.logs("worker-0 ended 5 times within 60 s", UP_WITHIN_S)
    child = child_of(worker, "worker-0")
    assert child["is_crash_looping"] and child["state"] == "waiting to restart"
    assert 0 < child["restart_in_s"] <= 5
    assert worker.has_logged("worker-0 ended: SIGKILL; starting it again in 5 s")
    assert child_of(worker, "worker-1")["state"] == "ready"
    assert is_ready(worker)
    jobs = await scene.push_sleepy(20, 0.05)
    await eventually(lambda: set(scene.ended_ids()) == ids(jobs))
    assert sum("5 times within" in event for event in worker.events()) == 1

    # Somebody mends it, and says so: it is not made to wait.
    worker.signal(signal.SIGHUP)
    await eventually(lambda: child_of(worker, "worker-0")["state"] == "ready", UP_WITHIN_S)
    assert not child_of(worker, "worker-0")["is_crash_looping"]
    worker.terminate()
    assert await worker.ended() == 0


@ON_FAKTORY
async def test_the_fetches_of_a_killed_child_take_few_jobs_to_nobody(scene: Scene) -> None:
    """A real Faktory goes on serving them; without a word of the supervisor's it would be all."""
    worker = await scene.start(
        processes=1,
        FAKTORY_CONNECTIONS="10",
        WORKER_CONCURRENCY="64",
        WORKER_IDLE_FETCHES="64",
    )

    await eventually(lambda: outstanding_fetches(worker) == 64)
    killed = pid_of(worker, "worker-0")
    lanes = len(scene.state.workers(killed))
    assert 1 < lanes < 8

    os.kill(killed, signal.SIGKILL)
    await worker.logs("worker-0 ended: SIGKILL")
    await eventually(lambda: all(gone.is_quiet for gone in scene.state.workers(killed)))
    jobs = [Job(jobtype="ledger", args=[n], queue=scene.queue) for n in range(100)]
    await scene.client.push_bulk(jobs)

    await eventually(lambda: len(scene.ledger.entries) >= 100 - lanes, UP_WITHIN_S)
    # The results of those that have run may be on their way.
    await eventually(lambda: len(scene.state.working) <= lanes)


@ON_BOTH_SERVERS
async def test_jobs_without_retries_beside_one_that_ends_its_process_are_done(scene: Scene) -> None:
    worker = await scene.start()
    innocent = [replace(job, retry=0) for job in scene.sleepy_jobs(12, 1.5)]
    culprit = Job(jobtype="exits", args=[0.5], queue=scene.queue, retry=0)

    await scene.client.push_bulk([culprit, *innocent])

    await worker.logs("job given up", UP_WITHIN_S)
    await eventually(lambda: scene.ended_ids().keys() == ids(innocent), UP_WITHIN_S)
    await eventually(lambda: scene.state.is_empty)
    assert Counter(scene.ended_ids().values()) == {1: 12}
    ended_by = [entry.id for entry in scene.ledger.entries if entry.note.startswith("exits")]
    assert ended_by == [culprit.jid] * 3, "it must be let go, and no sooner"


@ON_FAKTORY
async def test_jobs_without_retries_beside_one_that_blocks_are_done(scene: Scene) -> None:
    worker = await scene.start(2, WORKER_HANG_TIMEOUT="3")
    innocent = [replace(job, retry=0) for job in scene.sleepy_jobs(12, 5)]
    await scene.client.push_bulk(innocent)
    # An answer that a blocked child has not read is in nobody's hands until its reservation ends.
    await eventually(lambda: scene.ledger.notes.count("started") == 12)
    # It does not come back before the test is over: its reservation lasts.
    await scene.client.push(Job(jobtype="blocks", args=[3600], queue=scene.queue))

    await worker.logs("hangs: its event loop does not turn; killing it", UP_WITHIN_S)

    await eventually(lambda: scene.ended_ids().keys() == ids(innocent), UP_WITHIN_S)
    assert Counter(scene.ended_ids().values()) == {1: 12}


# Children that are not well


async def test_a_child_without_descriptors_is_not_ready_and_says_so_until_it_has_some(
    scene: Scene,
) -> None:
    worker = await scene.start(1)
    pid = pid_of(worker, "worker-0")
    await scene.client.push(Job(jobtype="opens_all", args=[], queue=scene.queue))

    await worker.logs("worker-0 can open no more files or connections")
    assert not is_ready(worker)
    await eventually(lambda: scene.ledger.notes == ["closed"], UP_WITHIN_S)
    await eventually(lambda: is_ready(worker))
    assert pid_of(worker, "worker-0") == pid, "it must not end for that"


@pytest.mark.parametrize("kind", ["GeneratorExit", "KeyboardInterrupt"])
async def test_a_worker_goes_on_after_more_unusual_exceptions_than_it_has_slots(
    scene: Scene, kind: str
) -> None:
    worker = await scene.start(1)
    pid = pid_of(worker, "worker-0")
    await scene.client.push_bulk(
        [Job(jobtype="raises_unusual", args=[kind], queue=scene.queue, retry=0) for _ in range(30)]
    )
    await scene.client.push_bulk(jobs := scene.sleepy_jobs(20, 0.01))

    await eventually(lambda: scene.ended_ids() == Counter(ids(jobs)))
    await eventually(lambda: scene.state.is_empty)
    assert pid_of(worker, "worker-0") == pid
    assert any(line["event"] == "a job failed" for line in worker.logged)


async def test_a_child_that_hangs_is_replaced_and_its_job_runs_again(scene: Scene) -> None:
    worker = await scene.start(WORKER_HANG_TIMEOUT="3")
    await scene.block_one()

    await worker.logs("hangs: its event loop does not turn; killing it")

    # Whoever gets the job next hangs as well.
    await eventually(lambda: scene.ledger.notes == ["started", "started"], UP_WITHIN_S)
    assert sum(child["hangs"] for child in children_of(worker)) >= 1
    assert any("SIGKILL; starting it again" in event for event in worker.events())


async def test_a_child_that_computes_is_told_from_one_that_hangs(scene: Scene) -> None:
    worker = await scene.start(1, WORKER_HANG_TIMEOUT="4")
    pid = pid_of(worker, "worker-0")
    await scene.client.push(Job(jobtype="computes", args=[9], queue=scene.queue))
    await eventually(lambda: scene.ledger.notes == ["started"])

    await eventually(lambda: child_of(worker, "worker-0")["state"] == "busy")
    await eventually(lambda: scene.ledger.notes == ["started", "ended"])

    await eventually(lambda: child_of(worker, "worker-0")["state"] == "ready")
    assert pid_of(worker, "worker-0") == pid
    assert sum("does not turn its event loop" in event for event in worker.events()) == 1
    worker.terminate()
    assert await worker.ended() == 0


async def test_a_child_that_has_grown_too_large_is_drained_and_replaced(scene: Scene) -> None:
    worker = await scene.start(1, WORKER_MEMORY_LIMIT_MB="300")
    pid = pid_of(worker, "worker-0")
    slow = Job(jobtype="sleepy", args=[3], queue=scene.queue)
    await scene.client.push(slow)
    await eventually(lambda: "started" in scene.ledger.notes)

    await scene.client.push(Job(jobtype="leaks", args=[400], queue=scene.queue))

    await worker.logs("MiB of memory, more than 300: draining and replacing it")
    await eventually(lambda: child_of(worker, "worker-0")["incarnation"] == 1, UP_WITHIN_S)
    assert not is_running(pid)
    assert worker.has_logged("worker-0 ended: exit code 0; starting it again")
    assert scene.ended_ids() == {slow.jid: 1}
    await eventually(lambda: child_of(worker, "worker-0")["rss_bytes"] > 0)
    assert child_of(worker, "worker-0")["rss_bytes"] < 300 * 1024 * 1024
    assert read_status(worker)["memory_limit_bytes"] == 300 * 1024 * 1024


# Rolling


@ON_BOTH_SERVERS
async def test_a_roll_under_load_loses_no_job_and_runs_none_twice(scene: Scene) -> None:
    worker = await scene.start()
    before = {child["pid"] for child in children_of(worker)}
    jobs = await scene.push_sleepy(600, 0.2)
    await eventually(lambda: len(scene.ended_ids()) >= 20)

    worker.signal(signal.SIGHUP)
    await worker.logs("replaced 2 of 2 children", 40)

    assert not any(map(is_running, before))
    assert {child["incarnation"] for child in children_of(worker)} == {1}
    assert read_status(worker)["roll"] == {
        "state": "done",
        "replaced": 2,
        "of": 2,
        "is_another_wanted": False,
    }
    # The new one was ready before the old one was asked to end, one place after the other.
    order = [
        event
        for event in worker.events()[worker.events().index("replacing the children one by one") :]
        if event == "stopping" or event.endswith(("is ready", "exit code 0"))
    ]
    assert order == [
        said
        for number in range(2)
        for said in (
            f"worker-{number} is ready",
            "stopping",
            f"worker-{number} ended: exit code 0",
        )
    ]
    await eventually(lambda: len(scene.ended_ids()) == len(jobs), 30)
    assert scene.ended_ids() == Counter(ids(jobs))
    await eventually(lambda: scene.state.is_empty)
    worker.terminate()
    assert await worker.ended() == 0


async def test_another_roll_is_made_after_the_one_that_is_under_way(scene: Scene) -> None:
    worker = await scene.start()

    worker.signal(signal.SIGHUP)
    await worker.logs("replaced 1 of 2 children", UP_WITHIN_S)
    worker.signal(signal.SIGHUP)
    await eventually(lambda: read_status(worker)["rolls"] == 2, UP_WITHIN_S)
    await eventually(lambda: read_status(worker)["roll"]["state"] == "done", UP_WITHIN_S)

    assert {child["incarnation"] for child in children_of(worker)} == {2}


async def test_a_roll_to_code_that_does_not_start_leaves_the_children_as_they_are(
    scene: Scene, tmp_path: Path
) -> None:
    # Where the service is started.
    deployed = tmp_path / "deployed_jobs.py"
    deployed.write_text("from tests.support.handlers import *\n")
    worker = await scene.start(
        WORKER_HANDLERS="deployed_jobs",
        # It is written anew within the second that a cached module goes by.
        PYTHONDONTWRITEBYTECODE="1",
    )
    before = {child["pid"] for child in children_of(worker)}

    deployed.write_text("import a_module_that_is_missing\n")
    worker.signal(signal.SIGHUP)
    await worker.logs("the new worker-0 does not come up: the others stay as they are")

    assert {child["pid"] for child in children_of(worker)} == before
    assert read_status(worker)["roll"]["state"] == "failed"
    assert any("a_module_that_is_missing" in line for line in worker.said)
    jobs = await scene.push_sleepy(20, 0.05)
    await eventually(lambda: set(scene.ended_ids()) == ids(jobs))

    deployed.write_text("from tests.support.handlers import *\n")
    worker.signal(signal.SIGHUP)
    await worker.logs("replaced 2 of 2 children", UP_WITHIN_S)
    worker.terminate()
    assert await worker.ended() == 0


async def test_a_child_that_dies_during_a_roll_is_replaced_as_always(scene: Scene) -> None:
    worker = await scene.start(3)
    first, last = pid_of(worker, "worker-0"), pid_of(worker, "worker-2")
    worker.signal(signal.SIGHUP)
    await worker.logs("replacing the children one by one")

    # The one that is being replaced just now, and one whose turn has not come.
    os.kill(first, signal.SIGKILL)
    os.kill(last, signal.SIGKILL)

    await worker.logs("replaced 3 of 3 children", 30)
    await eventually(
        lambda: [child["state"] for child in children_of(worker)] == ["ready"] * 3, UP_WITHIN_S
    )
    assert len(worker.children) == 3
    jobs = await scene.push_sleepy(60, 0.05)
    await eventually(lambda: scene.ended_ids() == Counter(ids(jobs)))


# Other signals


async def test_sigtstp_quiets_all_children_and_none_is_started_any_more(scene: Scene) -> None:
    worker = await scene.start()
    await scene.keep_busy(20, 4)

    worker.signal(signal.SIGTSTP)
    await eventually(lambda: not is_ready(worker))
    await eventually(lambda: worker.events().count("quiet: taking no more jobs") == 2)
    await asyncio.sleep(1)
    await scene.client.push_bulk(scene.sleepy_jobs(10, 0))
    await eventually(lambda: scene.ledger.notes.count("ended") == 20)
    # Whoever is killed before the server has its results has them done again.
    await eventually(lambda: scene.state.in_hand == 0)
    os.kill(pid_of(worker, "worker-0"), signal.SIGKILL)

    await worker.logs("worker-0 ended: SIGKILL")
    await stays(lambda: len(scene.state.queue(scene.queue)) == 10 and len(worker.children) == 1, 2)
    states = {child["process_id"]: child["state"] for child in children_of(worker)}
    assert states == {"worker-0": "stopped", "worker-1": "draining"}
    worker.terminate()
    assert await worker.ended() == 0


async def test_sigusr1_shows_the_tasks_of_all_children(scene: Scene) -> None:
    worker = await scene.start()

    worker.signal(signal.SIGUSR1)

    def dumped() -> set[str]:
        return {line["process_id"] for line in worker.logged if line["event"].startswith("tasks:")}

    await eventually(lambda: dumped() == {"worker-0", "worker-1"})


# Stopping


async def test_children_are_stopped_at_the_same_time_and_their_jobs_are_put_back(
    scene: Scene,
) -> None:
    worker = await scene.start(WORKER_SHUTDOWN_TIMEOUT="8")
    jobs = await scene.keep_busy(20, 3600)

    worker.terminate()

    assert await worker.ended() == 0
    assert {job["custom"]["mh"]["id"] for job in scene.state.queue(scene.queue)} == ids(jobs)


async def test_a_second_signal_makes_all_children_put_back_at_once(scene: Scene) -> None:
    worker = await scene.start(WORKER_SHUTDOWN_TIMEOUT="600")
    jobs = await scene.keep_busy(20, 3600)
    worker.terminate()
    await eventually(lambda: worker.events().count("stopping") == 3)
    assert read_status(worker)["is_stopping"]
    assert not is_ready(worker)

    worker.terminate()

    assert await worker.ended() == 0
    assert {job["custom"]["mh"]["id"] for job in scene.state.queue(scene.queue)} == ids(jobs)


@ON_BOTH_SERVERS
async def test_a_child_that_hangs_does_not_keep_its_supervisor_from_stopping(scene: Scene) -> None:
    worker = await scene.start(WORKER_SHUTDOWN_TIMEOUT="5")
    pids = [child["pid"] for child in children_of(worker)]
    await scene.block_one()

    worker.terminate()

    assert await worker.ended() == 1
    assert not any(map(is_running, pids))
    assert sum("did not end in time: killing it" in event for event in worker.events()) == 1


async def test_a_handler_that_ignores_being_cancelled_does_not_delay_a_stop(scene: Scene) -> None:
    worker = await scene.start(WORKER_SHUTDOWN_TIMEOUT="9")
    await scene.client.push_bulk(
        [Job(jobtype="stubborn", args=[], queue=scene.queue) for _ in range(4)]
    )
    await eventually(lambda: scene.ledger.notes.count("started") == 4)

    worker.terminate()

    assert await worker.ended() == 0
    assert len(scene.state.queue(scene.queue)) == 4


@START_METHODS
async def test_no_child_outlives_a_supervisor_that_was_killed(scene: Scene, method: str) -> None:
    worker = await scene.start(
        processes=3,
        WORKER_START_METHOD=method,
        WORKER_SHUTDOWN_TIMEOUT="8",
    )
    pids = [child["pid"] for child in children_of(worker)]
    await scene.keep_busy(30, 3600)
    # One that cannot put back: its loop hangs.
    os.kill(pids[2], signal.SIGSTOP)

    os.kill(worker.supervisor_pid, signal.SIGKILL)

    await eventually(lambda: not any(map(is_running, pids[:2])))
    await eventually(lambda: len(scene.state.queue(scene.queue)) == 20)
    os.kill(pids[2], signal.SIGCONT)
    await eventually(lambda: not is_running(pids[2]))
    await eventually(lambda: len(scene.state.queue(scene.queue)) == 30)


async def test_no_child_outlives_its_supervisor_though_its_loop_hangs(scene: Scene) -> None:
    worker = await scene.start(1, WORKER_SHUTDOWN_TIMEOUT="3")
    pid = pid_of(worker, "worker-0")
    await scene.block_one()

    os.kill(worker.supervisor_pid, signal.SIGKILL)

    await eventually(lambda: not is_running(pid))


# Queues and back-pressure


async def test_the_queues_of_all_stages_are_watched(scene: Scene) -> None:
    worker = await scene.start(1)
    # Ten of them are taken.
    await scene.client.push_bulk(scene.sleepy_jobs(17, 3600))

    await eventually(lambda: read_status(worker)["queues"] == {scene.queue: 7})
    await eventually(lambda: read_status(worker)["queue_lag_s"].get(scene.queue, 0) > 0)
    await eventually(lambda: read_status(worker)["queues_age_s"] < 5)


async def test_a_stage_is_held_back_while_the_queue_that_it_fills_is_full(
    scene: Scene, tmp_path: Path
) -> None:
    # Where the service is started.
    stage = {"queues": scene.queue, "feeds": f"{scene.queue}-behind"}
    (tmp_path / "manyhands.yaml").write_text(json.dumps({"stages": {"ledger": stage}}))
    await scene.client.push_bulk(
        [Job(jobtype="x", args=[], queue=f"{scene.queue}-behind") for _ in range(60)]
    )
    worker = scene.start_worker(
        scene.server.url,
        WORKER_STAGES="ledger:2x10",
        PRESSURE_SOFT_JOBS="10",
        PRESSURE_HARD_JOBS="50",
    )
    await worker.logs(
        f"ledger is stopped: {scene.queue}-behind, which it fills, is full", UP_WITHIN_S
    )
    assert read_status(worker)["paces"] == {"ledger": 0.0}
    await worker.logs("ledger-1 is ready")
    # What they had asked for before they knew, is answered empty by then.
    await asyncio.sleep(FETCHES_END_S)
    await eventually(lambda: not outstanding_fetches(worker))

    await scene.client.push_bulk(
        [Job(jobtype="ledger", args=[n], queue=scene.queue) for n in range(20)]
    )
    await stays(lambda: len(scene.state.queue(scene.queue)) == 20, 2)
    await scene.client.queue_remove([f"{scene.queue}-behind"])

    await worker.logs("ledger is at full pace again")
    await eventually(lambda: len(scene.ledger.entries) == 20)
    assert read_status(worker)["paces"] == {"ledger": 1.0}
    assert sum("which it fills, is" in event for event in worker.events()) == 1
    worker.terminate()
    assert await worker.ended() == 0


@ON_BOTH_SERVERS
@pytest.mark.parametrize("queues", ["default:1,parse:1,fetch.*:1", "fetch.*,parse"])
async def test_fetching_waits_for_the_parse_queue_of_the_same_processes(
    scene: Scene, queues: str
) -> None:
    sleepy = [Job(jobtype="sleepy", args=[0.3], queue="parse") for _ in range(200)]
    fetches = [Job(jobtype="ledger", args=[n], queue=f"fetch.{n:02}") for n in range(20)]
    await scene.client.push_bulk(sleepy)
    await scene.client.push_bulk(fetches)
    worker = scene.start_worker(
        scene.server.url,
        WORKER_QUEUES=queues,
        WORKER_CONCURRENCY="10",
        PRESSURE_SOFT_JOBS="10",
        PRESSURE_HARD_JOBS="50",
    )
    await worker.logs("fetch is stopped: parse, which it fills, is full", UP_WITHIN_S)
    # Parsing has the slots meanwhile. The supervisor looks once a second.
    while (waiting := len(scene.state.queue("parse"))) > 50:
        assert not any(note.isdecimal() for note in scene.ledger.notes), waiting
        await asyncio.sleep(0.1)

    await worker.logs("fetch is at full pace again", UP_WITHIN_S)
    await eventually(lambda: sum(note.isdecimal() for note in scene.ledger.notes) == 20)
    await eventually(lambda: scene.ledger.notes.count("ended") == 200)
    assert set(read_status(worker)["paces"].values()) == {1.0}
    worker.terminate()
    assert await worker.ended() == 0


async def test_a_signal_to_the_whole_process_group_lets_jobs_finish_like_one_to_the_supervisor(
    scene: Scene,
) -> None:
    """As systemd and `kill -- -group` send it: each child gets it twice, and it is one all the
    same."""
    worker = await scene.start()
    jobs = await scene.keep_busy(20, 3)

    os.killpg(worker.supervisor_pid, signal.SIGTERM)

    assert await worker.ended() == 0
    assert scene.ended_ids() == Counter(ids(jobs))

"""What the model of the manager leaves out: waiting, expiry, one jid twice, and large queues."""

import time

import msgspec
import pytest

from manyhands.broker import queues as queues_module
from manyhands.broker.handout import FETCH_BLOCKS_S
from manyhands.broker.jobs import Failure, StoredJob, WireJob
from manyhands.broker.manager import Manager
from manyhands.broker.reservations import MAX_GIVEN_BACK
from manyhands.broker.retries import MAX_DELAY_S
from tests.unit.broker.stores import open_store, settle

NOW = 4_000_000_000.0


class Taker:
    """A client that keeps what it is given."""

    def __init__(self, owner: str = "us") -> None:
        self.owner = owner
        self.wid = "w"
        self.is_choked = False
        self.given: list[str | None] = []

    def deliver(self, job: StoredJob | None) -> None:
        self.given.append(job.jid if job else None)

    def can_take(self) -> bool:
        return not self.is_choked


class Desk:
    """A manager with a real store, at which a test stands."""

    def __init__(self, directory) -> None:
        self.directory = directory
        self.open()

    def open(self) -> None:
        self.store, self.loop = open_store(self.directory)
        self.manager = Manager(self.store, self.store.load(), NOW)

    def restart(self) -> None:
        self.manager.reservations.store(NOW, after_s=0.0)
        self.settle()
        self.store.close()
        self.open()

    def settle(self) -> None:
        settle(self.store, self.loop)

    def push(self, *jids: str, queue: str = "q", custom: bytes = b"{}", **fields) -> None:
        jobs = [
            WireJob(
                jid=jid,
                jobtype="t",
                queue=queue,
                args=msgspec.Raw(b"[]"),
                custom=msgspec.Raw(custom),
                **fields,
            )
            for jid in jids
        ]
        assert self.manager.intake.push(jobs, lambda: None, lambda _: None) == {}

    def take(self, taker: Taker | None = None) -> str | None:
        queues = self.manager.queues.named(["q"])
        job = self.manager.handout.take(queues, taker or Taker(), NOW)
        return job.jid if job else None

    @property
    def size(self) -> int:
        return self.manager.queues.by_name["q"].size

    @property
    def rows(self) -> int:
        return int(self.store.reader._connection.execute("SELECT count(*) FROM jobs").fetchone()[0])


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    desk.settle()
    desk.store.close()


def test_a_job_goes_to_those_who_wait_and_nobody_gets_it_twice(desk):
    takers = [Taker(), Taker(), Taker()]
    takers[0].is_choked = True
    for taker in takers:
        desk.manager.handout.wait(desk.manager.queues.named(["other", "q"]), taker, NOW)
    desk.push("job-0001")
    desk.settle()
    assert [taker.given for taker in takers] == [[], ["job-0001"], []]
    desk.manager.handout.end_waits(NOW + FETCH_BLOCKS_S - 0.01)
    assert takers[2].given == []
    desk.manager.handout.end_waits(NOW + FETCH_BLOCKS_S)
    assert [taker.given for taker in takers] == [[None], ["job-0001"], [None]]


def test_one_who_gave_up_waiting_is_given_nothing(desk):
    taker = Taker()
    desk.manager.handout.stop_waiting(
        desk.manager.handout.wait(desk.manager.queues.named(["q"]), taker, NOW)
    )
    desk.push("job-0001")
    desk.settle()
    desk.manager.handout.end_waits(NOW + FETCH_BLOCKS_S)
    assert (taker.given, desk.size) == ([], 1)


def test_those_who_wait_get_the_jobs_of_a_resumed_queue_and_of_one_who_went_away(desk):
    desk.push("job-0001", "job-0002")
    desk.settle()
    desk.take(Taker("them"))
    queue = desk.manager.queues.by_name["q"]
    desk.manager.pause(queue, is_paused=True)
    takers = [Taker(), Taker()]
    for taker in takers:
        desk.manager.handout.wait([queue], taker, NOW)
    desk.manager.give_back_of("them")
    assert [taker.given for taker in takers] == [[], []]
    desk.manager.pause(queue, is_paused=False)
    assert [taker.given for taker in takers] == [["job-0001"], ["job-0002"]]


def test_a_job_that_has_expired_is_dropped_when_its_turn_comes(desk):
    desk.push("job-0001", custom=b'{"expires_at":%d}' % time.time())
    desk.push("job-0002", custom=b'{"expires_at":%d}' % (time.time() + 3600))
    desk.settle()
    assert desk.take() == "job-0002"
    assert (desk.take(), desk.manager.handout.expired_jobs) == (None, 1)
    desk.settle()
    assert (desk.size, desk.rows) == (0, 1)


def test_a_dead_job_that_is_pushed_anew_and_requeued_is_one_job(desk):
    desk.push("job-0001", retry=-1)
    desk.settle()
    desk.take()
    desk.manager.fail("job-0001", "E", "m", [])
    desk.push("job-0001")
    desk.settle()
    desk.manager.requeue(desk.manager.sets.page("dead"))
    desk.settle()
    assert desk.size == 2
    assert [desk.take(), desk.take()] == ["job-0001", None]
    desk.manager.acknowledge(["job-0001"])
    desk.settle()
    assert (desk.size, desk.rows) == (0, 0)


def test_what_is_requeued_and_pushed_in_one_commit_is_all_there_when_the_head_is_full(
    desk, monkeypatch
):
    desk.push("job-0001", retry=-1)
    desk.settle()
    desk.take()
    desk.manager.fail("job-0001", "E", "m", [])
    desk.settle()
    monkeypatch.setattr(queues_module, "HEAD_BYTES", 50)
    desk.manager.requeue(desk.manager.sets.page("dead"))
    desk.push("job-0002")
    desk.push("job-0003")
    desk.settle()
    assert [desk.take() for _ in range(4)] == ["job-0001", "job-0002", "job-0003", None]


def test_jobs_that_come_back_together_keep_their_order(desk):
    jids = [f"job-000{number}" for number in range(5)]
    desk.push(*jids)
    desk.settle()
    for _ in range(3):
        desk.take()
    desk.manager.give_back_of("us")
    desk.restart()
    assert [desk.take() for _ in range(5)] == jids


def test_a_job_that_went_out_again_is_in_hand_after_a_restart(desk):
    desk.push("job-0001")
    desk.settle()
    desk.take(Taker("them"))
    desk.manager.give_back_of("them")
    desk.take(Taker("us"))
    desk.restart()
    assert desk.take() is None
    assert desk.manager.reservations.in_hand["job-0001"].owner == "us"
    desk.manager.acknowledge(["job-0001"])
    desk.restart()
    assert (desk.size, desk.rows) == (0, 0)


def test_a_job_that_takes_its_workers_down_has_failed(desk):
    desk.push("job-0001")
    desk.settle()
    for _ in range(MAX_GIVEN_BACK):
        assert desk.take() == "job-0001"
        desk.manager.give_back_of("us")
        desk.restart()
    assert desk.take() is None
    (row,) = desk.manager.sets.page("retries")
    assert b'"errtype":"WorkerLost"' in row.payload


def test_a_result_for_a_job_of_a_removed_queue_changes_nothing(desk):
    desk.push("job-0001")
    desk.settle()
    desk.take()
    desk.manager.give_back_of("us")
    desk.manager.remove([desk.manager.queues.by_name["q"]])
    desk.manager.acknowledge(["job-0001"])
    desk.push("job-0002")
    desk.restart()
    assert (desk.size, desk.rows, desk.take()) == (1, 1, "job-0002")


def test_what_is_written_of_a_removed_job_is_not_taken_for_another(desk):
    desk.push("job-0001")
    desk.settle()
    desk.take()
    desk.manager.give_back_of("us")
    desk.manager.remove([desk.manager.queues.by_name["q"]])
    desk.restart()
    desk.push("job-0002")
    desk.restart()
    assert desk.take() == "job-0002"
    assert desk.manager.reservations.in_hand["job-0002"].given_back == 0


def test_a_paused_queue_without_jobs_can_be_resumed_after_a_restart(desk):
    desk.push("job-0001")
    desk.settle()
    desk.take()
    desk.manager.acknowledge(["job-0001"])
    desk.manager.pause(desk.manager.queues.by_name["q"], is_paused=True)
    desk.restart()
    assert [queue.name for queue in desk.manager.queues.listed()] == ["q"]
    assert desk.manager.queues.by_name["q"].is_paused


def test_a_push_that_is_repeated_after_a_restart_is_stored_once(desk):
    for _ in range(2):
        desk.push("job-0001")
        desk.push("job-0002", at="2999-01-01T00:00:00Z")
        desk.restart()
    assert (desk.size, desk.manager.store.counters["scheduled"]) == (1, 1)


def test_a_repeated_push_is_not_answered_for_one_that_the_full_disk_refused(desk):
    said: list[str] = []
    (pages,) = desk.store._writer.execute("PRAGMA page_count").fetchone()
    desk.store._writer.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(2):
        job = WireJob(
            jid="job-0001",
            jobtype="t",
            args=msgspec.Raw(b"[]"),
            custom=msgspec.Raw(b'{"x":"%b"}' % (b"x" * 60_000)),
        )
        desk.manager.intake.push([job], lambda: said.append("stored"), said.append)
        desk.loop.run_soon()
    desk.settle()
    assert said == ["the disk is full"] * 2


def test_a_job_that_came_with_many_failures_is_retried_within_a_century(desk):
    desk.push("job-0001", retry=2**70, failure=Failure(retry_count=2**65))
    desk.settle()
    desk.take()
    desk.manager.fail("job-0001", "E", "m", [])
    desk.settle()
    assert desk.manager.queue_due(time.time() + MAX_DELAY_S + 1) == 1
    desk.settle()
    assert desk.take() == "job-0001"


@pytest.mark.parametrize("is_flush", [True, False])
def test_what_is_being_forgotten_does_not_become_due(desk, is_flush):
    desk.push("job-0001", at="2050-01-01T00:00:00Z")
    desk.settle()
    if is_flush:
        desk.manager.flush()
    else:
        desk.manager.sets.clear("scheduled")
    desk.push("job-0002", at="2050-01-01T00:00:00Z")
    assert desk.manager.queue_due(NOW) == 0
    desk.settle()
    assert desk.manager.store.counters["scheduled"] == 1
    assert desk.manager.queue_due(NOW) == 1
    desk.settle()
    assert [desk.take(), desk.take()] == ["job-0002", None]


def test_the_dead_are_forgotten_when_their_time_is_over(desk):
    desk.push("job-0001", "job-0002", retry=-1)
    desk.settle()
    for jid in (desk.take(), desk.take()):
        desk.manager.fail(jid, "E", "m", [])
    desk.settle()
    desk.manager.sets.bound_dead(time.time())
    assert desk.manager.store.counters["dead"] == 2
    desk.manager.sets.bound_dead(NOW)
    desk.settle()
    assert (desk.manager.store.counters["dead"], desk.manager.sets.page("dead")) == (0, [])

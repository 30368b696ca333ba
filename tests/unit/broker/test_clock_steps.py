"""The manager when the wall clock is set: nothing in hand notices, what is stored stays true."""

from types import SimpleNamespace

import msgspec
import pytest

from manyhands.broker import manager as manager_module
from manyhands.broker.handout import FETCH_BLOCKS_S
from manyhands.broker.jobs import StoredJob, WireJob, utc_text
from manyhands.broker.manager import Manager
from manyhands.broker.sets import DEAD_KEPT_S
from manyhands.shared.jobs import DEFAULT_RESERVE_FOR_S
from tests.unit.broker.clocks import set_clocks
from tests.unit.broker.stores import open_store, settle

STEPS_S = [-3600.0, 7200.0, -600.0]


class Taker:
    def __init__(self, owner: str | None = "us") -> None:
        self.owner = owner
        self.wid = "w"
        self.given: list[str | None] = []

    def deliver(self, job: StoredJob | None) -> None:
        self.given.append(job.jid if job else None)

    def can_take(self) -> bool:
        return True


class Desk:
    """A manager between two clocks that a test moves."""

    def __init__(self, directory, monkeypatch) -> None:
        self.directory = directory
        self.now = 1000.0
        self.wall = 1_700_000_000.0
        set_clocks(monkeypatch, wall=lambda: self.wall, monotonic=lambda: self.now)
        monkeypatch.setattr(manager_module, "random", SimpleNamespace(randrange=lambda _: 0))
        self.open()

    def open(self) -> None:
        self.store, self.loop = open_store(self.directory)
        self.manager = Manager(self.store, self.store.load(), self.now)

    def restart(self) -> None:
        self.manager.reservations.store(self.now, after_s=0.0)
        self.settle()
        self.store.close()
        self.open()

    def settle(self) -> None:
        settle(self.store, self.loop)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def set_clock(self, step_s: float) -> None:
        self.wall += step_s
        self.manager.clock_was_set(step_s)
        self.settle()

    def push(self, jid: str, **fields) -> None:
        job = WireJob(jid=jid, jobtype="t", queue="q", args=msgspec.Raw(b"[]"), **fields)
        assert self.manager.intake.push([job], lambda: None, lambda _: None) == {}
        self.settle()

    def take(self, owner: str | None = "us") -> str | None:
        job = self.manager.handout.take(self.manager.queues.named(["q"]), Taker(owner), self.now)
        return job.jid if job else None

    def in_hand_after(self, seconds: float) -> list[str]:
        self.pass_time(seconds)
        self.manager.reservations.store(self.now)
        self.manager.end_reservations(self.now)
        return list(self.manager.reservations.in_hand)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    desk = Desk(tmp_path, monkeypatch)
    yield desk
    desk.settle()
    desk.store.close()


@pytest.mark.parametrize("step_s", STEPS_S)
@pytest.mark.parametrize("owner", ["us", None])
def test_a_reservation_lasts_as_long_as_it_was_meant_to(desk, step_s, owner):
    desk.push("job-0001")
    desk.take(owner)
    desk.set_clock(step_s)
    assert desk.in_hand_after(DEFAULT_RESERVE_FOR_S - 1) == ["job-0001"]
    assert desk.in_hand_after(1) == []


@pytest.mark.parametrize("step_s", STEPS_S)
@pytest.mark.parametrize("owner", ["us", None])
def test_a_stored_reservation_is_still_right_after_a_restart(desk, step_s, owner):
    desk.push("job-0001")
    desk.take(owner)
    assert desk.in_hand_after(10) == ["job-0001"]
    desk.set_clock(step_s)
    desk.restart()
    assert desk.in_hand_after(DEFAULT_RESERVE_FOR_S - 11) == ["job-0001"]
    assert desk.in_hand_after(2) == []


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_clock_that_was_set_while_it_was_down_takes_no_job_from_a_process(desk, step_s):
    desk.push("job-0001")
    desk.take()
    desk.in_hand_after(10)
    desk.wall += step_s
    desk.restart()
    # A process that does not come back loses it soon, whatever the reservation says.
    assert desk.in_hand_after(60) == ["job-0001"]
    assert desk.in_hand_after(DEFAULT_RESERVE_FOR_S) == []


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_fetch_that_waits_ends_when_it_should(desk, step_s):
    taker = Taker()
    desk.manager.handout.wait(desk.manager.queues.named(["q"]), taker, desk.now)
    desk.set_clock(step_s)
    desk.manager.handout.end_waits(desk.now + FETCH_BLOCKS_S - 0.01)
    assert taker.given == []
    desk.manager.handout.end_waits(desk.now + FETCH_BLOCKS_S)
    assert taker.given == [None]


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_failed_job_is_tried_again_no_later_than_it_would_have_been(desk, step_s):
    desk.push("job-0001", retry=3)
    desk.take()
    desk.manager.fail("job-0001", "E", "m", [])
    desk.settle()
    desk.set_clock(step_s)
    desk.pass_time(15.1)
    assert desk.manager.queue_due(desk.wall) == 1


def test_the_dead_are_kept_when_the_clock_is_set_forward(desk):
    desk.push("job-0001", retry=-1)
    desk.take()
    desk.manager.fail("job-0001", "E", "m", [])
    desk.settle()
    desk.set_clock(DEAD_KEPT_S + 1)
    desk.manager.sets.bound_dead(desk.wall)
    assert desk.manager.store.counters["dead"] == 1


def test_a_scheduled_job_is_due_by_the_new_time(desk):
    desk.push("job-0001", at=utc_text(desk.wall + 7000))
    assert desk.manager.queue_due(desk.wall) == 0
    desk.set_clock(7200.0)
    assert desk.manager.queue_due(desk.wall) == 1


def test_a_job_that_expires_does_so_by_the_wall_clock(desk):
    end = utc_text(desk.wall + 60)
    desk.push("job-0001", custom=msgspec.Raw(b'{"expires_at":"%b"}' % end.encode()))
    desk.set_clock(-3600.0)
    desk.pass_time(120)
    assert desk.take() == "job-0001"

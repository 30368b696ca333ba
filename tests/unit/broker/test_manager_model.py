"""The manager with a real store does what a few lists and dicts would do, also across restarts."""

import copy
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from manyhands.broker import manager as manager_module
from manyhands.broker import store as store_module
from manyhands.broker.batches import SET_NAMES
from manyhands.broker.directory import DATABASE
from manyhands.broker.jobs import Refused, StoredJob, WireJob, utc_text
from manyhands.broker.manager import HOLD_AFTER_CRASH_S, Manager
from manyhands.shared.jobs import DEFAULT_RESERVE_FOR_S
from tests.unit.broker.clocks import set_clocks
from tests.unit.broker.manager_model import Model, ModelJob, ModelRow
from tests.unit.broker.stores import open_store, settle

START = 1_700_000_000.0
JIDS = [f"job-{number:04}" for number in range(25)]
QUEUES = ["a", "b", "c"]
OWNERS = ["us", "them", None]
WIDS = ["w1", "w2"]


class FakeClient:
    """Somebody who fetches and does not wait."""

    def __init__(self, owner: str | None, wid: str) -> None:
        self.owner = owner
        self.wid = wid

    def deliver(self, job: StoredJob | None) -> None:
        raise AssertionError("nobody waits here")

    def can_take(self) -> bool:
        return True


class LifeOfABroker(RuleBasedStateMachine):
    """`model` is what should be; `durable` what should be on disk, if it crashed now."""

    @initialize()
    def start(self):
        self.patch = pytest.MonkeyPatch()
        self.now = START
        set_clocks(self.patch, wall=lambda: self.now, monotonic=lambda: self.now)
        self.patch.setattr(manager_module, "random", SimpleNamespace(randrange=lambda _: 0))
        self.patch.setattr(store_module, "BALLAST_BYTES", 4096)
        self.root = tempfile.TemporaryDirectory()
        self.starts = 0
        self.directory = Path(self.root.name) / "0"
        self.model = Model()
        self.durable = Model()
        self._open()

    def _open(self) -> None:
        self.store, self.loop = open_store(self.directory)
        self.manager = Manager(self.store, self.store.load(), self.now)

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.root.cleanup()
            self.patch.undo()

    def tick(self) -> float:
        self.now += 0.01
        return self.now

    @rule()
    def all_is_committed(self):
        settle(self.store, self.loop)
        self.model.commit()
        self.durable = copy.deepcopy(self.model)
        self._compare_disk()

    # Pushing and fetching

    @rule(
        jid=st.sampled_from(JIDS),
        queue=st.sampled_from(QUEUES),
        retry=st.sampled_from([-1, 0, 1, 2, 25]),
        delay_s=st.sampled_from([0, 0, 0, 20, 500]),
    )
    def a_job_is_pushed(self, jid, queue, retry, delay_s):
        now = self.tick()
        if any(row.job.jid == jid for row in self.model.sets["dead"]):
            return
        at = now + delay_s
        job = WireJob(
            jid=jid,
            jobtype="any",
            args=msgspec.Raw(b"[1]"),
            queue=queue,
            retry=retry,
            at=utc_text(at) if delay_s else None,
        )
        assert self.manager.intake.push([job], lambda: None, lambda _: None) == {}
        if jid in self.model.everywhere():
            return
        if delay_s:
            self.model.sets["scheduled"].append(ModelRow(ModelJob(jid, queue, retry), at))
        else:
            self.model.arrive(ModelJob(jid, queue, retry))

    @rule(
        names=st.lists(st.sampled_from(QUEUES), min_size=1, unique=True),
        owner=st.sampled_from(OWNERS),
        wid=st.sampled_from(WIDS),
        count=st.integers(1, 4),
    )
    def jobs_are_fetched(self, names, owner, wid, count):
        queues = self.manager.queues.named(names)
        for _ in range(count):
            now = self.tick()
            job = self.manager.handout.take(queues, FakeClient(owner, wid), now)
            assert (job.jid if job else None) == self.model.take(names, owner, wid, now)

    # Results

    @rule(jids=st.lists(st.sampled_from(JIDS), min_size=1, max_size=5))
    def results_come_for_any_jids(self, jids):
        self.manager.acknowledge(jids)
        for jid in jids:
            self.model.settle(jid)

    @precondition(lambda self: self.model.working)
    @rule(data=st.data())
    def a_job_in_hand_fails(self, data):
        jid = data.draw(st.sampled_from(list(self.model.working)))
        now = self.tick()
        self.manager.fail(jid, "Oops", "no", [])
        self.model.fail(jid, now)

    @rule(jid=st.sampled_from(JIDS))
    def a_failure_comes_for_any_jid(self, jid):
        now = self.tick()
        if jid in self.model.working or jid in self.model.maybe_held:
            self.manager.fail(jid, "Oops", "no", [])
            self.model.fail(jid, now)
        else:
            with pytest.raises(Refused, match=f"Job not found {jid}"):
                self.manager.fail(jid, "Oops", "no", [])

    @rule(owner=st.sampled_from(["us", "them"]))
    def a_process_goes_away(self, owner):
        now = self.tick()
        self.manager.give_back_of(owner)
        working = self.model.working.values()
        self.model.give_back([job for job in working if job.owner == owner], now)

    @rule(wid=st.sampled_from(WIDS), data=st.data())
    def a_connection_breaks_and_its_client_says_what_it_has(self, wid, data):
        mine = [job.jid for job in self.model.working.values() if job.wid == wid]
        held = data.draw(st.sets(st.sampled_from(mine))) if mine else set()
        if self.model.maybe_held:
            held |= {data.draw(st.sampled_from(sorted(self.model.maybe_held)))}
        now = self.tick()
        self.manager.keep_held(wid, set(held), "us")
        self.model.keep_held(wid, held, "us", now)

    # Time

    @rule(passed_s=st.sampled_from([0.5, 2.0, 30.0, DEFAULT_RESERVE_FOR_S]))
    def time_passes(self, passed_s):
        self.now += passed_s
        self.manager.handout.end_hold(self.now)
        self.model.end_hold(self.now)
        self.manager.reservations.store(self.now)
        self.model.store_reservations(self.now)
        self.manager.end_reservations(self.now)
        self.model.end_reservations(self.now)

    @rule()
    def what_is_due_is_queued(self):
        assert self.manager.queue_due(self.now) == self.model.queue_due(self.now)

    # What an operator does

    @rule(name=st.sampled_from(QUEUES), is_paused=st.booleans())
    def a_queue_is_paused_or_resumed(self, name, is_paused):
        self.manager.pause(self.manager.queues.named([name])[0], is_paused=is_paused)
        (self.model.paused.add if is_paused else self.model.paused.discard)(name)

    @rule(name=st.sampled_from(QUEUES))
    def a_queue_is_removed(self, name):
        self.manager.remove([self.manager.queues.named([name])[0]])
        self.model.remove(name)

    @rule()
    def everything_is_flushed(self):
        self.manager.flush()
        self.model.flush()

    @rule(
        kind=st.sampled_from(SET_NAMES),
        action=st.sampled_from(["requeue", "kill", "discard"]),
        jids=st.sets(st.sampled_from(JIDS), min_size=5),
    )
    def jobs_of_a_set_are_moved(self, kind, action, jids):
        now = self.tick()
        found = self.manager.sets.page(kind)
        rows = [row for row in self.model.sets[kind] if row.is_committed]
        assert {row.jid for row in found} == {row.job.jid for row in rows}
        found.sort(key=lambda row: row.id)
        owner = self.manager if action == "requeue" else self.manager.sets
        getattr(owner, action)([row for row in found if row.jid in jids])
        for row in rows:
            if row.job.jid in jids:
                self.model.leave(row)
                if action == "requeue":
                    self.model.arrive(row.job)
                elif action == "kill":
                    self.model.sets["dead"].append(ModelRow(row.job, now))

    @rule(kind=st.sampled_from(SET_NAMES))
    def a_set_is_cleared(self, kind):
        self.all_is_committed()
        self.manager.sets.clear(kind)
        self.model.sets[kind].clear()

    # Restarts

    @rule()
    def it_restarts(self):
        self.manager.reservations.store(self.now, after_s=0.0)
        self.model.store_reservations(self.now, after_s=0.0)
        self.all_is_committed()
        self.store.close()
        self._open()
        self.model.restart(self.now, is_crash=False)
        self.durable = copy.deepcopy(self.model)
        self._compare_disk()

    @rule()
    def it_crashes(self):
        self.starts += 1
        before, self.directory = self.directory, Path(self.root.name) / str(self.starts)
        self.directory.mkdir()
        for path in before.glob(DATABASE + "*"):
            shutil.copy(path, self.directory / path.name)
        self.store.close()
        self._open()
        self.model = copy.deepcopy(self.durable)
        self.model.restart(self.now, is_crash=True)
        self.durable = copy.deepcopy(self.model)
        self._compare_disk()

    @precondition(lambda self: self.model.held_until)
    @rule()
    def the_hold_after_a_crash_ends(self):
        self.now += HOLD_AFTER_CRASH_S
        self.manager.handout.end_hold(self.now)
        self.model.end_hold(self.now)

    # What always holds

    @invariant()
    def it_is_as_it_should_be(self):
        manager, model = self.manager, self.model
        for name in QUEUES:
            size = manager.queues.by_name[name].size if name in manager.queues.by_name else 0
            assert size == len(model.queues.get(name, [])), name
        assert list(manager.reservations.in_hand) == list(model.working)
        sizes = {kind: len(rows) for kind, rows in model.sets.items()}
        assert manager.store.counters == sizes | {
            "processed": model.processed,
            "failures": model.failures,
        }
        assert sorted(set(model.everywhere())) == sorted(model.everywhere())

    def _compare_disk(self) -> None:
        model, read = self.model, self.store.reader._connection.execute
        queued = sorted(job.jid for queue in model.queues.values() for job in queue)
        (stored,) = read("SELECT count(*) FROM jobs").fetchone()
        assert stored == len(queued) + len(model.working)
        for name, rows, is_paused in read("SELECT CAST(name AS BLOB), rows, is_paused FROM queues"):
            in_hand = [job for job in model.working.values() if job.queue == name.decode()]
            assert rows == len(model.queues.get(name.decode(), [])) + len(in_hand)
            assert is_paused == (name.decode() in model.paused)
        for kind, rows_of_kind in model.sets.items():
            found = sorted(row.jid for row in self.store.reader.read_set(kind, limit=999))
            assert found == sorted(row.job.jid for row in rows_of_kind)
        counters = {name.decode(): value for name, value in read("SELECT * FROM counters")}
        counters.pop("closed")
        assert {name: counters.get(name, 0) for name in self.manager.store.counters} == (
            self.manager.store.counters
        )


LifeOfABroker.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLifeOfABroker = LifeOfABroker.TestCase

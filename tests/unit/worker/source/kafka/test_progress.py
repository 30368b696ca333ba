"""How far a partition is, against a model that remembers everything."""

import random
from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from manyhands.worker.source.kafka.done_map import METADATA_BYTES
from manyhands.worker.source.kafka.progress import Progress, Received


class Life(RuleBasedStateMachine):
    """A partition with gaps, whose records start and end in any order, through restarts."""

    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress(0)
        # What the topic has; up to where it was received in this life; the ledger of what is done.
        self.log: list[int] = []
        self.at = 0
        self.done: set[int] = set()
        self.life = 0

    @rule(gap=st.integers(0, 50))
    def produce(self, gap):
        self.log.append((self.log[-1] if self.log else -1) + 1 + gap)

    @rule(target=running)
    def receive_and_start(self):
        if self.at == len(self.log):
            return multiple()
        offset = self.log[self.at]
        self.at += 1
        record = self.progress.received(offset)
        assert (record is None) == (offset in self.done)
        if record is None:
            return multiple()
        assert self.progress.may_start(record)
        self.progress.started(record)
        return self.life, record.offset

    @rule(running=consumes(running))
    def end(self, running):
        life, offset = running
        if life == self.life:
            self.progress.done(offset)
            self.done.add(offset)

    @rule()
    def restart(self):
        """From what was committed: what was done is known, however little came again."""
        commit = self.progress.commit()
        self.progress = Progress.resumed(commit.offset, commit.metadata)
        self.life += 1
        self.at = sum(offset < commit.offset for offset in self.log)

    @invariant()
    def the_base_is_the_first_that_is_not_done(self):
        base = self.progress.base
        assert all(offset in self.done for offset in self.log if offset < base)
        assert base not in self.done or base >= self.log[self.at]

    @invariant()
    def incomplete_is_what_was_received_and_is_not_done(self):
        received = [offset for offset in self.log[: self.at] if offset >= self.progress.base]
        assert self.progress.incomplete == len(set(received) - self.done)


TestLife = Life.TestCase


def received(progress: Progress, offset: int) -> Received:
    record = progress.received(offset)
    assert record is not None
    return record


def started(progress: Progress, offsets: range) -> list[Received]:
    records = [progress.received(offset) for offset in offsets]
    found = [record for record in records if record is not None]
    for record in found:
        progress.started(record)
    return found


def test_the_base_stands_at_the_first_that_is_not_done():
    progress = Progress(100)
    started(progress, range(100, 105))
    progress.done(101)
    progress.done(103)
    assert progress.commit().offset == 100
    progress.done(100)
    assert progress.commit().offset == 102
    progress.done(102)
    assert progress.commit().offset == 104


def test_a_partition_without_records_commits_where_it_began():
    commit = Progress(7).commit()
    assert (commit.offset, commit.metadata) == (7, "")


def test_when_all_is_done_there_is_nothing_to_say_beyond_the_base():
    progress = Progress(0)
    for record in started(progress, range(3)):
        progress.done(record.offset)
    assert (progress.commit().offset, progress.commit().metadata) == (3, "")


def test_the_gaps_of_a_compacted_topic_hold_nothing_up():
    progress = Progress(0)
    for offset in (5, 900, 901):
        record = received(progress, offset)
        progress.started(record)
        progress.done(offset)
    assert progress.commit().offset == 902


def test_an_offset_that_was_received_already_is_refused():
    progress = Progress(5)
    progress.received(5)
    with pytest.raises(ValueError, match="offset 5 after 5"):
        progress.received(5)


def test_metadata_of_somebody_else_counts_as_nothing_done():
    progress = Progress.resumed(10, "a consumer of another kind")
    assert progress.received(10) is not None


def test_one_that_never_ends_does_not_stop_the_others_for_long():
    progress = Progress(0)
    stuck, *_ = started(progress, range(1))
    for offset in range(1, 200_000):
        record = received(progress, offset)
        assert progress.may_start(record)
        progress.started(record)
        progress.done(offset)
    assert progress.base == stuck.offset
    assert len(progress.commit().metadata) <= METADATA_BYTES


@pytest.mark.parametrize("slots", [50, 500, 5000])
@pytest.mark.parametrize("stuck", [0, 1])
def test_the_metadata_always_fits_and_a_restart_repeats_what_was_open_alone(slots, stuck):
    """Slots that are filled again and again, and end in random order; one of them never."""
    chance = random.Random(slots + stuck)
    progress = Progress(0)
    arrived: deque[Received] = deque()
    running: list[Received] = []
    offset = 0
    done: set[int] = set()
    for _ in range(12):
        while len(running) < slots:
            if not arrived:
                arrived.append(received(progress, offset))
                offset += 1
            if not progress.may_start(arrived[0]):
                break
            progress.started(arrived[0])
            running.append(arrived.popleft())
        chance.shuffle(running)
        running.sort(key=lambda record: record.offset < stuck)
        for _ in range(chance.randrange(len(running) - stuck) + 1):
            ended = running.pop(0)
            progress.done(ended.offset)
            done.add(ended.offset)
        commit = progress.commit()
        assert len(commit.metadata) <= METADATA_BYTES
        after = Progress.resumed(commit.offset, commit.metadata)
        again = {one for one in range(commit.offset, offset) if after.received(one) is not None}
        assert again == set(range(offset)) - done


def test_a_record_too_far_from_the_base_waits_until_the_base_has_moved():
    progress = Progress(0)
    # Every other one never ends: the most that a map can have to say.
    offset = 0
    open_ = []
    while True:
        record = received(progress, offset)
        if not progress.may_start(record):
            break
        progress.started(record)
        if offset % 2:
            progress.done(offset)
        else:
            open_.append(offset)
        offset += 1
    assert 10_000 < offset < 30_000
    assert len(progress.commit().metadata) <= METADATA_BYTES
    for done in open_:
        progress.done(done)
    assert progress.may_start(record)

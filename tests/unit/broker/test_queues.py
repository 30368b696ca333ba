"""One queue: what is in memory, what is on disk, and in which order it goes out."""

from collections import deque
from typing import cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from manyhands.broker import queues
from manyhands.broker.jobs import StoredJob, from_row
from manyhands.broker.memory import Memory
from manyhands.broker.queues import Queue
from manyhands.broker.reading import Reader
from manyhands.broker.schema import SEQUENCE_BITS

FIRST = 3 << SEQUENCE_BITS


def payload(key: int, size: int = 0) -> bytes:
    return b'{"jid":"job-%d","args":["%b"]}' % (key - FIRST, b"x" * size)


class FakeReader:
    """Rows by key, and how many were asked for at a time."""

    def __init__(self) -> None:
        self.rows: dict[int, bytes] = {}
        self.asked: list[int] = []

    def read_jobs(
        self, after: int, upto: int, limit: int, max_bytes: int
    ) -> list[tuple[int, bytes]]:
        del max_bytes
        self.asked.append(limit)
        keys = [key for key in sorted(self.rows) if after < key <= upto]
        return [(key, self.rows[key]) for key in keys[:limit]]


@pytest.fixture
def store() -> FakeReader:
    return FakeReader()


def a_queue(store: FakeReader, *, rows: int = 0, size: int = 0) -> Queue:
    """A queue that finds so many jobs on disk."""
    for number in range(1, rows + 1):
        store.rows[FIRST + number] = payload(FIRST + number, size)
    return Queue(
        3, "some", cast("Reader", store), Memory(100_000_000), last_key=FIRST + rows, rows=rows
    )


def push(queue: Queue, store: FakeReader, count: int = 1, size: int = 0) -> list[StoredJob]:
    keys = [queue.new_key() for _ in range(count)]
    jobs = [from_row(key, payload(key, size)) for key in keys]
    store.rows.update((job.key, job.payload) for job in jobs)
    queue.stored(jobs)
    return jobs


def numbers_taken(queue: Queue, count: int | None = None) -> list[int]:
    taken: list[int] = []
    while (count is None or len(taken) < count) and (job := queue.take()) is not None:
        taken.append(job.key - FIRST)
    return taken


def test_a_new_queue_has_nothing(store):
    queue = a_queue(store)
    assert (queue.take(), queue.oldest(), queue.size) == (None, None, 0)


def test_jobs_go_out_in_the_order_of_their_pushes_without_a_look_at_the_disk(store):
    queue = a_queue(store)
    push(queue, store, 3)
    push(queue, store, 2)
    assert queue.size == 5
    assert numbers_taken(queue) == [1, 2, 3, 4, 5]
    assert (queue.size, store.asked) == (0, [])


def test_what_was_on_disk_goes_out_before_what_is_pushed_now(store):
    queue = a_queue(store, rows=3)
    push(queue, store, 2)
    assert queue.size == 5
    assert numbers_taken(queue) == [1, 2, 3, 4, 5]


def test_a_long_queue_is_read_in_pages_and_read_on_before_the_head_is_empty(store, monkeypatch):
    monkeypatch.setattr(queues, "PAGE_JOBS", 100)
    queue = a_queue(store, rows=1000)
    assert numbers_taken(queue, 600) == list(range(1, 601))
    assert max(store.asked) == 100
    assert len(queue.head) >= queues.LOW_JOBS - 1
    assert numbers_taken(queue) == list(range(601, 1001))


def test_large_jobs_are_read_a_few_at_a_time(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 10_000)
    queue = a_queue(store, rows=200, size=2000)
    queue.load()
    queue.load()
    assert store.asked == [50, 4]


def test_a_job_larger_than_the_head_still_goes_out(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 100)
    queue = a_queue(store, rows=60, size=500)
    push(queue, store, 2, size=500)
    assert numbers_taken(queue) == list(range(1, 63))


def test_a_full_head_leaves_further_pushes_on_disk_until_there_is_room(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 1000)
    queue = a_queue(store)
    for _ in range(30):
        push(queue, store, size=100)
    assert len(queue.head) < 12
    assert queue.size == 30
    assert numbers_taken(queue) == list(range(1, 31))
    push(queue, store)
    assert len(queue.head) == 1


def test_after_a_restart_the_head_is_filled_as_far_as_it_goes(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 10_000)
    queue = a_queue(store, rows=500, size=100)
    queue.load_all_that_fits()
    assert 10_000 <= sum(len(job.payload) for job in queue.head) < 20_000
    assert numbers_taken(queue) == list(range(1, 501))


def test_jobs_in_somebodys_hands_are_not_read_again(store):
    queue = a_queue(store, rows=120)
    in_hand = {1, 2, 3, 60, 120}
    for number in in_hand:
        queue.skipped.add(FIRST + number)
        queue.size -= 1
    assert numbers_taken(queue) == [n for n in range(1, 121) if n not in in_hand]
    assert queue.size == 0


def test_a_page_of_jobs_in_hand_is_passed_over(store):
    queue = a_queue(store, rows=101)
    for number in range(1, 101):
        queue.skipped.add(FIRST + number)
        queue.size -= 1
    assert numbers_taken(queue) == [101]


def test_jobs_in_hand_take_no_room_at_the_head(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 2000)
    queue = a_queue(store, rows=50, size=100)
    for number in range(1, 51):
        queue.skipped.add(FIRST + number)
        queue.size -= 1
    assert numbers_taken(queue) == []
    push(queue, store)
    assert len(queue.head) == 1


def test_a_job_that_comes_back_is_in_front(store):
    queue = a_queue(store)
    push(queue, store, 3)
    first = queue.take()
    assert first is not None
    queue.put_first(first)
    assert queue.size == 3
    assert numbers_taken(queue) == [1, 2, 3]


def test_a_withdrawn_job_is_passed_over(store):
    queue = a_queue(store)
    jobs = push(queue, store, 3)
    queue.withdraw(jobs[0])
    assert queue.size == 2
    assert queue.oldest() is jobs[1]
    assert numbers_taken(queue) == [2, 3]
    assert queue.size == 0


def test_behind_many_withdrawn_jobs_the_disk_is_read(store, monkeypatch):
    monkeypatch.setattr(queues, "HEAD_BYTES", 20_000)
    queue = a_queue(store, rows=2000)
    queue.load_all_that_fits()
    held = list(queue.head)
    assert queues.LOW_JOBS < len(held) < 2000
    for job in held:
        queue.withdraw(job)
    first = queue.take()
    assert first is not None
    assert first.key == held[-1].key + 1


def test_the_oldest_job_is_looked_at_and_stays(store):
    queue = a_queue(store, rows=2)
    oldest = queue.oldest()
    assert oldest is not None
    assert (oldest.key, queue.size) == (FIRST + 1, 2)
    assert numbers_taken(queue) == [1, 2]


def test_a_cleared_queue_is_empty_and_goes_on_with_higher_keys(store):
    queue = a_queue(store, rows=300)
    queue.is_paused = queue.is_listed = True
    queue.take()
    generation = queue.generation
    queue.clear()
    store.rows.clear()
    assert (queue.size, queue.take(), queue.oldest()) == (0, None, None)
    assert (queue.is_paused, queue.is_listed) == (False, False)
    assert queue.generation != generation
    push(queue, store)
    assert numbers_taken(queue) == [301]


class AnyUseOfAQueue(RuleBasedStateMachine):
    """`model` is the order in which jobs must go out; small pages and a small head."""

    @initialize(rows=st.integers(0, 30), in_hand=st.sets(st.integers(1, 30)))
    def start(self, rows, in_hand):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(queues, "HEAD_BYTES", 400)
        self.patch.setattr(queues, "PAGE_JOBS", 7)
        self.patch.setattr(queues, "LOW_JOBS", 3)
        self.store = FakeReader()
        self.queue = a_queue(self.store, rows=rows)
        self.queue._page_jobs = 4
        self.model: deque[int] = deque()
        for number in range(1, rows + 1):
            if number in in_hand:
                self.queue.skipped.add(FIRST + number)
                self.queue.size -= 1
            else:
                self.model.append(number)
        self.in_hand: list[StoredJob] = []

    def teardown(self):
        self.patch.undo()

    @rule(count=st.integers(1, 9), size=st.sampled_from([0, 0, 50, 500]))
    def jobs_are_pushed(self, count, size):
        jobs = push(self.queue, self.store, count, size)
        self.model.extend(job.key - FIRST for job in jobs)

    @rule()
    def one_is_taken(self):
        job = self.queue.take()
        expected = self.model.popleft() if self.model else None
        assert (job.key - FIRST if job else None) == expected
        if job is not None:
            self.in_hand.append(job)

    @precondition(lambda self: self.in_hand)
    @rule()
    def one_comes_back(self):
        job = self.in_hand.pop()
        self.queue.put_first(job)
        self.model.appendleft(job.key - FIRST)

    @precondition(lambda self: any(not job.is_settled for job in self.queue.head))
    @rule(data=st.data())
    def one_is_withdrawn(self, data):
        job = data.draw(st.sampled_from([job for job in self.queue.head if not job.is_settled]))
        self.queue.withdraw(job)
        del self.store.rows[job.key]
        self.model.remove(job.key - FIRST)

    @rule()
    def it_is_cleared(self):
        self.queue.clear()
        self.store.rows.clear()
        self.model.clear()
        self.in_hand.clear()

    @invariant()
    def its_size_is_right(self):
        assert self.queue.size == len(self.model)


TestAnyUseOfAQueue = AnyUseOfAQueue.TestCase

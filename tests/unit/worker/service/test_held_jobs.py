"""What a child has in hand, as its supervisor reads it whenever the child ends."""

import multiprocessing
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.service import held_jobs
from manyhands.worker.service.held_jobs import HeldJob, HeldJobs


@pytest.fixture
def held():
    held = HeldJobs()
    yield held
    held.close()


def test_what_was_not_removed_is_read_in_its_order(held):
    numbers = [held.add(b"job %d" % n, is_started=True) for n in range(5)]
    held.remove(numbers[1])
    held.remove(numbers[3])
    assert held.read() == [HeldJob(b"job %d" % n, True) for n in (0, 2, 4)]


def test_a_job_that_waits_is_told_from_one_that_was_started(held):
    number = held.add(b"first", is_started=False)
    held.add(b"second", is_started=False)
    held.start(number)
    assert held.read() == [HeldJob(b"first", True), HeldJob(b"second", False)]


@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=60))
def test_it_does_not_grow_with_the_jobs_that_are_over(jobs):
    held = HeldJobs()
    least, held_jobs.LEAST_BYTES = held_jobs.LEAST_BYTES, 200
    try:
        kept = []
        for payload, is_over in jobs:
            number = held.add(payload, is_started=True)
            if is_over:
                held.remove(number)
            else:
                kept.append(payload)
        sizes = [os.fstat(file).st_size for file in held._files]
        assert held.read() == [HeldJob(payload, True) for payload in kept]
        assert sum(sizes) < 500 + 4 * sum(len(payload) + 13 for payload in kept)
    finally:
        held_jobs.LEAST_BYTES = least
        held.close()


def test_a_record_that_was_being_written_is_no_job(held):
    held.add(b"whole", is_started=True)
    held.add(b"cut short", is_started=True)
    os.ftruncate(held._files[0], os.fstat(held._files[0]).st_size - 3)
    assert held.read() == [HeldJob(b"whole", True)]


def _die_with_a_job(held: HeldJobs) -> None:
    held.add(b"mine", is_started=True)
    os._exit(3)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_the_parent_reads_what_a_child_had_that_died(held, method):
    child = multiprocessing.get_context(method).Process(target=_die_with_a_job, args=(held,))
    child.start()
    child.join(30)
    assert child.exitcode == 3
    assert held.read() == [HeldJob(b"mine", True)]

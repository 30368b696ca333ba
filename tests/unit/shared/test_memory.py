"""What the system says of the memory of processes."""

import os

from manyhands.shared import memory
from manyhands.shared.memory import own_resident_bytes, resident_bytes


def test_this_process_is_found_by_its_number_too():
    by_number = resident_bytes(os.getpid())
    assert by_number is not None
    assert own_resident_bytes() > 1_000_000
    assert abs(own_resident_bytes() - by_number) < by_number // 2


def test_a_process_that_is_not_there_has_none():
    assert resident_bytes(2**30) is None


def test_without_proc_it_is_the_most_that_was_used(monkeypatch):
    monkeypatch.setattr(memory, "resident_bytes", lambda: None)
    assert own_resident_bytes() > 1_000_000

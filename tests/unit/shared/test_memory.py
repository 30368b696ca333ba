"""What the system says of the memory of processes."""

import os
import subprocess
import sys

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


TAKES_AND_FREES = """
import resource
from manyhands.shared.memory import give_back_large_blocks, keep_free_memory
from resiliparse.parse.html import HTMLTree

give_back_large_blocks()
keep_free_memory()
page = "<p>some words <a href=x>y</a></p>" * 4000
HTMLTree.parse(page)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    HTMLTree.parse(page)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_what_one_page_has_freed_the_next_one_takes():
    """A fault is a piece of memory that the system gave anew: there were 18,000."""
    done = subprocess.run([sys.executable, "-c", TAKES_AND_FREES], capture_output=True, check=True)
    assert int(done.stdout) < 600

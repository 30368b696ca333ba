"""How the tests are dealt out to the processes of `python -m tests`."""

from types import SimpleNamespace
from typing import Any

from tests.spread import LONG, dealt_out

PROCESSES = 6


def test_each_process_gets_as_many_long_tests_and_ends_with_short_ones():
    long = [f"{LONG}test_a.py::test_{number}" for number in range(92)]
    short = [f"tests/contract/test_b.py::test_{number}" for number in range(1000)]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in long + short]

    ordered = [item.nodeid for item in dealt_out(items, PROCESSES)]

    assert sorted(ordered) == sorted(long + short)
    # As xdist does it: consecutive, and as many for each.
    share = len(ordered) // PROCESSES
    shares = [ordered[start : start + share] for start in range(0, len(ordered), share)]
    assert len(shares) == PROCESSES
    assert {sum(name.startswith(LONG) for name in names) for names in shares} == {15, 16}
    assert not any(name.startswith(LONG) for names in shares for name in names[-share // 6 :])
    assert all(names[0].startswith(LONG) for names in shares)


def test_a_single_process_gets_them_all():
    items: list[Any] = [SimpleNamespace(nodeid=f"{LONG}test_a.py::test_{n}") for n in range(3)]
    assert dealt_out(items, 1) == items

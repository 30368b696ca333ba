"""Which tests each process of `python -m tests` gets, a plugin of pytest.

xdist gives every process as many consecutive tests, and later lets those that are ready take some
from the end of others. The acceptance tests are the longest: left together, one process has them
all, and in the end everybody runs one of them at the same time. So they are dealt out, between the
short ones of the first part of each share.
"""

import os
from collections.abc import Sequence

import pytest

LONG = "tests/acceptance/"
# Of each share of tests, so that what others take from its end is short.
WITHOUT_LONG = 0.2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = dealt_out(items, processes)


def dealt_out(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    long = [item for item in items if item.nodeid.startswith(LONG)]
    others = [item for item in items if not item.nodeid.startswith(LONG)]
    ordered: list[pytest.Item] = []
    for process in range(processes):
        mine = long[process::processes]
        size = (len(items) - len(ordered)) // (processes - process)
        short, others = others[: size - len(mine)], others[size - len(mine) :]
        ordered += _mixed(mine, short)
    return ordered


def _mixed(long: Sequence[pytest.Item], short: Sequence[pytest.Item]) -> list[pytest.Item]:
    between = int(len(short) * (1 - WITHOUT_LONG)) // max(1, len(long))
    ordered: list[pytest.Item] = []
    for number, item in enumerate(long):
        ordered += [item, *short[number * between : (number + 1) * between]]
    return [*ordered, *short[len(long) * between :]]

"""Which children there are, and their share of the connections."""

from dataclasses import dataclass

import pytest

from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.supervision.plan import (
    LEAST_CONNECTIONS,
    connections_of_child,
    service_groups,
)


@dataclass
class Said:
    stages: str = ""
    processes: int = 1
    concurrency: int = 500


def test_without_stages_all_processes_run_everything():
    assert service_groups(Said(processes=3, concurrency=70)) == (ProcessGroup("worker", 3, 70),)


def test_stages_say_it_all():
    groups = service_groups(Said("fetch:2x500 parse:1x80", processes=7, concurrency=9))
    assert [(group.name, group.processes, group.slots) for group in groups] == [
        ("fetch", 2, 500),
        ("parse", 1, 80),
    ]


@pytest.mark.parametrize(("budget", "children", "share"), [(96, 1, 95), (96, 2, 47), (97, 2, 48)])
def test_the_supervisor_takes_one_connection_and_the_children_share_the_rest(
    budget, children, share
):
    assert connections_of_child(budget, children) == share


def test_each_child_gets_as_many_as_it_cannot_work_without():
    assert connections_of_child(3, 1) == LEAST_CONNECTIONS
    assert connections_of_child(96, 64) == LEAST_CONNECTIONS

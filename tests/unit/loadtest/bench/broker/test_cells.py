"""The cells of bench-broker: their names, their numbers of jobs, and the order of their runs."""

import pytest

from loadtest.bench.broker.benchmark import needed_consumers
from loadtest.bench.broker.cells import (
    DEFAULT,
    FULL,
    LARGE_BACKLOG,
    BacklogCell,
    DrainCell,
    LatencyCell,
    PushCell,
    SustainedCell,
    is_planned,
    parse_broker_cells,
)
from loadtest.lab.server_runs import SERVERS, plan_servers


def test_every_cell_is_found_by_its_own_key():
    for cell in FULL:
        assert parse_broker_cells(cell.key) == (cell,)
    assert len({cell.key for cell in FULL}) == len(FULL)


def test_cells_that_are_not_among_the_default_ones_can_be_named():
    assert parse_broker_cells("push/10/4, drain/go/50/100,sustained/20,latency/9,backlog/5") == (
        PushCell(10, 4),
        DrainCell("go", 50, 100),
        SustainedCell(20),
        LatencyCell(9),
        BacklogCell(5),
    )


def test_the_beginning_of_keys_means_all_that_begin_so():
    assert [cell.key for cell in parse_broker_cells("push/1")] == ["push/1/1", "push/1/16"]
    assert {cell.kind for cell in parse_broker_cells("drain")} == {"drain"}
    assert len(parse_broker_cells("push,push/1/1")) == 6


@pytest.mark.parametrize(
    "text", ["", "pull", "push/0/1", "push/x/1", "push/1/1/1", "drain/ruby/0/5", "drain/ours/-1/5"]
)
def test_what_is_no_cell_is_refused(text):
    with pytest.raises(ValueError, match="is none of"):
        parse_broker_cells(text)


def test_both_servers_run_side_by_side_in_every_round_and_take_turns():
    cells = DEFAULT[:2]
    plan = plan_servers(dict.fromkeys(cells, tuple(SERVERS)), 2, is_planned)
    steps = [(step.round, step.cell, step.side) for step in plan]
    assert len(steps) == 8
    assert {(number, cell) for number, cell, _ in steps[::2]} == {
        (number, cell) for number, cell, _ in steps[1::2]
    }
    first_of_cell = [server for number, cell, server in steps[::2] if cell == cells[0]]
    assert sorted(first_of_cell) == ["broker", "faktory"]


def test_the_large_backlog_runs_once_and_with_the_broker_only():
    large = BacklogCell(LARGE_BACKLOG)
    steps = list(plan_servers({large: list(SERVERS)}, 3, is_planned))
    assert [(step.side, step.round) for step in steps] == [("broker", 1)]


def test_only_the_consumers_that_take_part_are_built():
    assert needed_consumers(parse_broker_cells("push")) == []
    assert needed_consumers(parse_broker_cells("drain/go,latency,sustained")) == ["go", "ours"]
    assert set(needed_consumers(DEFAULT)) == {"ours", "rust", "go"}


def test_a_run_has_jobs_for_both_servers_and_drains_no_more_than_a_backlog_has():
    assert all(cell.jobs_for(server) > 0 for cell in FULL for server in SERVERS)
    assert BacklogCell(1000).jobs_for("broker") == 1000
    assert PushCell(1, 1).jobs_for("broker") < PushCell(1000, 1).jobs_for("broker")

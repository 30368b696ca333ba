"""The cells of bench-ingest: their names, their requests, and the order of their runs."""

import json

import pytest

from loadtest.bench.ingest.benchmark import plan_ingest
from loadtest.bench.ingest.cells import (
    DEFAULT,
    SIDES,
    ListCell,
    LoneCell,
    SingleCell,
    StreamCell,
    parse_ingest_cells,
)
from loadtest.bench.ingest.measure import jobs_per_request, request_of


def test_every_cell_is_found_by_its_own_key_and_by_its_kind():
    for cell in DEFAULT:
        assert parse_ingest_cells(cell.key) == (cell,)
        assert cell in parse_ingest_cells(cell.kind)
    assert len({cell.key for cell in DEFAULT}) == len(DEFAULT)


def test_cells_that_are_not_among_the_default_ones_can_be_named():
    assert parse_ingest_cells("single/3, lone/4,list/5/6,stream/7,stream/7") == (
        SingleCell(3),
        LoneCell(4),
        ListCell(5, 6),
        StreamCell(7),
    )


@pytest.mark.parametrize("text", ["", "push", "single/0", "single/x", "list/5", "stream/1/1"])
def test_what_is_no_cell_is_refused(text):
    with pytest.raises(ValueError, match="is none of"):
        parse_ingest_cells(text)


def test_a_request_carries_as_many_jobs_as_are_counted_for_it():
    single, _, of_list, stream = (SingleCell(3), LoneCell(4), ListCell(5, 6), StreamCell(7))
    assert json.loads(request_of(single, 1.0).body) == {"a": 1, "b": 1}
    assert len(json.loads(request_of(of_list, 1.0).body)) == jobs_per_request(of_list) == 5
    lines = request_of(stream, 1.0).body.splitlines()
    assert len([json.loads(line) for line in lines]) == jobs_per_request(stream) == 7
    assert jobs_per_request(single) == 1


def test_a_run_ends_by_its_time_or_by_its_count():
    orders = [request_of(cell, 1.5) for cell in DEFAULT]
    assert all((order.seconds == 1.5) != (order.count > 0) for order in orders)


def test_all_sides_of_a_cell_run_side_by_side_in_every_round_and_take_turns():
    cells = (SingleCell(64), StreamCell(9))
    steps = list(plan_ingest(cells, 3))
    assert len(steps) == 3 * (3 + 2)
    firsts = []
    for number in (1, 2, 3):
        sides = [step.side for step in steps if (step.round, step.cell) == (number, cells[0])]
        assert sorted(sides) == sorted(cells[0].sides)
        firsts.append(sides[0])
    assert sorted(firsts) == sorted(cells[0].sides)


def test_ours_is_a_side_of_every_cell():
    for cell in DEFAULT:
        assert cell.sides[0] == "api" == next(iter(SIDES))
        assert set(cell.sides) <= set(SIDES)

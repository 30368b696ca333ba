"""The cells of bench-worker: their names, their numbers of jobs, and the order of their runs."""

import pytest

from loadtest.bench.worker.cells import (
    BOTH,
    CORE,
    FULL,
    PACE_JOBS_PER_S,
    PACED,
    PROFILE,
    SERVICE_RUN_S,
    SLOTS,
    Matrix,
    PacedCell,
    ProcessesCell,
    ProfileCell,
    ServiceCell,
    SlotsCell,
    is_planned,
    jobs_of_drain,
    parse_worker_cells,
)
from loadtest.lab.server_runs import SERVERS, plan_servers


def test_every_cell_is_found_by_its_own_key_and_then_runs_on_both_servers():
    for cell in FULL:
        assert parse_worker_cells(cell.key) == {cell: BOTH}
    assert len({cell.key for cell in FULL}) == len(FULL)


def test_cells_that_are_not_among_the_usual_ones_can_be_named():
    text = "slots/100ms/7, ten_thousand/3x20,paced/9,processes/3,profile/5"
    assert list(parse_worker_cells(text)) == [
        SlotsCell("100ms", 7),
        ServiceCell(3, 20),
        PacedCell(9),
        ProcessesCell(3),
        ProfileCell(5),
    ]


def test_the_beginning_of_keys_means_all_that_begin_so():
    assert list(parse_worker_cells("paced")) == list(PACED)
    assert [cell.slots for cell in parse_worker_cells("slots/1s")] == list(SLOTS)
    assert len(parse_worker_cells("paced,paced/50")) == len(PACED)


@pytest.mark.parametrize(
    "text", ["", "push", "slots/2s/50", "slots/noop/0", "ten_thousand/5", "paced/x", "processes/0"]
)
def test_what_is_no_cell_is_refused(text):
    with pytest.raises(ValueError, match="is none of"):
        parse_worker_cells(text)


def test_the_core_is_part_of_the_whole_and_has_every_kind_of_it():
    assert set(CORE) <= set(FULL)
    assert {cell.kind for cell in CORE} == {cell.kind for cell in FULL}
    assert all(set(CORE[cell]) <= set(FULL[cell]) for cell in CORE)


def test_the_servers_of_a_cell_take_turns_and_a_profile_is_taken_once_from_the_broker():
    cell = SlotsCell("noop", 500)
    matrix: Matrix = {cell: BOTH, PROFILE: BOTH}
    steps = list(plan_servers(matrix, 2, is_planned))
    assert [(step.cell, step.round, step.side) for step in steps] == [
        (cell, 1, "broker"),
        (cell, 1, "faktory"),
        (PROFILE, 1, "broker"),
        (cell, 2, "faktory"),
        (cell, 2, "broker"),
    ]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("slots", SLOTS)
def test_jobs_that_sleep_come_in_whole_waves(slots, server):
    jobs = jobs_of_drain(slots, 1000, server, 4.0)
    assert jobs % slots == 0
    assert jobs // slots >= 5


def test_a_run_of_few_slots_and_long_jobs_does_not_last_for_minutes():
    assert jobs_of_drain(50, 1000, "broker", 4.0) == 250


def test_ten_thousand_slots_are_busy_for_longer_than_two_intervals_of_figures():
    for cell in (ServiceCell(1, 10_000), ServiceCell(2, 5000)):
        assert cell.slots == 10_000
        assert cell.jobs_for("broker") / cell.slots >= SERVICE_RUN_S > 2 * 5


@pytest.mark.parametrize("cell", PACED)
def test_a_paced_load_keeps_the_same_share_of_any_number_of_slots_busy(cell):
    busy = PACE_JOBS_PER_S * cell.sleep_ms / 1000
    assert busy == pytest.approx(cell.slots * 0.75, rel=0.05)
    assert cell.jobs == round(cell.push_s * PACE_JOBS_PER_S)
    assert cell.push_s > cell.sleep_ms / 1000


def test_more_processes_get_more_jobs_and_slots():
    one, two = ProcessesCell(1), ProcessesCell(2)
    assert (two.jobs, two.slots) == (2 * one.jobs, 2 * one.slots)

"""The cells of bench-network, the formula's word on them, and the order of their runs."""

import pytest

from loadtest.bench.consumer.drains import plan
from loadtest.bench.network.cells import (
    CONTENDERS,
    NETWORK,
    ONE_SOCKET_PER_SLOT,
    parse_network_cells,
    predicted_jobs_per_s,
)
from loadtest.lab.cells import SERVER_JOBS_PER_S, Cell
from loadtest.lab.consumers import Consumer, on_broker
from loadtest.lab.lab import LABS

OURS = Consumer("ours", "Manyhands", lambda _slots: [])
RUST = Consumer("rust", "Rust", lambda _slots: [], is_one_socket_per_slot=True)


def test_every_distance_of_the_guide_is_measured_and_every_job_sleeps_100_ms():
    assert {cell.rtt_ms for cell in NETWORK} == {0, 10, 50, 200}
    assert {cell.sleep_ms for cell in NETWORK} == {100}


def test_cells_are_read_from_text_and_are_those_of_the_default_run():
    found = parse_network_cells("50/500, 200/2000,7/300")
    assert [(cell.rtt_ms, cell.slots) for cell in found] == [(50, 500), (200, 2000), (7, 300)]
    assert set(found[:2]) <= set(NETWORK)


@pytest.mark.parametrize("text", ["", "50", "50/0", "x/500", "50/500/1", "noop/50/500"])
def test_what_is_no_cell_is_refused(text):
    with pytest.raises(ValueError, match="is not RTT_MS/SLOTS"):
        parse_network_cells(text)


def test_the_formula_counts_one_round_trip_for_us_and_two_for_a_socket_per_slot():
    cell = Cell("100ms", 50, 500)
    assert predicted_jobs_per_s(cell, "ours", 500) == pytest.approx(500 / 0.155)
    assert predicted_jobs_per_s(cell, "on_broker", 500) == pytest.approx(500 / 0.155)
    assert predicted_jobs_per_s(cell, "rust", 400) == pytest.approx(400 / 0.2)


def test_our_worker_on_the_broker_is_a_contender_of_its_own_with_a_lab_of_its_own():
    contender = on_broker(OURS)
    assert {OURS.name, contender.name, RUST.name} == set(CONTENDERS)
    assert {OURS.server, contender.server} == set(LABS) == set(SERVER_JOBS_PER_S)
    assert {RUST.name} == ONE_SOCKET_PER_SLOT


def test_the_broker_gets_more_jobs_where_faktory_would_be_the_limit_and_only_there():
    fast, slow = Cell("100ms", 0, 2000), Cell("100ms", 200, 100)
    assert on_broker(OURS).jobs_for(fast) > OURS.jobs_for(fast)
    assert on_broker(OURS).jobs_for(slow) == OURS.jobs_for(slow)
    assert on_broker(OURS).jobs_for(fast) % fast.slots == 0


def test_a_socket_per_slot_is_capped_below_what_the_server_accepts():
    assert RUST.slots_for(Cell("100ms", 50, 2000)) == 1900
    assert on_broker(OURS).slots_for(Cell("100ms", 50, 2000)) == 2000


def test_all_contenders_run_in_every_cell_and_round_and_take_turns():
    contenders = [OURS, on_broker(OURS), RUST]
    steps = list(plan(NETWORK, contenders, 3))
    assert len(steps) == len(NETWORK) * 3 * 3
    groups = [steps[at : at + 3] for at in range(0, len(steps), 3)]
    for group in groups:
        assert len({(step.cell, step.round) for step in group}) == 1
        assert {step.side.name for step in group} == set(CONTENDERS)
    first_of_cell = {group[0].side.name for group in groups if group[0].cell == NETWORK[0]}
    assert first_of_cell == set(CONTENDERS)

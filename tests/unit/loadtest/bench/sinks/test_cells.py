"""What bench-sinks runs: its cells, their sides, and in which order; and what its batches are."""

import pytest

from loadtest.bench.crawl.cells import PLAIN
from loadtest.bench.sinks.benchmark import plan_sinks
from loadtest.bench.sinks.cells import (
    ALL,
    CELLS,
    COST_ALONE,
    COST_PLAIN,
    COST_TLS,
    LINKS,
    MADE_UP,
    PARALLEL,
    RECORDS,
    SEQUENTIAL,
    SERVERS,
    WARM_UP_BATCHES,
    WITH,
    WITHOUT,
    BatchOrder,
    CostCell,
    of_size,
    parse_sinks_cells,
    record_id,
    sinks_of_crawl,
)
from loadtest.bench.sinks.handlers import make_batch
from manyhands.worker.records import PageRecord


def test_every_cell_has_a_key_of_its_own():
    assert len({cell.key for cell in CELLS}) == len(CELLS) == 4


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("batch", (MADE_UP, SERVERS)),
        ("crawl/tls138,batch/made-up,crawl", (COST_TLS, MADE_UP, COST_PLAIN)),
    ],
)
def test_cells_are_read_by_their_beginning(text, cells):
    assert parse_sinks_cells(text) == cells


@pytest.mark.parametrize("text", ["batch/made", "", "crawl,plain20"])
def test_an_unknown_cell_is_refused(text):
    with pytest.raises(ValueError, match="no such cell"):
        parse_sinks_cells(text)


def test_each_sink_is_written_alone_and_with_the_others():
    for cell in (MADE_UP, SERVERS):
        assert list(cell.sides) == [*cell.alone, PARALLEL, SEQUENTIAL]
        assert cell.sinks_of(PARALLEL) == cell.sinks_of(SEQUENTIAL) == cell.alone
        assert [cell.sinks_of(side) for side in cell.alone] == [(side,) for side in cell.alone]
    assert MADE_UP.is_made_up
    assert not SERVERS.is_made_up


def test_a_crawl_has_all_sinks_or_one_or_none():
    assert sinks_of_crawl(WITHOUT) == ()
    assert sinks_of_crawl(WITH) == COST_ALONE
    assert sinks_of_crawl("parquet") == ("parquet",)


def test_another_number_of_pages_is_for_crawls_alone():
    small = of_size((MADE_UP, COST_PLAIN), 100)
    assert small == (MADE_UP, CostCell(COST_PLAIN.key, PLAIN.with_pages(100)))


def test_both_sides_of_a_crawl_run_once_a_round_and_not_always_first():
    steps = [step for step in plan_sinks(CELLS, 3) if step.cell is COST_PLAIN]
    rounds = [[step.side for step in steps if step.round == number] for number in (1, 2, 3)]
    assert set(rounds[0]) == {WITHOUT, WITH, *COST_ALONE}
    assert sorted(rounds[1]) == sorted(rounds[2]) == sorted([WITHOUT, WITH])
    assert rounds[1] != rounds[2]


def test_the_sides_of_batches_are_of_one_run():
    steps = [step for step in plan_sinks(CELLS, 3) if step.cell is SERVERS]
    assert [(step.round, step.side) for step in steps] == [(1, ALL), (2, ALL), (3, ALL)]


def test_the_batches_of_an_order_have_each_of_its_records_once():
    order = BatchOrder({PARALLEL: ["sleep:1"]}, 2)
    batches = [make_batch(number) for number in range(WARM_UP_BATCHES + order.batches)]
    assert all(len(batch) == RECORDS for batch in batches)
    written = [record.id for batch in batches for record in batch]
    assert written == [record_id(number) for number in range(order.records)]
    page = batches[-1][-1]
    assert isinstance(page, PageRecord)
    assert len(set(page.links)) == LINKS

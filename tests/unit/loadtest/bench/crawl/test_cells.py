"""What bench-crawl runs: its cells, who crawls them, and in which order."""

import pytest

from loadtest.bench.crawl.benchmark import plan_crawl
from loadtest.bench.crawl.cells import (
    CELLS,
    OUR_SIDES,
    OURS,
    PEERS,
    PLAIN,
    PYTHON_PROFILE,
    RECORDING,
    RECORDS,
    SCALING,
    STORES,
    TLS,
    parse_crawl_cells,
    sides_of,
)


def test_every_cell_has_a_key_of_its_own():
    assert len({cell.key for cell in CELLS}) == len(CELLS) == 8


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("plain20", (PLAIN,)),
        ("scaling", SCALING),
        ("scaling/2,tls138,scaling/2", (SCALING[1], TLS)),
    ],
)
def test_cells_are_read_by_name_or_by_kind(text, cells):
    assert parse_crawl_cells(text) == cells


@pytest.mark.parametrize("text", ["scaling/4", "", "plain20,profile"])
def test_an_unknown_cell_is_refused(text):
    with pytest.raises(ValueError, match="no such cell"):
        parse_crawl_cells(text)


def test_the_stages_have_the_processes_and_slots_of_the_cell():
    assert PLAIN.stages == "crawl:1x100 parse:1x40"
    assert SCALING[2].stages == "crawl:3x50 parse:1x40"
    assert SCALING[2].children == 4


def test_each_process_has_the_same_work_however_many_there_are():
    shares = {
        (cell.web.hosts / cell.processes, cell.web.pages / cell.processes) for cell in SCALING
    }
    assert len(shares) == 1


def test_another_number_of_pages_leaves_each_host_as_large():
    small = PLAIN.with_pages(200)
    assert (small.web.hosts, small.web.pages) == (4, 200)
    assert (small.key, small.stages) == (PLAIN.key, PLAIN.stages)
    assert PLAIN.with_pages(1).web.hosts == 1


def test_the_others_crawl_where_they_are_compared_with():
    assert sides_of(PLAIN, with_peers=False) == [OURS, *PEERS]
    assert sides_of(TLS, with_peers=False) == [OURS]
    assert sides_of(TLS, with_peers=True) == [OURS, *PEERS]
    assert sides_of(STORES, with_peers=True) == list(OUR_SIDES)
    assert all(sides_of(cell, with_peers=False) == list(RECORDING) for cell in RECORDS)
    assert (
        sides_of(SCALING[0], with_peers=True) == sides_of(PYTHON_PROFILE, with_peers=True) == [OURS]
    )


def test_every_crawler_runs_a_cell_once_a_round_and_not_always_first():
    steps = list(plan_crawl(CELLS, 3, with_peers=False))
    assert (
        len(steps)
        == len(set(steps))
        == 3 * sum(len(sides_of(cell, with_peers=False)) for cell in CELLS)
    )
    for cell in (PLAIN, STORES):
        sides = sides_of(cell, with_peers=False)
        assert len(sides) == 3
        first = [step.side for step in steps if step.cell == cell][:: len(sides)]
        assert set(first) == set(sides)

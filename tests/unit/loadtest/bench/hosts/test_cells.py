"""What bench-hosts runs: its cells, and who runs them."""

import pytest

from loadtest.bench.crawl.cells import OURS
from loadtest.bench.hosts.cells import (
    BESIDE_NONE,
    CELLS,
    CRAWL,
    IMPOLITE,
    JOBS,
    POLITE,
    SCALING,
    parse_hosts_cells,
)


def test_every_cell_has_a_key_of_its_own():
    assert len({cell.key for cell in CELLS}) == len(CELLS) == 7


def test_cells_are_read_by_name_or_by_kind():
    assert parse_hosts_cells("jobs") == SCALING[JOBS]
    assert parse_hosts_cells("crawl/3,manners") == (SCALING[CRAWL][2], BESIDE_NONE)
    with pytest.raises(ValueError, match="no such cell"):
        parse_hosts_cells("crawl/4")


def test_each_host_has_the_same_work_however_many_there_are():
    shares = {
        (cell.web.hosts / cell.hosts, cell.web.pages / cell.hosts, cell.slots)
        for cells in SCALING.values()
        for cell in cells
    }
    assert len(shares) == 1


def test_a_kind_has_its_stage_and_its_handlers():
    crawl, jobs = (SCALING[kind][0] for kind in (CRAWL, JOBS))
    assert crawl.stages == "crawl:1x50 parse:1x40"
    assert jobs.stages == "fetch:1x50 parse:1x40"
    assert jobs.handlers == "manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse"


def test_only_manners_has_two_sides():
    assert {cell.sides for cell in CELLS} == {(OURS,), (POLITE, IMPOLITE)}


def test_another_number_of_pages_leaves_each_site_as_large():
    small = SCALING[JOBS][2].with_pages(150)
    assert (small.web.hosts, small.web.pages, small.hosts) == (120, 450, 3)
    smallest = BESIDE_NONE.with_pages(1)
    assert (smallest.web.hosts, smallest.web.pages) == (1, 1)

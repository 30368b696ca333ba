"""The plan and the page of `bench-fetch`."""

import pytest

from loadtest.bench.fetch.benchmark import plan_fetch
from loadtest.bench.fetch.cells import CELLS, OURS, SIDES, FetchCell, FetchOrder, parse_fetch_cells
from loadtest.bench.fetch.report import FetchReport, markdown
from loadtest.lib.runs import SideRun

KEEP = FetchCell("http", "keep", "20k")


def test_the_matrix_has_every_combination_once():
    assert len({cell.key for cell in CELLS}) == len(CELLS) == 8


@pytest.mark.parametrize(
    ("text", "count"), [("http/keep/20k", 1), ("https", 4), ("http/close", 2), ("https,http", 8)]
)
def test_cells_are_read_by_their_beginning(text, count):
    assert len(parse_fetch_cells(text)) == count


def test_an_unknown_cell_is_refused():
    with pytest.raises(ValueError, match="http/keep/2"):
        parse_fetch_cells("http/keep/2")


def test_every_client_runs_every_cell_once_a_round_and_not_always_first():
    steps = list(plan_fetch(CELLS, list(SIDES), 3))
    assert len(steps) == len(set(steps)) == 3 * len(CELLS) * len(SIDES)
    first = [step.side for step in steps if step.cell == KEEP][:: len(SIDES)]
    assert len(set(first)) == 3


def test_a_page_is_right_only_with_its_own_path_and_whole():
    order = FetchOrder("aiohttp", "http", "keep", "20k", 80, "", 1.0, 0)
    page = b"<!doctype html><title>/keep/20000/3-7</title>".ljust(20_000)
    assert order.is_right(page, 3, 7)
    assert not order.is_right(page, 3, 8)
    assert not order.is_right(page[:-1], 3, 7)
    assert order.url(3, 7) == "http://h3.bench.test:80/keep/20000/3-7"


def test_the_page_compares_with_ours_round_by_round_and_tells_failures():
    values = {"cpu_us": 100.0, "pages_per_s": 5.0, "host_cpu_us": 0.0}
    runs = [
        SideRun(KEEP.key, OURS, 1, values=values),
        SideRun(KEEP.key, "httpx", 1, values=values | {"cpu_us": 250.0}),
        SideRun(KEEP.key, "aiohttp", 1, error="a wrong page"),
    ]
    report = FetchReport("python -m loadtest bench-fetch", "now", {}, (KEEP,), runs, True)
    text = markdown(report)
    assert "| httpx | 250 (250 to 250) | 5 (5 to 5) | 2.50 (2.50 to 2.50) | 0 (0 to 0) |" in text
    assert "http/keep/20k, round 1, bare aiohttp: a wrong page" in text

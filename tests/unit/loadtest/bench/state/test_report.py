"""The page of `bench-state`, and that its runs give what it shows."""

from collections import Counter

import pytest

from loadtest.bench.state.cells import cells, kind_of, title_of
from loadtest.bench.state.measure import measure_costs, measure_writers, seen_state
from loadtest.bench.state.places import Files
from loadtest.bench.state.report import FIGURES, StateReport, StateRun, state_markdown
from loadtest.bench.state.urls import KNOWN_SHARE, Links


def names(kind: str) -> set[str]:
    return {figure.name for figure in FIGURES[kind]}


def report(runs: list[StateRun]) -> StateReport:
    return StateReport("a command", "today", {"cores": "2"}, cells([100]), runs, is_complete=True)


def test_the_page_shows_the_median_and_the_range_of_every_cell():
    runs = [
        StateRun(cell, number, values=dict.fromkeys(names(kind_of(cell)), number * 1000.0))
        for cell in cells([5_000_000])
        for number in (1, 2, 4)
    ]
    page = state_markdown(report(runs))
    assert "| SQLite, 4 processes, one shard for all | 2,000 (1,000 to 4,000) |" in page
    assert "| PostgreSQL, 1 process, a shard each |" in page
    assert "| PostgreSQL, 5,000,000 seen URLs | 2,000 (1,000 to 4,000) |" in page


def rate(cell: str, number: int, links_per_s: float) -> StateRun:
    values = dict.fromkeys(names(kind_of(cell)), 1.0) | {"links_per_s": links_per_s}
    return StateRun(cell, number, values=values)


@pytest.mark.parametrize(("links", "verdict"), [(45_000, "met"), (44_999, "missed")])
def test_45_000_links_a_second_are_asked_of_four_writers(links, verdict):
    page = state_markdown(report([rate("writers/postgres/4/own", 1, links)]))
    assert f"| {links:,} ({links:,} to {links:,}) | {verdict} |" in page


@pytest.mark.parametrize(("links", "verdict"), [(500, "met"), (499, "missed")])
def test_half_of_the_rate_is_asked_among_twenty_times_as_many(links, verdict):
    runs = [
        rate("seen/postgres/20000000", 1, links),
        rate("seen/postgres/1000000", 1, 1000.0),
        rate("seen/sqlite/1000000", 1, 9.0),
    ]
    assert f"{links / 1000:.2f}) | {verdict} |" in state_markdown(report(runs))


def test_a_part_can_be_measured_alone():
    assert {kind_of(cell) for cell in cells([1], ["seen", "costs"])} == {"seen", "costs"}


def test_a_run_that_failed_is_named_and_not_counted():
    values = dict.fromkeys(names("costs"), 7.0)
    cell = "costs/sqlite"
    page = state_markdown(report([StateRun(cell, 1, values=values), StateRun(cell, 2, "no")]))
    assert "7.0 (7.0 to 7.0)" in page
    assert "- costs/sqlite, round 2, SQLite: no" in page


def test_every_cell_has_a_title_of_its_own():
    titles = [title_of(cell) for cell in cells([100, 200])]
    assert len(set(titles)) == len(titles)


def test_the_runs_give_what_the_page_shows(tmp_path):
    assert set(measure_costs(Files(tmp_path / "costs"), 2560)) == names("costs")
    assert set(measure_writers(Files(tmp_path / "writers"), 1, True, 0.05)) == names("writers")
    with seen_state(Files(tmp_path / "seen"), 6400) as state:
        values = state.measure(1, 1)
    assert set(values) == names("seen")
    assert 0.3 < values["duplicates_share"] < 0.6


def test_links_are_known_as_often_as_said_and_go_mostly_to_one_host():
    [batch] = Links(0, 200, 7, known=[bytes(16)]).batches(1, 4000)
    seen: set[bytes] = {bytes(16)}
    known = 0
    for link in batch:
        known += link.key in seen
        seen.add(link.key)
    assert abs(known / len(batch) - KNOWN_SHARE) < 0.05
    assert Counter(link.origin for link in batch).most_common(1)[0][1] > len(batch) / 2

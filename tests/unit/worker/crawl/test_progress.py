"""When a crawl is complete, and which limit it has reached."""

from dataclasses import replace

import pytest

from manyhands.shared.crawl.spec import CrawlSpec, LimitSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import Crawl
from manyhands.worker.crawl.progress import ProgressLines, Totals, limit_reached, why_failed

CRAWL = Crawl(
    id=1,
    spec=CrawlSpec(contact="me@example.org"),
    state=CrawlState.RUNNING,
    ends_as=None,
    reason="",
    created_at=0.0,
    started_at=100.0,
    ended_at=None,
    has_all_seeds=True,
    seed_file_lines=0,
)
NOTHING = Totals.of([])


def with_limits(**limits: float) -> Crawl:
    spec = CrawlSpec(contact="me@example.org", limits=LimitSpec.model_validate(limits))
    return replace(CRAWL, spec=spec)


@pytest.mark.parametrize("name", ["queued", "claimed", "parsing", "outgoing"])
def test_whatever_is_under_way_anywhere_is_owed(name: str) -> None:
    assert Totals.of([{}, {name: 1}, {"done": 5}]).owed == 1


def test_what_has_ended_is_not_owed() -> None:
    ended = {"done": 3, "failed": 1, "redirected": 1, "skipped": 1, "disallowed": 1, "cancelled": 1}

    assert Totals.of([ended]).owed == 0


def test_a_change_in_any_shard_is_seen() -> None:
    before = Totals.of([{"changes": 3}, {"changes": 4}])

    assert Totals.of([{"changes": 4}, {"changes": 3}]).changes != before.changes


@pytest.mark.parametrize(
    ("limits", "counters", "now", "says"),
    [
        ({"pages": 10}, {"pages": 9}, 0.0, None),
        ({"pages": 10}, {"pages": 10}, 0.0, "10 pages"),
        ({"bytes": 10}, {"bytes": 11}, 0.0, "10 bytes"),
        ({"duration_s": 5}, {}, 104.9, None),
        ({"duration_s": 5}, {}, 105.0, "5 s"),
        ({}, {"pages": 10**9, "bytes": 10**15}, 10.0**9, None),
    ],
)
def test_limits(
    limits: dict[str, float], counters: dict[str, int], now: float, says: str | None
) -> None:
    reason = limit_reached(with_limits(**limits), Totals.of([counters]), now)

    assert reason is None if says is None else says in str(reason)


def test_a_crawl_that_has_not_started_has_used_no_time() -> None:
    crawl = replace(with_limits(duration_s=5), started_at=None)

    assert limit_reached(crawl, NOTHING, 10.0**9) is None


def test_a_crawl_without_any_seed_in_scope_has_failed() -> None:
    assert "scope" in str(why_failed(NOTHING))


def test_a_crawl_that_got_not_one_page_has_failed() -> None:
    assert "not one page" in str(why_failed(Totals.of([{"admitted": 3, "failed": 3}])))


def test_a_crawl_with_a_page_has_not() -> None:
    assert why_failed(Totals.of([{"admitted": 3, "failed": 2, "pages": 1, "done": 1}])) is None


def test_progress_is_a_line_a_minute_with_the_pace_of_that_minute() -> None:
    lines = ProgressLines()
    assert lines.line(1, Totals.of([{"pages": 50}]), 1000.0) is None
    assert lines.line(1, Totals.of([{"pages": 90}]), 1059.9) is None
    line = lines.line(1, Totals.of([{"pages": 350, "queued": 7}, {"claimed": 2}]), 1060.0)
    assert line is not None
    assert (line["pages"], line["pages_per_s"]) == (350, 5.0)
    assert (line["queued"], line["in_flight"]) == (7, 2)
    assert lines.line(1, Totals.of([{"pages": 351}]), 1061.0) is None
    assert lines.line(2, NOTHING, 1061.0) is None


def test_a_crawl_that_has_ended_is_forgotten() -> None:
    lines = ProgressLines()
    lines.line(1, NOTHING, 0.0)
    lines.forget(1)
    assert lines.line(1, NOTHING, 600.0) is None

"""How many crawls are in each state: those that ended are read once."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from manyhands.api.crawls.counts import CrawlCounts
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import NewCrawl
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.directory import open_control

SPEC = CrawlSpec(contact="me@example.org")
MANY = 100


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SqliteControl]:
    with closing(open_control(tmp_path)) as control:
        yield control


def add(control: SqliteControl, state: CrawlState) -> int:
    crawl, _ = control.create_crawl(NewCrawl(SPEC), 1.0)
    change(control, crawl.id, state)
    return crawl.id


def change(control: SqliteControl, crawl: int, state: CrawlState) -> None:
    assert control.change_state(crawl, list(CrawlState), state, 2.0)


def counted(counts: CrawlCounts, control: SqliteControl) -> dict[str, int]:
    return {state: number for state, number in counts.count(control).items() if number}


def test_without_crawls_all_states_are_there(control):
    assert CrawlCounts().count(control) == dict.fromkeys(CrawlState, 0)


def test_every_crawl_is_counted_once_however_they_change(control):
    counts = CrawlCounts()
    ended = [add(control, CrawlState.COMPLETED) for _ in range(MANY)]
    live = add(control, CrawlState.RUNNING)
    ended += [add(control, CrawlState.FAILED) for _ in range(MANY)]
    for _ in range(2):
        assert counted(counts, control) == {"completed": MANY, "running": 1, "failed": MANY}
    change(control, live, CrawlState.CANCELLED)
    add(control, CrawlState.STARTING)
    for _ in range(2):
        assert counted(counts, control) == {
            "completed": MANY,
            "cancelled": 1,
            "failed": MANY,
            "starting": 1,
        }


def test_those_that_ended_long_ago_are_not_read_again(control: SqliteControl) -> None:
    counts = CrawlCounts()
    for _ in range(3 * MANY):
        add(control, CrawlState.COMPLETED)
    counts.count(control)
    asked: list[int] = []

    class Watched:
        def crawl_states(self, above_id: int) -> list[tuple[int, CrawlState]]:
            asked.append(above_id)
            return control.crawl_states(above_id)

    states = counts.count(Watched())  # type: ignore[arg-type]
    assert states[CrawlState.COMPLETED] == 3 * MANY
    assert asked == [3 * MANY]

"""How many crawls are in each state: those that ended are read once."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api.crawls.census import PAGE, Census
from shared.crawl.spec import CrawlSpec
from shared.crawl.states import CrawlState
from shared.state.directory import open_control
from shared.state.model import Crawl
from shared.state.sqlite_control import SqliteControl

SPEC = CrawlSpec(contact="me@example.org")


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SqliteControl]:
    with closing(open_control(tmp_path)) as control:
        yield control


def add(control: SqliteControl, state: CrawlState) -> int:
    crawl, _ = control.create_crawl(SPEC, 1.0, None, b"")
    change(control, crawl.id, state)
    return crawl.id


def change(control: SqliteControl, crawl: int, state: CrawlState) -> None:
    assert control.change_state(crawl, list(CrawlState), state, 2.0)


def counted(census: Census, control: SqliteControl) -> dict[str, int]:
    return {state: number for state, number in census.count(control).items() if number}


def test_without_crawls_all_states_are_there(control):
    assert Census().count(control) == dict.fromkeys(CrawlState, 0)


def test_every_crawl_is_counted_once_however_they_change(control):
    census = Census()
    ended = [add(control, CrawlState.COMPLETED) for _ in range(PAGE)]
    live = add(control, CrawlState.RUNNING)
    ended += [add(control, CrawlState.FAILED) for _ in range(PAGE)]
    for _ in range(2):
        assert counted(census, control) == {"completed": PAGE, "running": 1, "failed": PAGE}
    change(control, live, CrawlState.CANCELLED)
    add(control, CrawlState.STARTING)
    for _ in range(2):
        assert counted(census, control) == {
            "completed": PAGE,
            "cancelled": 1,
            "failed": PAGE,
            "starting": 1,
        }


def test_those_that_ended_long_ago_are_not_read_again(control: SqliteControl) -> None:
    census = Census()
    for _ in range(3 * PAGE):
        add(control, CrawlState.COMPLETED)
    census.count(control)
    pages = 0

    class Watched:
        def crawls(self, after_id: int, limit: int) -> list[Crawl]:
            nonlocal pages
            pages += 1
            return control.crawls(after_id, limit)

    states = census.count(Watched())  # type: ignore[arg-type]
    assert states[CrawlState.COMPLETED] == 3 * PAGE
    assert pages == 1

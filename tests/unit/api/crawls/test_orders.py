"""Pause, resume and cancel, while the workers change the same crawl."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from manyhands.api.crawls.orders import MOST_TRIES, CrawlAction, carry_out
from manyhands.api.problems import Problem
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import FINAL_CRAWL_STATES, CrawlState
from manyhands.shared.crawl.store.model import NewCrawl
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.directory import open_control

NOW = 5.0


@pytest.fixture
def control(tmp_path: Path) -> Iterator[SqliteControl]:
    with closing(open_control(tmp_path)) as control:
        yield control


@pytest.fixture
def crawl(control: SqliteControl) -> int:
    return control.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org")), 1.0)[0].id


class Changed:
    """A store in which somebody else is first, so often."""

    def __init__(self, control: SqliteControl, states: list[CrawlState]) -> None:
        self._control = control
        self._states = states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)

    def change_state(self, crawl: int, *arguments: Any, **more: Any) -> bool:
        if self._states:
            self._control.change_state(crawl, list(CrawlState), self._states.pop(0), NOW)
        return self._control.change_state(crawl, *arguments, **more)


@pytest.mark.parametrize(
    ("before", "action", "after"),
    [
        ([], CrawlAction.PAUSE, "paused"),
        ([CrawlState.RUNNING], CrawlAction.PAUSE, "paused"),
        ([CrawlState.PAUSED], CrawlAction.PAUSE, "paused"),
        ([CrawlState.PAUSED], CrawlAction.RESUME, "starting"),
        ([CrawlState.RUNNING, CrawlState.PAUSED], CrawlAction.RESUME, "running"),
        ([CrawlState.RUNNING], CrawlAction.RESUME, "running"),
        ([CrawlState.RUNNING], CrawlAction.CANCEL, "stopping"),
        ([CrawlState.STOPPING], CrawlAction.CANCEL, "stopping"),
    ],
)
def test_each_order_leads_to_its_state(control, crawl, before, action, after):
    for state in before:
        control.change_state(crawl, list(CrawlState), state, NOW)
    assert carry_out(control, crawl, action, NOW).state == after
    assert control.crawl(crawl).state == after


@pytest.mark.parametrize("action", CrawlAction)
@pytest.mark.parametrize("state", sorted(FINAL_CRAWL_STATES))
def test_a_crawl_that_has_ended_stays_so(control, crawl, action, state):
    control.change_state(crawl, list(CrawlState), state, NOW)
    with pytest.raises(Problem) as caught:
        carry_out(control, crawl, action, NOW)
    assert (caught.value.status, caught.value.more) == (409, {"state": state})
    assert control.crawl(crawl).state is state


@pytest.mark.parametrize("action", [CrawlAction.PAUSE, CrawlAction.RESUME])
def test_one_that_is_ending_is_only_let_end(control, crawl, action):
    control.change_state(
        crawl, list(CrawlState), CrawlState.STOPPING, NOW, ends_as=CrawlState.LIMIT_REACHED
    )
    with pytest.raises(Problem, match="is ending"):
        carry_out(control, crawl, action, NOW)
    assert carry_out(control, crawl, CrawlAction.CANCEL, NOW).ends_as is CrawlState.LIMIT_REACHED


def test_an_order_that_comes_second_looks_again(control, crawl):
    both = Changed(control, [CrawlState.RUNNING])
    assert carry_out(both, crawl, CrawlAction.PAUSE, NOW).state == "paused"
    control.change_state(crawl, list(CrawlState), CrawlState.RUNNING, NOW)
    ended = Changed(control, [CrawlState.COMPLETED])
    with pytest.raises(Problem, match="has ended"):
        carry_out(ended, crawl, CrawlAction.CANCEL, NOW)


def test_a_crawl_that_never_stays_as_it_is_is_given_up(control, crawl):
    never = Changed(control, [CrawlState.RUNNING, CrawlState.STARTING] * MOST_TRIES)
    with pytest.raises(Problem) as caught:
        carry_out(never, crawl, CrawlAction.CANCEL, NOW)
    assert caught.value.status == 503

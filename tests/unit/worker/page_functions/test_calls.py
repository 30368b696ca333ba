"""What a crawl is told of a page that a function had."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyhands import Page, Retry
from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.messages import FetchedPage
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.worker.page_functions.calls import MOST_ATTEMPTS, Applied, apply, no_functions
from manyhands.worker.page_functions.deaths import MOST_DEATHS, Deaths
from manyhands.worker.page_functions.registry import PageFunctions
from manyhands.worker.pages.bodies import pack
from manyhands.worker.pages.extraction import extract

PAGE = FetchedPage(
    visit="store.3.key.1",
    crawl=3,
    key="00",
    url="https://a.example/",
    depth=1,
    status=200,
    content_type="text/html",
    robots_tag="",
    obeys_nofollow=True,
    is_truncated=False,
    fetched_at="2026-01-01T00:00:00Z",
    body=pack(b"<title>A</title><a href=b>b</a>"),
    arrival=Arrival(31),
    handlers="shop",
)

NEVER_LEFT: list[object] = []
# Nothing can be made there.
NOWHERE = Path("/dev/null/deaths")


async def applied(
    function: Callable[[Page], Any], fetched: FetchedPage = PAGE, directory: Path = NOWHERE
) -> Applied:
    functions = PageFunctions()
    functions.page("*")(function)
    [made] = functions.functions
    made = replace(made, module="shop", name="books")
    return await apply(
        made, fetched, extract(fetched), can_emit=True, limit_s=20.0, deaths=Deaths(directory)
    )


async def test_what_it_asked_for_is_counted_and_the_record_stays():
    def ask(page: Page) -> None:
        page.emit(1)
        page.follow("/c", note=[1])
        page.follow("mailto:a@b.example")

    result = await applied(ask)
    assert result.found.record is not None and result.found.record.title == "A"
    assert result.found.links == ["https://a.example/b"]
    assert result.noted == (("https://a.example/c", "[1]"),)
    assert dict(result.found.counts) == {"emitted": 1, "followed": 1, "follow_refused": 1}
    assert result.setback is None


async def test_one_that_raises_leaves_a_failed_record_and_nothing_else():
    def fail(page: Page) -> None:
        page.emit(1)
        page.follow("/c")
        raise KeyError("a\0\ud800")

    result = await applied(fail)
    record, setback = result.found.record, result.setback
    assert record is not None and setback is not None
    assert (result.items, result.noted, result.found.links) == ((), (), [])
    assert setback.reason.startswith("page function shop.books: KeyError (test_calls.py, line ")
    assert "raise KeyError" in setback.detail
    assert (setback.again_after_s, setback.attempts, setback.status) == (None, 1, 200)
    assert (record.id, record.kind) == ("store.3.key.1.failed", "failed")
    assert record.reason is not None and record.reason.startswith(setback.reason)
    assert "\0" not in setback.detail and setback.detail.encode()


async def test_pages_that_fail_in_one_line_have_one_reason():
    def fail(page: Page) -> None:
        raise ValueError(page.url)

    one, other = [
        (await applied(fail, PAGE._replace(url=f"https://a.example/{n}"))).setback for n in (1, 2)
    ]
    assert one is not None and other is not None
    assert one.reason == other.reason
    assert one.detail != other.detail


async def test_a_page_is_tried_again_so_often_and_then_it_has_failed():
    def again(page: Page) -> None:
        raise Retry(after_s=7, reason="not yet")

    first = await applied(again)
    last = await applied(again, PAGE._replace(attempts=MOST_ATTEMPTS - 1))
    assert first.setback is not None and last.setback is not None
    assert (first.setback.again_after_s, first.found.record) == (7, None)
    assert (last.setback.again_after_s, last.setback.attempts) == (None, MOST_ATTEMPTS)
    assert last.found.record is not None
    assert last.setback.reason == "page function shop.books: not yet"


def died_at(directory: Path, visit: str) -> None:
    """As if the process had ended: nobody leaves it."""
    never_left = Deaths(directory).at(visit)
    never_left.__enter__()
    NEVER_LEFT.append(never_left)


async def test_a_page_at_which_processes_ended_is_not_given_to_the_function(tmp_path: Path):
    called: list[Page] = []
    for _ in range(MOST_DEATHS):
        died_at(tmp_path, PAGE.visit)

    result = await applied(lambda page: called.append(page), directory=tmp_path)

    assert called == []
    assert result.setback is not None
    assert result.setback.reason == "page function shop.books: ended its process 2 times"
    assert Deaths(tmp_path).so_far(PAGE.visit) == 0


async def test_other_pages_go_on_and_nothing_is_left_of_them(tmp_path: Path):
    directory = tmp_path / "made when it is needed"
    for function in (lambda _: None, wait_twice):
        assert (await applied(function, directory=directory)).setback is None
    assert list(directory.iterdir()) == []


async def test_a_death_counts_until_the_function_has_come_to_its_end(tmp_path: Path):
    died_at(tmp_path, PAGE.visit)
    so_far = []

    async def look(page: Page) -> None:
        await wait_twice(page)
        so_far.append(Deaths(tmp_path).so_far(PAGE.visit))

    await applied(look, directory=tmp_path)

    assert so_far == [2]
    assert Deaths(tmp_path).so_far(PAGE.visit) == 0


async def wait_twice(_: Page) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path):
    (tmp_path / "file").touch()
    result = await applied(lambda _: None, directory=tmp_path / "file")
    assert result.setback is None


def test_a_module_that_is_not_here_is_named():
    setback = no_functions(PAGE, extract(PAGE)).setback
    assert setback is not None
    assert "no page functions of the module shop in WORKER_HANDLERS" in setback.reason


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "a.", "os;x", "a" * 101])
def test_only_a_module_can_be_named(name: str) -> None:
    from_request = {"contact": "me@example.org", "handlers": name}
    with pytest.raises(ValueError, match="the name of a module is wanted"):
        CrawlSpec.model_validate(from_request)

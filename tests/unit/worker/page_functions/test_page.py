"""A page as a function sees it, and what it may ask for."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from manyhands import Page, Retry, page
from manyhands.shared.errors import ConfigError
from manyhands.testing import Done, Failed, PageResult, run_page
from manyhands.worker.page_functions.page import (
    MAX_ITEM_BYTES,
    MAX_ITEMS,
    MAX_NOTE_BYTES,
)
from manyhands.worker.page_functions.registry import PAGE_FUNCTIONS
from manyhands.worker.pages.html import MAX_CRAWLED_LINKS

URL = "https://quotes.example/page/"
HTML = """<title>Quotes</title><meta name=author content=me>
<div class=quote><span>To be</span><a href="/author/1" class=by>one</a></div>
<div class=quote><span>Not to be</span><a href="/author/2#x" class=by>two</a></div>
<a href="mailto:me@quotes.example">mail</a><a href="/ad" rel=nofollow>ad</a>"""


@pytest.fixture(autouse=True)
def _own_functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(PAGE_FUNCTIONS, "functions", [])
    yield


def result_of(function: Callable[[Page], Any], html: str = HTML, **more: Any) -> PageResult:
    page("*")(function)
    return run_page(html, url=URL, **more)


def message_of(function: Callable[[Page], Any], html: str = HTML, **more: Any) -> str:
    outcome = result_of(function, html, **more).outcome
    assert isinstance(outcome, Failed)
    return outcome.message


def test_it_has_selectors_by_css_and_xpath():
    def look(page: Page) -> None:
        page.emit(page.css("div.quote span::text").getall())
        page.emit(page.xpath("//a[@class=$name]/@href", name="by").getall())

    assert result_of(look).items == [["To be", "Not to be"], ["/author/1", "/author/2#x"]]


def test_it_has_the_answer_and_what_was_extracted():
    def look(page: Page) -> None:
        page.emit([page.url, page.status, page.headers["etag"], page.depth, page.attempts])
        page.emit([page.text[:14], page.body[:3].decode(), page.record.title, page.links])

    answer, content = result_of(look, status=203, headers={"ETag": "e"}, depth=2, attempts=1).items
    assert answer == [URL, 203, "e", 2, 1]
    links = ["https://quotes.example/author/1", "https://quotes.example/author/2"]
    assert content == ["<title>Quotes<", "<ti", "Quotes", links]


def test_a_page_without_a_body_has_no_elements():
    def look(page: Page) -> None:
        page.emit(page.css("a").getall())

    assert result_of(look, "").items == [[]]


def test_the_charset_is_that_of_the_page():
    def look(page: Page) -> None:
        page.emit(page.css("title::text").get())

    page("*")(look)
    body = "<title>Grüße</title>".encode("latin-1")
    assert run_page(body, url=URL, content_type="text/html; charset=latin-1").items == ["Grüße"]


def test_what_it_emits_has_a_kind_and_says_where_it_is_from():
    (record,) = result_of(lambda page: page.emit({"a": 1}, kind="quote")).records
    assert record == {
        "id": "test.1.page.1.quote.0",
        "kind": "quote",
        "crawl": 1,
        "url": URL,
        "fetched_at": "2026-01-01T00:00:00Z",
        "item": {"a": 1},
    }


def test_a_key_is_the_same_record_on_every_page_and_no_other_is():
    def emit(page: Page) -> None:
        page.emit(1, kind="quote", key="a")
        page.emit(2, kind="author", key="a")
        page.emit(3, kind="quote", key="b")
        page.emit(4, kind="quote")

    page("*")(emit)
    first, other = (run_page(HTML, url=f"{URL}{n}").records for n in (1, 2))
    ids = [record["id"] for record in first]
    assert len(set(ids)) == 4
    assert [record["id"] for record in other][:3] == ids[:3]
    assert not any(key.startswith("test.1.page") for key in ids[:3])


@pytest.mark.parametrize(
    ("item", "more", "message"),
    [
        ({1, 2}, {}, "not JSON serializable"),
        (1, {"kind": "page"}, "no kind of record: 'page'"),
        (1, {"kind": "Two words"}, "no kind of record"),
        (1, {"key": ""}, "a key has 1 to"),
        ("x" * MAX_ITEM_BYTES, {}, "a record has at most"),
    ],
)
def test_what_cannot_be_a_record_is_an_error_where_it_is_emitted(item, more, message):
    assert message in message_of(lambda page: page.emit(item, **more))


def test_its_records_are_limited():
    def emit(page: Page) -> None:
        for number in range(MAX_ITEMS + 1):
            page.emit(number)

    assert "more than" in message_of(emit)


@pytest.mark.parametrize(
    "targets",
    [
        lambda _: ["/author/1", "/author/2"],
        lambda page: page.css("a.by"),
        lambda page: page.css("a.by::attr(href)"),
        lambda page: page.css("a.by::attr(href)").getall(),
        lambda page: iter(page.xpath("//a[@class='by']")),
    ],
)
def test_it_follows_references_elements_and_lists_of_them_with_a_note(targets):
    def follow(page: Page) -> None:
        page.follow(targets(page), note={"from": page.url})

    note = {"from": URL}
    assert result_of(follow).followed == {
        "https://quotes.example/author/1": note,
        "https://quotes.example/author/2": note,
    }


def test_one_url_is_followed_once_and_relative_to_the_base():
    def follow(page: Page) -> None:
        page.follow("next", note=1)
        page.follow(page.css("a")[0], note=2)

    html = "<base href=/else/><a href=next>n</a>"
    assert result_of(follow, html).followed == {"https://quotes.example/else/next": 1}


def test_what_cannot_be_fetched_or_is_not_to_be_followed_is_not():
    assert result_of(lambda page: page.follow(page.css("a")[2:])).followed == {}


def test_a_page_that_robots_are_not_to_follow_is_not_followed():
    html = "<meta name=robots content=nofollow><a href=x>x</a>"
    result = result_of(lambda page: page.follow("x"), html)
    assert (result.followed, result.links) == ({}, [])


def test_an_element_without_a_reference_is_an_error():
    assert "an element without href" in message_of(lambda page: page.follow(page.css("div")))


def test_its_notes_and_urls_are_limited():
    assert "a note has at most" in message_of(
        lambda page: page.follow("x", note="x" * MAX_NOTE_BYTES)
    )
    PAGE_FUNCTIONS.functions.clear()
    assert "URLs to follow" in message_of(
        lambda page: page.follow(f"/{n}" for n in range(MAX_CRAWLED_LINKS + 1))
    )


def test_the_note_that_the_url_was_followed_with_is_on_the_page():
    assert result_of(lambda page: page.emit(page.note), note={"a": [1]}).items == [{"a": [1]}]


def test_a_dropped_page_has_no_record_and_the_rest_counts():
    def drop(page: Page) -> None:
        page.emit(1)
        page.follow("/x")
        page.drop()

    result = result_of(drop)
    assert result.record is None
    assert (result.items, list(result.followed)) == ([1], ["https://quotes.example/x"])


def test_the_links_are_its_to_change():
    def change(page: Page) -> None:
        page.links = [link for link in page.links if link.endswith("1")]

    assert result_of(change).links == ["https://quotes.example/author/1"]


def test_links_that_are_no_text_are_an_error():
    def change(page: Page) -> None:
        page.links = [None]  # type: ignore[list-item]

    assert "no text" in message_of(change)


def test_it_may_ask_for_another_attempt():
    def again(page: Page) -> None:
        raise Retry(after_s=5, reason="half of it is missing")

    outcome = result_of(again).outcome
    assert isinstance(outcome, Retry) and outcome.after_s == 5


@pytest.mark.parametrize(
    "error", [KeyError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()]
)
def test_whatever_it_raises_is_its_failure_with_a_traceback(error):
    def fail(page: Page) -> None:
        raise error

    outcome = result_of(fail).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error_type == type(error).__name__
    assert any("raise error" in line for line in outcome.backtrace)


def test_what_it_returns_is_not_lost_silently():
    assert "emit records" in message_of(lambda _: [1])


def test_an_async_function_is_awaited():
    async def look(page: Page) -> None:
        page.emit(page.url)

    assert result_of(look).items == [URL]


async def test_it_runs_in_an_async_test_too():
    assert isinstance(result_of(lambda _: None).outcome, Done)


@pytest.mark.parametrize(
    ("pattern", "url", "gets"),
    [
        ("quotes.example/*", "https://quotes.example/a", True),
        ("quotes.example/*", "http://quotes.example/", True),
        ("quotes.example/*", "https://other.example/?u=https://quotes.example/", False),
        ("https://quotes.example/*", "http://quotes.example/", False),
        ("*.quotes.example/*", "https://www.quotes.example/", True),
        ("*", "https://anything.example/", True),
    ],
)
def test_a_pattern_says_which_pages_it_gets(pattern, url, gets):
    page(pattern)(lambda _: None)
    if gets:
        run_page(HTML, url=url)
    else:
        with pytest.raises(LookupError, match="no @page function matches"):
            run_page(HTML, url=url)


def test_of_several_that_match_the_first_gets_the_page():
    page("quotes.example/*")(lambda page: page.emit(1))
    page("*")(lambda page: page.emit(2))
    assert run_page(HTML, url=URL).items == [1]


@pytest.mark.parametrize("patterns", [(), ("example.org",), ("a b/*",), ("x/#y",)])
def test_a_pattern_that_no_url_matches_is_refused(patterns):
    with pytest.raises(ConfigError, match="@page"):
        page(*patterns)


def test_a_module_has_its_functions_and_those_of_the_modules_inside():
    for module in ("shop", "shop.books", "shopping"):

        def function(page: Page) -> None: ...

        function.__module__ = module
        page("*")(function)
    found = PAGE_FUNCTIONS.of_module("shop")
    assert [function.module for function in found] == ["shop", "shop.books"]
    assert PAGE_FUNCTIONS.of_module("sho") == []

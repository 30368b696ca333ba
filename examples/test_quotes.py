"""How page functions are tested: with a page, and without a crawl."""

from examples import quotes
from manyhands.testing import Done, run_page

LIST = """<div class="quote"><span class="text">Still waters run deep.</span>
by <small class="author">N. N.</small> <a class="tag">water</a><a class="tag">depth</a></div>"""
AUTHOR = """<h3 class="author-title"> N. N. </h3><span class="author-born">1609</span>
<div class="author-about">Nobody knows.</div>"""


def test_a_list_of_quotes_becomes_a_record_of_each() -> None:
    result = run_page(LIST, url="https://quotes.example/page/2/")

    assert isinstance(result.outcome, Done)
    assert result.items == [
        {"text": "Still waters run deep.", "author": "N. N.", "tags": ["water", "depth"]}
    ]


def test_an_author_is_one_record_wherever_the_page_is_found() -> None:
    first, again = (run_page(AUTHOR, url=f"https://quotes.example/author/{n}/") for n in (1, 2))

    assert first.items == [{"name": "N. N.", "born": "1609", "about": "Nobody knows."}]
    assert first.records[0]["kind"] == "author"
    assert first.records[0]["id"] == again.records[0]["id"]


def test_the_functions_are_those_of_the_example() -> None:
    assert {quotes.author.__name__, quotes.quotes.__name__} == {"author", "quotes"}

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from manyhands.cli.cuts import cut_texts
from manyhands.cli.summary import counts, is_good, size, summary_document, summary_table
from manyhands.shared.crawl.cuts import CUT_COUNTERS, Cut
from tests.unit.cli.snapshots import error, snapshot


def shown(renderable: object) -> str:
    console = Console(width=120, file=StringIO(), markup=False, record=True)
    console.print(renderable)
    return console.export_text()


def test_the_table_tells_pages_rate_states_and_errors():
    ended = snapshot(
        "completed",
        done=21,
        pages=21,
        bytes=2 * 1024 * 1024,
        links=1000,
        errors=(error("http 404", 3),),
    )
    text = shown(summary_table(ended))
    assert "crawl 1 completed" in text
    assert "21 in 10.5 s: 2.0/s, 2.0 MiB" in text
    assert "done 21" in text
    assert "links 1,000" in text
    assert "3 × http 404, such as https://a.example/x" in text


def test_pages_that_were_cut_are_told_with_what_cut_them():
    cut = snapshot("completed", pages=21, cut_by_parse_limit=12, cut_by_nesting=1)
    text = shown(summary_table(cut))
    assert "12 pages were cut at FETCH_TRUNCATE_BYTES: their further links were not seen" in text
    assert "1 page was cut where too many elements" in text
    assert "FETCH_MAX_BYTES" not in text
    assert "cut" not in shown(summary_table(snapshot("completed", pages=21)))


def test_every_way_to_cut_a_page_is_told():
    counters = dict.fromkeys(CUT_COUNTERS.values(), 1)
    assert len(cut_texts(counters)) == len(Cut)


def test_an_interrupted_crawl_tells_what_was_left_out_and_what_waits():
    host = {
        "origin": "http://a.example:81",
        "reason": "robots.txt: connection refused",
        "ready_at": "2030-01-31T12:05:00Z",
        "queued": 1200,
    }
    held = {"domain": "b.example", "queued": 70, "is_blocked": False, "is_paused": True}
    running = snapshot("running", queued=1200)
    stopped = replace(running, left_out={"scope": 9}, put_off=[host], held=[held])
    text = shown(summary_table(stopped))
    assert "crawl 1 running" in text
    assert "0, 0 B" in text
    assert "scope 9" in text
    assert "http://a.example:81: robots.txt: connection refused, tried again at 12:05:00" in text
    assert "1,200 URLs wait" in text
    assert "b.example is paused; 70 URLs wait" in text


def test_a_url_in_brackets_is_shown_as_it_is():
    odd = error("http 404") | {"sample_url": "http://a.example/[bold]x"}
    assert "http://a.example/[bold]x" in shown(summary_table(snapshot("completed", errors=(odd,))))


def test_counts_that_are_0_are_left_out():
    assert counts({"done": 1200, "failed": 0, "out_of_scope": 2}) == "done 1,200 · out of scope 2"
    assert counts({"done": 0}) == "none"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 * 1024**3, "3.0 GiB")],
)
def test_sizes_are_told_in_their_largest_unit(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("state", "is_it"),
    [("completed", True), ("limit_reached", True), ("cancelled", False), ("failed", False)],
)
def test_a_limit_is_a_good_end(state, is_it):
    assert is_good(snapshot(state)) is is_it


def test_the_document_has_everything_that_the_table_has():
    document = summary_document(snapshot("completed", pages=21, done=21), Path("/x/crawl-1.ndjson"))
    assert document["crawl"] == 1
    assert document["state"] == "completed"
    assert document["pages_per_s"] == 2.0
    assert document["urls"]["done"] == 21
    assert document["records"] == "/x/crawl-1.ndjson"

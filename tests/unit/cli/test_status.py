from io import StringIO

from rich.console import Console

from manyhands.cli.status import rendered
from tests.unit.cli.snapshots import error, queue, view


def shown(found: dict[str, object]) -> str:
    console = Console(width=120, file=StringIO(), markup=False, record=True)
    console.print(rendered(found))
    return console.export_text()


def test_queues_and_crawls_are_tables():
    ended = view("completed", pages=5) | {"reason": "every URL has come to its end"}
    text = shown(
        {
            "queues": [queue("crawl.01", 2, 1.5), queue("parse", 0)],
            "sets": {"retries": 1200, "dead": 3, "scheduled": 0},
            "crawls": [view(pages=1200, queued=34) | {"id": 2, "pages_per_s": 12.34}, ended],
        }
    )
    lines = [line.split() for line in text.splitlines()]
    assert ["crawl.*", "2", "1.5", "s"] in lines
    assert ["parse", "0", "–"] in lines
    assert "retries 1,200 · dead 3 · scheduled 0 · working 0" in text
    assert ["2", "running", "1,200", "12.3", "34", "politeness:", "40"] in [
        line[:7] for line in lines
    ]
    assert ["1", "completed", "5", "–", "0", "every", "URL"] in [line[:7] for line in lines]


def test_an_api_without_crawls_says_so():
    text = shown({"queues": [], "sets": {}, "crawls": None})
    assert "no queue has had a job yet" in text
    assert "CRAWL_STATE is not set" in text


def test_one_crawl_is_told_in_full():
    note = {"at": "2030-01-31T12:00:00Z", "text": "3 pages were lost in parsing"}
    found = view(pages=3, done=2, links=9) | {"errors": [error("http 500", 7)], "notes": [note]}
    text = shown(found)
    assert "limited by  politeness: 40 domains" in text
    assert "7 × http 500" in text
    assert "2030-01-31T12:00:00 3 pages were lost in parsing" in text


def test_an_ended_crawl_is_limited_by_nothing():
    assert "limited by" not in shown(view("completed") | {"errors": []})

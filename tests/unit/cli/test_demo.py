import pytest

from manyhands.cli.demo import wrongs
from tests.unit.cli.snapshots import snapshot

GOOD = {"twice": 0, "violations": 0, "text": "22 visits, all polite"}


def test_a_perfect_crawl_has_nothing_wrong():
    assert wrongs(snapshot("completed", done=20), GOOD, records=20, pages=20) == []


@pytest.mark.parametrize(
    ("state", "done", "records", "verdict", "said"),
    [
        ("failed", 20, 20, GOOD, "ended as failed"),
        ("completed", 19, 20, GOOD, "19 pages done and 20 records, of 20 pages"),
        ("completed", 20, 21, GOOD, "20 pages done and 21 records, of 20 pages"),
        ("completed", 20, 20, GOOD | {"twice": 1, "text": "1 fetched again"}, "1 fetched again"),
        ("completed", 20, 20, GOOD | {"violations": 2, "text": "2 short gaps"}, "2 short gaps"),
    ],
)
def test_whatever_is_not_perfect_is_told(state, done, records, verdict, said):
    found = wrongs(snapshot(state, done=done), verdict, records=records, pages=20)
    assert len(found) == 1
    assert said in found[0]

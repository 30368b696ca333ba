"""What goes to `_bulk`, and what its answer means for each document."""

from typing import Any

import orjson
import pytest

from manyhands.worker.records import Capture, PlainRecord
from manyhands.worker.sinks.servers import elasticsearch_bulk
from manyhands.worker.sinks.servers.elasticsearch_bulk import (
    PAGES_INDEX,
    Document,
    Fate,
    document_of,
    fates_of,
    indices_of,
    reason_in,
    requests_of,
)
from tests.support.sink_records import page, plain

INDICES = indices_of("crawl")
CAPTURE = Capture("id", "url", "2026-11-17T05:44:33Z", "127.0.0.1", b"", b"", b"", False)


def lines(document: Document) -> list[Any]:
    assert document.lines.endswith(b"\n")
    return [orjson.loads(line) for line in document.lines.splitlines()]


def test_a_page_is_created_under_its_id():
    document = document_of(page(1), INDICES)
    assert document.name == ("crawl-pages", page(1).id)
    assert lines(document) == [
        {"create": {"_index": "crawl-pages", "_id": page(1).id}},
        orjson.loads(orjson.dumps(page(1))),
    ]


def test_every_field_of_a_page_is_mapped():
    mapped = PAGES_INDEX["mappings"]["properties"]
    assert set(mapped) == set(page(1).__slots__)


def test_a_record_is_an_object_in_any_case():
    assert lines(document_of(plain(1), INDICES))[1] == {"id": "job.1", "body": {"number": 1}}
    assert lines(document_of(plain(1, [1]), INDICES))[1] == {"id": "job.1", "body": {"value": [1]}}


def test_lines_are_ended_by_nothing_in_the_text():
    document = document_of(plain(1, {"a\nb": "\r\n\u2028"}), INDICES)
    assert document.lines.count(b"\n") == 2


@pytest.mark.parametrize(
    "record",
    [PlainRecord("", 1), PlainRecord("ä" * 257, 1), PlainRecord("\ud800", 1), CAPTURE],
)
def test_what_can_be_no_document_is_an_error(record):
    with pytest.raises((TypeError, ValueError)):
        document_of(record, INDICES)


def test_requests_are_as_large_as_they_may_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(elasticsearch_bulk, "MOST_BODY_BYTES", 10)
    sizes = [4, 6, 1, 30, 10, 5]
    placed = [(at, Document(("i", str(at)), b"x" * size)) for at, size in enumerate(sizes)]
    requests = [[at for at, _ in together] for together in requests_of(placed)]
    assert requests == [[0, 1], [2], [3], [4], [5]]
    assert list(requests_of([])) == []


def item(status: int, **error: Any) -> dict[str, Any]:
    return {"create": {"status": status} | ({"error": error} if error else {})}


@pytest.mark.parametrize(
    ("answered", "fate"),
    [
        (item(201), Fate.DONE),
        (item(200), Fate.DONE),
        (item(409, type="version_conflict_engine_exception"), Fate.DONE),
        (item(429, type="es_rejected_execution_exception"), Fate.AGAIN),
        (item(500, type="exception"), Fate.AGAIN),
        (item(503, type="unavailable_shards_exception"), Fate.AGAIN),
        (item(400, type="mapper_parsing_exception"), Fate.REFUSED),
        (item(400, type="document_parsing_exception"), Fate.REFUSED),
        (item(400, type="index_closed_exception"), Fate.BARRED),
        (item(403, type="cluster_block_exception"), Fate.BARRED),
        (item(404, type="index_not_found_exception"), Fate.BARRED),
        (item(400), Fate.REFUSED),
    ],
)
def test_a_status_decides_the_fate_of_its_document(answered: dict[str, Any], fate: Fate):
    answer = {"errors": True, "items": [answered]}
    assert [found for found, _ in fates_of(answer, 1)] == [fate]


def test_without_errors_all_are_done():
    assert fates_of({"errors": False}, 3) == [(Fate.DONE, "")] * 3


@pytest.mark.parametrize(
    "answer", [None, [], {"status": 1}, {"errors": True, "items": [item(201)] * 3}]
)
def test_an_answer_that_does_not_fit_is_an_error(answer: Any):
    with pytest.raises(ValueError, match="answer"):
        fates_of(answer, 2)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "status 502"),
        ({"error": "text"}, "status 502"),
        ({"error": {"type": "a", "reason": "b\n c"}}, "a: b c"),
        ({"error": {"type": "a", "reason": "b", "caused_by": {"reason": "c"}}}, "a: b: c"),
        ({"error": {"type": "a"}}, "a"),
        ({"error": {"reason": "x" * 1000}}, ("error: " + "x" * 1000)[:300]),
    ],
)
def test_a_reason_is_one_line_of_bounded_length(answer: Any, reason: str):
    assert reason_in(answer, 502) == reason

"""Text and JSON of records: what strangers wrote, in a form that every server takes."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.records import PlainRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused
from manyhands.worker.sinks.rows import (
    json_of,
    json_without_nul,
    reason_of,
    rows_of,
    text_without_nul,
    valid_text,
)
from tests.support.sink_records import page, plain

ANY_TEXT = st.text(st.characters())  # with surrogates
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


@given(ANY_TEXT)
def test_valid_text_can_be_encoded_and_stays_as_long(text: str):
    valid = valid_text(text)
    valid.encode()
    assert len(valid) == len(text)
    if valid != text:
        assert "\ufffd" in valid


@given(ANY_TEXT)
def test_text_without_nul_has_none(text: str):
    assert "\0" not in text_without_nul(text)
    assert len(text_without_nul(text)) == len(text) - text.count("\0")


@given(ANY_JSON)
def test_whatever_a_handler_emits_becomes_json(value: Any):
    assert isinstance(orjson.loads(json_of(value)), type(value))


@given(ANY_JSON)
def test_json_without_nul_has_none_wherever_it_stood(value: Any):
    assert not has_nul(orjson.loads(json_without_nul(value)))


def has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_nul(one) for pair in value.items() for one in pair)
    if isinstance(value, list):
        return any(map(has_nul, value))
    return isinstance(value, str) and "\0" in value


def test_a_backslash_before_zeros_is_no_nul():
    assert orjson.loads(json_without_nul(["\\u0000", "\0"])) == ["\\u0000", ""]


def test_a_page_with_half_a_pair_becomes_json_with_all_its_fields():
    made = orjson.loads(json_of(page(1, title="a\ud800", links=["https://l.example/\udfff"])))
    expected = orjson.loads(orjson.dumps(page(1)))
    assert made == expected | {"title": "a\ufffd", "links": ["https://l.example/\ufffd"]}


@pytest.mark.parametrize("levels", [300, 100_000])
def test_what_is_nested_too_deeply_is_no_json(levels: int):
    body: Any = ["\ud800"]
    for _ in range(levels):
        body = [body]
    with pytest.raises(TypeError):
        json_of(body)


def test_rows_are_made_in_order():
    assert rows_of([page(1), plain(1)], lambda record: record.id) == [page(1).id, "job.1"]


def test_all_that_can_be_no_row_are_refused_at_once():
    def row(record: Record) -> bytes:
        assert isinstance(record, PlainRecord)
        if record.body == "impossible":
            raise ValueError("no such thing\nand more of it")
        return json_of(record.body)

    bodies = [1, {2}, "impossible", 4]
    with pytest.raises(RecordsRefused) as refused:
        rows_of([PlainRecord(str(body), body) for body in bodies], row)
    assert refused.value.reasons == {1: "Type is not JSON serializable: set", 2: "no such thing"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("one\ntwo"), "one"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("a" * 1000), "a" * 300),
    ],
)
def test_a_reason_is_one_line_of_bounded_length(error: Exception, reason: str):
    assert reason_of(error) == reason

"""The schema of page records: that the record follows it, and what is chosen by which names."""

from dataclasses import fields
from pathlib import Path

import orjson
import pytest

from manyhands.shared.crawl.page_fields import (
    CHOICES,
    DEFAULT,
    FIELDS,
    OF_ARRIVAL,
    UnknownField,
    chosen,
)
from manyhands.worker.records import PageRecord


def test_a_record_has_the_fields_of_the_schema_in_their_order():
    assert [field.name for field in fields(PageRecord)] == [field.name for field in FIELDS]


def test_the_page_about_records_has_them_all():
    page = (Path(__file__).parents[4] / "docs/FETCHING.md").read_text()
    _, _, section = page.partition("## The record\n")
    example = section.partition("```json\n")[2].partition("```")[0]
    assert list(orjson.loads(example)) == [field.name for field in FIELDS]
    cells = {row.split("|")[1] for row in section.splitlines() if row.startswith("| `")}
    named = " ".join(cells)
    assert [field.name for field in FIELDS if f"`{field.name}`" not in named] == []
    assert [choice for choice in CHOICES if f"`{choice}`" not in named] == []


def test_what_is_chosen_by_a_name_can_be_null():
    assert {field.name for field in FIELDS if field.choice and field.is_required} == {"links"}


def test_nothing_said_is_the_default_and_more_can_be_added_to_it():
    assert chosen(("default",)) == DEFAULT
    assert chosen(("default", "markdown")) == DEFAULT | {"markdown"}
    assert chosen(("links",)) == {"links"}


def test_what_costs_much_is_not_in_the_default():
    assert DEFAULT.isdisjoint({"markdown", "html", "full_text", "simhash", "all_headers"})
    assert {"text", "title", "links", "timings"} <= DEFAULT
    assert set(CHOICES) >= OF_ARRIVAL


def test_a_name_that_nothing_has_is_told_with_those_that_there_are():
    with pytest.raises(UnknownField, match="'nope' is no field of a record: default, title, "):
        chosen(("links", "nope"))
